"""Have Lightning report what its modules log, and train on the ranks that there are."""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from workbench.engine.boundary import RunStopped
from workbench.engine.framework import Framework
from workbench.engine.reporting.report import plan, report_logged
from workbench.engine.run_context import RunContext, current
from workbench.frameworks.torch.launchers import check_size, run_with_ranks, say

_RANKS = "workbench_ranks"  # in its checkpoints
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
        """Lightning's callback that reports what modules log, and saves a checkpoint if asked."""

        is_asked = False

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            plan(trainer.estimated_stepping_batches, trainer.max_epochs or 0)
            if (run := current()) is not None and trainer.checkpoint_callback is not None:
                run.boundaries.ask = self.ask

        def ask(self) -> bool:
            """Have a checkpoint saved at the end of this step."""
            self.is_asked = True
            return True

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
            logged = vars(pl_module).pop(_LOGGED, {})
            # Its own rule for logging, as a value on a device is waited for.
            if trainer.global_step % max(1, trainer.log_every_n_steps) == 0:
                report_logged(logged)
            if self.is_asked and not trainer.fit_loop._should_accumulate():
                save_checkpoint(trainer)
                raise RunStopped(f"stopped at iteration {trainer.global_step}")

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            names = vars(pl_module).pop(_LOGGED, {})
            if not trainer.sanity_checking:
                means = trainer.callback_metrics
                report_logged({name: means[name] for name in names if name in means})

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            if (run := current()) is not None:
                run.boundaries.ask = None

        def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
            checkpoint[_RANKS] = trainer.world_size

        def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
            from workbench.frameworks.torch.library_loop import remark_other_ranks

            run, saved = current(), checkpoint.get(_RANKS)
            if run is not None and run.snapshots is not None and run.snapshots.resumes:
                return  # a snapshot of ours says where it continues
            name = Path(trainer.ckpt_path or "").name
            if name and saved and trainer.is_global_zero and trainer.state.fn == "fit":
                remark_other_ranks(name, saved, trainer.world_size)

    elastic: Any = import_module(".plugins.environments", module.__name__).TorchElasticEnvironment

    class Ranks(elastic):
        """The ranks of the run, however many devices their hosts have."""

        def validate_settings(self, *_: Any, **__: Any) -> None:
            pass

    kinds = module.Trainer, module.LightningModule
    if hasattr(kinds[1].log, "__wrapped__"):
        return
    begin, log, fit = kinds[0].__init__, kinds[1].log, kinds[0]._fit_impl

    @functools.wraps(begin)
    def initialize(trainer: Any, *args: Any, **kwargs: Any) -> None:
        if (run := run_with_ranks()) is not None:
            on_gpus = kwargs.get("accelerator", "auto") in ("auto", "cuda", "gpu")
            count = module.accelerators.CUDAAccelerator.auto_device_count
            use_ranks(run, kwargs, Ranks, gpus=count() if on_gpus else 0)
        begin(trainer, *args, **kwargs)
        if current() is not None:
            trainer.callbacks.append(Values())

    @functools.wraps(log)
    def logged(pl_module: Any, name: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        if current() is not None:
            vars(pl_module).setdefault(_LOGGED, {})[name] = value
        return log(pl_module, name, value, *args, **kwargs)

    @functools.wraps(fit)
    def run_fit(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        from workbench.frameworks import lightning_trainer

        return lightning_trainer.run_fit(fit, trainer, *args, **kwargs)

    kinds[0].__init__, kinds[0]._fit_impl, kinds[1].log = initialize, run_fit, logged
    wrap_calls(import_module(".trainer.call", module.__name__))


def wrap_calls(module: Any) -> None:
    """Have a stop leave Lightning as it came, which would end the process in its place."""
    call = module._call_and_handle_interrupt

    @functools.wraps(call)
    def handle(*args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return call(*args, **kwargs)
        before = signal.getsignal(signal.SIGINT)
        try:
            return call(*args, **kwargs)
        except SystemExit as error:
            cause = error.__context__
            if not isinstance(cause, KeyboardInterrupt):
                raise
            signal.signal(signal.SIGINT, before)
        raise cause

    module._call_and_handle_interrupt = handle


def save_checkpoint(trainer: Any) -> None:
    """Save a checkpoint where a Trainer saves its own: its last one, if it keeps such."""
    saver = trainer.checkpoint_callback
    candidates = saver._monitor_candidates(trainer)
    if saver.save_last:
        saver._save_last_checkpoint(trainer, candidates)
    else:
        saver._save_checkpoint(trainer, saver.format_checkpoint_name(candidates))


def use_ranks(run: RunContext, given: dict[str, Any], environment: Any, *, gpus: int = 0) -> None:
    """Have a Trainer train on the ranks of the run, however many its program names.

    Args:
        given: Its arguments, which are changed.
        environment: Lightning's class for what a launcher has started.
        gpus: Those that the ranks of this host train on; 0 if they train on CPUs.
    """
    world = run.world
    devices, nodes = given.get("devices", "auto"), given.get("num_nodes", 1)
    strategy = given.get("strategy", "auto")
    if (devices in (1, "1") and nodes == 1 and strategy == "auto") or not world:
        return
    size, local = int(world["WORLD_SIZE"]), int(world["LOCAL_WORLD_SIZE"])
    hosts = int(world.get("GROUP_WORLD_SIZE", "1"))
    wanted = int(devices) * nodes if str(devices).isdecimal() else size
    if wanted not in (size, -1):
        say(run, f"Lightning trains on the {size} ranks of this run, in place of {wanted}.")
    given |= {"devices": min(local, gpus or local), "num_nodes": hosts}
    if strategy == "auto" and size > 1:
        given["strategy"] = "ddp"
    plugins = given.get("plugins") or []
    plugins = [*plugins] if isinstance(plugins, Iterable) else [plugins]
    own = getattr(strategy, "cluster_environment", None)
    if own is None and not any(hasattr(one, "creates_processes_externally") for one in plugins):
        given["plugins"] = [*plugins, environment()]


def wrap_strategy(module: Any) -> None:
    """Have Lightning's launchers use the ranks, also where hosts have unequal numbers of them."""
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
    if hasattr(kind, "_get_process_group_backend"):
        choose, share = kind._get_process_group_backend, kind.distributed_sampler_kwargs.fget

        @functools.wraps(choose)
        def choose_backend(strategy: Any) -> Any:
            run = run_with_ranks()
            local = int(run.world["LOCAL_WORLD_SIZE"]) if run is not None else 0
            # NCCL takes no GPU that ranks share.
            shares = local > len(strategy.parallel_devices or ()) > 0
            return strategy._process_group_backend or ("gloo" if shares else choose(strategy))

        def divide(strategy: Any) -> Any:
            ranks = {"num_replicas": strategy.world_size} if run_with_ranks() is not None else {}
            return share(strategy) | ranks

        kind._get_process_group_backend = choose_backend
        kind.distributed_sampler_kwargs = property(divide)
