"""Have accelerate report what it logs, call launched functions on the ranks, and begin again.

It keeps what it found about its ranks for as long as the process lives.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.core.run.batch import WANTED_VARIABLE
from workbench.engine.framework import Framework
from workbench.engine.reporting.report import report_logged
from workbench.engine.run_context import current
from workbench.errors import InputError
from workbench.frameworks.torch.launchers import (
    call_on_rank,
    describe_call,
    run_with_ranks,
    say,
)
from workbench.frameworks.torch.process_groups import find_distributed, groups

if TYPE_CHECKING:
    from workbench.engine.snapshot.entries import LoopData
    from workbench.frameworks.torch.common_batches import CommonBatches

# What accelerate knows of the ranks, and then keeps for as long as the process lives.
_ACCELERATE_STATES = ("AcceleratorState", "GradientState", "PartialState")
_PRECISION = "ACCELERATE_MIXED_PRECISION"

_HOOK = "workbench.frameworks.accelerate"


class AccelerateFramework(Framework):
    """Hugging Face's accelerate, whose loops are PyTorch's."""

    hooks: ClassVar = {
        "accelerate.accelerator": f"{_HOOK}:wrap_accelerator",
        "accelerate.launchers": f"{_HOOK}:wrap_launchers",
    }
    requirements: ClassVar = {"accelerate": "accelerate"}

    def install(self) -> None:
        """Watch it, and have it begin again where it finds no group."""
        super().install()
        groups.followers.append(self.leave)

    def begin_run(self, size: int, *, is_script: bool) -> None:
        """Leave its group if it has begun on another number of ranks."""
        if count_begun_ranks() not in (0, size):
            groups.leave()

    def loop_data(self, data: Any) -> LoopData | None:
        """Return what gives a loop the batches of a ``DataLoader`` that was prepared."""
        module = sys.modules.get("accelerate.data_loader")
        if module is None:
            return None
        if not isinstance(data, module.DataLoaderShard | module.DataLoaderDispatcher):
            return None
        from workbench.frameworks.torch.common_batches import CommonLoaderData

        ranks = max(count_begun_ranks(), int(os.environ.get(WANTED_VARIABLE, "0")))
        found = take_common(data, 1, ranks, is_whole=True)
        if isinstance(found, str):
            raise InputError(
                f"elastic(data=…) has a DataLoader of accelerate, and {found}",
                "give it data with indices, or a stream, and a sampler that knows no ranks.",
            )
        updates = _Updates(module.GradientState())
        return CommonLoaderData(*found, "a DataLoader that was prepared", updates.end_batch)

    def leave(self) -> None:
        """Have it look for the run's ranks again where it is used next."""
        reset_state()


class _Updates:
    """Counts the batches of an update, whose gradients accelerate adds up.

    Args:
        gradients: What accelerate knows of them.
    """

    def __init__(self, gradients: Any) -> None:
        self._gradients = gradients
        if not gradients.sync_with_dataloader:
            raise InputError(
                "elastic(data=…) has a DataLoader of an Accelerator whose updates reach over the "
                "end of an epoch (sync_with_dataloader=False)",
                "leave that out: an epoch then ends with an update.",
            )
        self._batches = 0

    def end_batch(self, ends_epoch: bool) -> bool:
        """Return whether the model was updated after a batch.

        Raises:
            InputError: Accelerate counts otherwise, so that gradients might be lost unseen.
        """
        most: int = self._gradients.num_steps
        if most == 1:
            return True
        self._batches += 1
        is_update = ends_epoch or self._batches == most
        if self._gradients.sync_gradients != is_update:
            raise InputError(
                f"The Accelerator accumulates the gradients of {most} batches, and it has not "
                f"counted batch {self._batches} of this update as one of them",
                "make the Accelerator in the same program as the loop, and put all of the loop's "
                "body into `with accelerator.accumulate(model):`.",
            )
        if is_update:
            self._batches = 0
        return is_update


def wrap_accelerator(module: Any) -> None:
    """Report what accelerate logs, and from how many ranks it loads a state."""
    log = module.Accelerator.log
    if hasattr(log, "_workbench"):
        return

    @functools.wraps(log)
    def logged(accelerator: Any, values: Any, *args: Any, **kwargs: Any) -> Any:
        report_logged(values)
        return log(accelerator, values, *args, **kwargs)

    begin = module.Accelerator.__init__

    @functools.wraps(begin)
    def initialize(accelerator: Any, *args: Any, **kwargs: Any) -> None:
        if current() is not None and is_stranded():
            reset_state()  # its end_training() has destroyed the group, and kept the rest
        begin(accelerator, *args, **kwargs)

    load = module.Accelerator.load_state

    @functools.wraps(load)
    def loaded(accelerator: Any, input_dir: Any = None, *args: Any, **kwargs: Any) -> Any:
        if current() is not None and input_dir and accelerator.is_main_process:
            from workbench.frameworks.torch.library_loop import remark_ranks

            remark_ranks(input_dir, "random_states_*.pkl", accelerator.num_processes)
        return load(accelerator, input_dir, *args, **kwargs)

    vars(logged)["_workbench"] = True
    module.Accelerator.__init__, module.Accelerator.log = initialize, logged
    module.Accelerator.load_state = loaded


def wrap_launchers(module: Any) -> None:
    """Have accelerate's launchers call their function on the ranks."""
    for name in ("notebook_launcher", "debug_launcher"):
        launch = getattr(module, name, None)
        if launch is not None and not hasattr(launch, "__wrapped__"):
            setattr(module, name, _wrap_launcher(launch))


def _wrap_launcher(launch: Callable[..., Any]) -> Callable[..., Any]:
    """Return one of accelerate's launchers, which calls its function where ranks are."""
    signature = inspect.signature(launch)

    @functools.wraps(launch)
    def launched(*args: Any, **kwargs: Any) -> Any:
        run = run_with_ranks()
        if run is None:
            return launch(*args, **kwargs)
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        function = given.arguments["function"]
        precision = str(given.arguments.get("mixed_precision", "no")).lower()
        say(run, describe_call(launch.__name__, function, int(run.world["WORLD_SIZE"])))
        with _variable(_PRECISION, "" if precision == "no" else precision):
            call_on_rank(run, function, *given.arguments["args"])

    return launched


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Set a variable of the environment for a while, if ``value`` is not empty."""
    before = os.environ.get(name)
    if value:
        os.environ[name] = value
    try:
        yield
    finally:
        if value and before is None:
            os.environ.pop(name, None)
        elif value and before is not None:
            os.environ[name] = before


def take_common(
    loader: Any, accumulated: int, ranks: int, *, is_whole: bool = False
) -> tuple[Any, CommonBatches] | str:
    """Have a prepared loader give any number of ranks the batches that ``ranks`` would have.

    Args:
        loader: What ``Accelerator.prepare`` made of a ``DataLoader``.
        accumulated: Its batches of each rank in an update.
        is_whole: Whether a rank takes its part of an update at once, however large it is.

    Returns:
        The loader, which is another one of a stream, and what chooses its batches; or why that is
        not possible, as a clause.
    """
    from workbench.frameworks.torch.common_batches import (
        CommonBatches,
        undivide,
        why_not_common,
    )
    from workbench.frameworks.torch.common_stream import find_stream, take_stream

    module: Any = sys.modules["accelerate.data_loader"]
    inner, state = getattr(loader, "base_dataloader", loader), module.PartialState()
    data, batches = inner.dataset, inner.batch_sampler
    splits = bool(getattr(loader, "split_batches", False))
    if isinstance(batches, module.BatchSamplerShard):
        splits, batches = batches.split_batches, batches.batch_sampler
    size = getattr(batches, "batch_size", 1) or 1
    if isinstance(data, module.IterableDatasetShard):
        splits, size, data = data.split_batches, data.batch_size, data.dataset
    stream = find_stream(data, batches)
    is_dispatched = isinstance(loader, module.DataLoaderDispatcher)
    if is_dispatched and stream is None:
        return "one rank reads the data of all (dispatch_batches)"
    if isinstance(batches, module.SkipBatchSampler) or getattr(loader, "skip_batches", False):
        return "its first batches are left out (skip_first_batches); a resumed loop skips by itself"
    if stream is None and (why := why_not_common(batches)):
        return why
    most = -(-size // ranks) if splits else size
    total = size * accumulated * (1 if splits else ranks)
    most = sys.maxsize if is_whole else most
    place = state.process_index, state.num_processes
    if stream is not None:
        drop_last = bool(getattr(loader, "_drop_last", inner.drop_last))
        taken = take_stream(inner, stream, most, total, place, drop_last)
        if isinstance(taken, str) or loader is inner:
            return taken
        read, streamed = taken
        return (loader if read is inner else _prepare_again(loader, read)), streamed
    undivide(batches)
    common = CommonBatches(batches, most, total, *place)
    if is_whole and not common.is_plain:
        return f"its {type(batches).__name__} chooses whole batches"
    vars(inner)["batch_sampler"] = common
    return loader, common


def _prepare_again(loader: Any, taken: Any) -> Any:
    """Return what ``prepare`` makes of a loader that needs no division, as another one was."""
    module: Any = sys.modules["accelerate.data_loader"]
    device = getattr(loader, "device", None)
    if isinstance(loader, module.DataLoaderDispatcher):
        device = module.PartialState().device
    return module.DataLoaderShard(
        taken.dataset,
        device=device,
        batch_sampler=taken.batch_sampler,
        collate_fn=taken.collate_fn,
        pin_memory=taken.pin_memory,
        _non_blocking=loader._non_blocking,
    )


def reset_state() -> None:
    """Have accelerate look for the run's ranks again where it is used next."""
    module = sys.modules.get("accelerate.state")
    for name in _ACCELERATE_STATES:
        kept = getattr(getattr(module, name, None), "_shared_state", None)
        if isinstance(kept, dict):
            kept.clear()


def is_stranded() -> bool:
    """Return whether accelerate counts on a process group that does not exist any more."""
    return bool(_read_state().get("backend")) and find_distributed() is None


def count_begun_ranks() -> int:
    """Return on how many ranks accelerate has begun; 0 if it has not."""
    known = _read_state()
    ranks = known.get("num_processes", 1) if known else 0
    return ranks if isinstance(ranks, int) else 0


def _read_state() -> dict[str, Any]:
    """Return what accelerate knows of the ranks."""
    kind = getattr(sys.modules.get("accelerate.state"), "PartialState", None)
    known = getattr(kind, "_shared_state", None)
    return known if isinstance(known, dict) else {}
