"""Make what Lightning, Hugging Face's Trainer and accelerate log into values of the run.

Losses, rates and iterations are seen at PyTorch itself; this adds what a framework logs beside
them, and how many iterations and epochs it plans.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from workbench.engine.run_context import current
from workbench.frameworks.torch.process_groups import is_accelerate_stranded, reset_accelerate

# The loop's own curves have these, at every step.
_SEEN = frozenset({"loss", "lr", "learning_rate", "epoch", "step", "total_flos"})
_LOGGED = "_workbench_logged"


def report_logged(values: Mapping[str, Any]) -> None:
    """Report what a framework logs at the present iteration, as far as it is numbers."""
    if (run := current()) is None:
        return
    numbers = [
        (name, number)
        for name, value in values.items()
        if name not in _SEEN | run.own_names and (number := _number(value)) is not None
    ]
    if numbers:
        run.log.add_all(run.iteration, tuple(numbers))


def plan(iterations: float, epochs: float) -> None:
    """Note how many iterations and epochs a framework plans; infinite or below 1 is unknown."""
    if (run := current()) is None:
        return
    known = [one if 0 < one < float("inf") else 0 for one in (iterations, epochs)]
    run.log.progress = replace(
        run.log.progress, iterations_total=int(known[0]), epochs_total=float(known[1])
    )


def _number(value: Any) -> float | None:
    """Return a value's number; None if it has none."""
    size = getattr(value, "numel", None)
    if isinstance(value, bool | str) or (callable(size) and size() != 1):
        return None
    try:
        return float(value.detach() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError):
        return None


def wrap_lightning(module: Any) -> None:
    """Report what Lightning's modules log."""

    class Values(module.Callback):
        """Lightning's callback that reports what modules log."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            plan(trainer.estimated_stepping_batches, trainer.max_epochs or 0)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
            logged = vars(pl_module).pop(_LOGGED, {})
            # Its own rule for logging, as a value on a device is waited for.
            if trainer.global_step % max(1, trainer.log_every_n_steps) == 0:
                report_logged(logged)

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            names = vars(pl_module).pop(_LOGGED, {})
            if not trainer.sanity_checking:
                means = trainer.callback_metrics
                report_logged({name: means[name] for name in names if name in means})

    kinds = module.Trainer, module.LightningModule
    if hasattr(kinds[1].log, "__wrapped__"):
        return
    begin, log = kinds[0].__init__, kinds[1].log

    @functools.wraps(begin)
    def initialize(trainer: Any, *args: Any, **kwargs: Any) -> None:
        begin(trainer, *args, **kwargs)
        if current() is not None:
            trainer.callbacks.append(Values())

    @functools.wraps(log)
    def logged(pl_module: Any, name: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        if current() is not None:
            vars(pl_module).setdefault(_LOGGED, {})[name] = value
        return log(pl_module, name, value, *args, **kwargs)

    kinds[0].__init__, kinds[1].log = initialize, logged


def wrap_transformers(module: Any) -> None:
    """Report what Hugging Face's Trainer logs."""

    class Values(module.TrainerCallback):
        """Hugging Face's callback that reports what its Trainer logs."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            plan(state.max_steps, state.num_train_epochs)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            values = logs or {}
            report_logged({k: v for k, v in values.items() if not k.startswith("train_")})

    begin = module.Trainer.__init__

    @functools.wraps(begin)
    def initialize(trainer: Any, *args: Any, **kwargs: Any) -> None:
        begin(trainer, *args, **kwargs)
        if current() is not None:
            trainer.add_callback(Values())

    module.Trainer.__init__ = initialize


def wrap_accelerate(module: Any) -> None:
    """Report what accelerate logs."""
    log = module.Accelerator.log

    @functools.wraps(log)
    def logged(accelerator: Any, values: Any, *args: Any, **kwargs: Any) -> Any:
        report_logged(values)
        return log(accelerator, values, *args, **kwargs)

    begin = module.Accelerator.__init__

    @functools.wraps(begin)
    def initialize(accelerator: Any, *args: Any, **kwargs: Any) -> None:
        if current() is not None and is_accelerate_stranded():
            reset_accelerate()  # its end_training() has destroyed the group, and kept the rest
        begin(accelerator, *args, **kwargs)

    module.Accelerator.__init__, module.Accelerator.log = initialize, logged
