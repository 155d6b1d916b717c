"""Let programs that insist on GPUs train on CPUs: they are published so, and stay unmodified.

Put this folder on PYTHONPATH of the ranks. A device's number means the CPU then, and NCCL gloo.
"""

from __future__ import annotations

import functools
from typing import Any

from workbench.engine.import_hook import when_imported


def _on_cpu(torch: Any) -> None:
    for kind in (torch.Tensor, torch.nn.Module):
        kind.to = _placed(kind.to)
    torch.cuda.set_device = torch.accelerator.set_device_index = lambda *_: None
    torch.accelerator.is_available = lambda *_, **__: True
    torch.accelerator.device_count = lambda *_, **__: 8
    torch.accelerator.current_accelerator = lambda *_, **__: torch.device("cpu")
    loader = torch.utils.data.DataLoader
    loaded = loader.__init__
    loader.__init__ = lambda *args, **named: loaded(*args, **{**named, "pin_memory": False})
    replica = torch.nn.parallel.DistributedDataParallel
    made = replica.__init__

    @functools.wraps(made)
    def initialize(
        self: Any, module: Any, device_ids: Any = None, *args: Any, **named: Any
    ) -> None:
        made(self, module, None, *args, **named)

    replica.__init__ = initialize
    joined = torch.distributed.init_process_group

    @functools.wraps(joined)
    def join(backend: Any = None, *args: Any, **named: Any) -> None:
        joined("gloo" if backend == "nccl" else backend, *args, **named)

    torch.distributed.init_process_group = join


def _placed(original: Any) -> Any:
    @functools.wraps(original)
    def to(self: Any, *args: Any, **named: Any) -> Any:
        if args and (isinstance(args[0], int) or str(args[0]).startswith("cuda")):
            args = ("cpu", *args[1:])
        return original(self, *args, **named)

    return to


when_imported("torch", _on_cpu)
