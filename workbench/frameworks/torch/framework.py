"""PyTorch, as workbench asks for it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.engine.framework import Framework
from workbench.engine.stale_communicators import sentence
from workbench.frameworks.torch.process_groups import gave_up, group_sockets, groups, lacks_group

if TYPE_CHECKING:
    from workbench.engine.snapshot.entries import LoopData, StateEntry


class TorchFramework(Framework):
    """PyTorch."""

    hooks: ClassVar = {
        "torch": "workbench.frameworks.torch.hook:wrap_torch",
        "torch.distributed.distributed_c10d": "workbench.frameworks.torch.hook:wrap_distributed",
        "torch.distributed.pipelining.schedules": "workbench.frameworks.torch.hook:wrap_pipeline",
        "torch.serialization": "workbench.frameworks.torch.hook:announce_files",
        "torch.multiprocessing": "workbench.frameworks.torch.launchers:wrap_spawn",
    }
    packages = ("torch", "deepspeed")
    distributions = ("torch",)
    requirements: ClassVar = {"torch": "torch"}
    # The first optimizer imports the second of these, which takes longer than the first.
    followed: ClassVar = {
        "/torch/lib/libtorch_python.so": (
            "torch",
            "torch._dynamo",
            "workbench.frameworks.torch.hook",
            "workbench.frameworks.torch.entries",
        )
    }
    harmless = (
        "torch._dynamo",
        "torch._inductor",
        "torch.hub",
        "torch.utils.cpp_extension",
        "torch.utils.data",
        "torchaudio.datasets",
        "torchtext.datasets",
        "torchvision.datasets",
        "triton",
    )
    caches = ("TORCH_HOME",)
    calls = ("/torch/distributed/distributed_c10d.py",)
    waits_elsewhere = r"/torch/(serialization|multiprocessing|utils/data|_inductor|_dynamo)\b"
    wrappers: ClassVar = {
        "/torch/nn/parallel/distributed.py": "DistributedDataParallel",
        "/torch/distributed/fsdp/": "FullyShardedDataParallel",
    }
    data = "a DataLoader"

    def begin_world(self, *, alone: bool) -> None:
        """Choose where process groups may listen."""
        group_sockets.stay_within(alone=alone)

    def begin_run(self, size: int, *, is_script: bool) -> None:
        """Leave an earlier run's process groups, unless they are of use to this one's cell."""
        groups.begin_run(size, is_script=is_script)

    def free(self, run: str) -> None:
        """Close the connections of process groups."""
        groups.free(run)

    def leave(self) -> None:
        """Destroy the process groups."""
        groups.leave()

    def owns(self, error: BaseException) -> bool:
        """Return whether gloo raised ``error`` because another rank closed its connection."""
        return gave_up(error)

    def stale(self, error: BaseException) -> str:
        """Return the message for an error that is due to groups of a run that failed."""
        if groups.are_stale and (gave_up(error) or lacks_group(error)):
            return sentence("A process group that is used here", groups.closed_by)
        return ""

    def membership(self) -> tuple[int, int] | None:
        """Return the place in the default process group, if there is one."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_available():
            return None
        if not distributed.is_initialized():
            return None
        return distributed.get_rank(), distributed.get_world_size()

    def uses_device(self) -> bool:
        """Return whether it has begun to use the GPUs."""
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        # It may be half imported.
        return bool(getattr(cuda, "is_initialized", lambda: False)())

    def has_chosen_devices(self) -> bool:
        """Return the same: it reads which GPUs it may use when it begins to use them."""
        return self.uses_device()

    def random_states(self) -> dict[str, Any]:
        """Return the states of the shared generators of the CPU and of each device."""
        if (torch := sys.modules.get("torch")) is None:
            return {}
        found = {"torch": torch.get_rng_state().numpy().copy()}
        if torch.cuda.is_initialized():
            found["cuda"] = [one.cpu().numpy().copy() for one in torch.cuda.get_rng_state_all()]
        return found

    def restore_random(self, states: Mapping[str, Any], seed: int) -> None:
        """Continue the generators; there may be fewer or more devices now."""
        if (torch := sys.modules.get("torch")) is None:
            return
        if "torch" in states:
            torch.set_rng_state(torch.from_numpy(states["torch"].copy()))
        for device, state in zip(
            range(torch.cuda.device_count()), states.get("cuda", ()), strict=False
        ):
            torch.cuda.set_rng_state(torch.from_numpy(state.copy()), device)

    def state_entry(self, name: str, value: Any) -> type[StateEntry] | None:
        """Return how an object of PyTorch is saved."""
        if "torch" not in sys.modules:
            return None
        from workbench.frameworks.torch.entries import torch_entry

        return torch_entry(name, value)

    def loop_data(self, data: Any) -> LoopData | None:
        """Return what gives a loop the batches of a ``DataLoader``."""
        if "torch" not in sys.modules:
            return None
        from workbench.frameworks.torch.data import loader_data

        return loader_data(data)
