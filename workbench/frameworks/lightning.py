"""Have Lightning report what its modules log, and train on the ranks that there are."""

from __future__ import annotations

import functools
import sys
from typing import Any, ClassVar

from workbench.engine.framework import Framework
from workbench.engine.reporting.report import plan, report_logged
from workbench.engine.run_context import current
from workbench.frameworks.torch.launchers import check_size, run_with_ranks, say

_LOGGED = "_workbench_logged"

_STRATEGIES = (
    "lightning.pytorch.strategies.ddp",
    "lightning.fabric.strategies.ddp",
    "pytorch_lightning.strategies.ddp",
    "lightning_fabric.strategies.ddp",
)


class LightningFramework(Framework):
    """Lightning, whose loops are PyTorch's."""

    hooks: ClassVar = {
        "lightning.pytorch": "workbench.frameworks.lightning:wrap_package",
        "pytorch_lightning": "workbench.frameworks.lightning:wrap_package",
        **dict.fromkeys(_STRATEGIES, "workbench.frameworks.lightning:wrap_strategy"),
    }
    requirements: ClassVar = {"lightning": "lightning"}

    def install(self) -> None:
        """Watch Lightning, and let it train where it would see a prompt.

        It refuses to train by processes that another launcher has started where Python has one. A
        rank has none, although IPython says so.
        """
        vars(sys).pop("ps1", None)
        super().install()


def wrap_package(module: Any) -> None:
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


def wrap_strategy(module: Any) -> None:
    """Have Lightning's launchers use the ranks."""
    kind = module.DDPStrategy
    configure = getattr(kind, "_configure_launcher", None)
    if configure is None or hasattr(configure, "__wrapped__"):
        return

    @functools.wraps(configure)
    def configure_launcher(strategy: Any) -> None:
        run = run_with_ranks()
        if run is not None and strategy._start_method != "popen":
            wanted = strategy.num_nodes * strategy.num_processes
            check_size("Lightning", "devices", wanted, int(run.world["WORLD_SIZE"]))
            say(run, "Lightning trains on the ranks of this run, in place of new processes.")
            strategy._start_method = "popen"  # the way of a launcher outside, which the ranks are
        configure(strategy)

    kind._configure_launcher = configure_launcher
