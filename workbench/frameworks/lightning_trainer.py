"""Save the fits of Lightning's Trainer, which continue on any number of ranks.

A fit is saved after updates, once their logs, validation and checkpoints are done, with the same
batch of all ranks on any number of them. Lightning counts in batches of a rank, which are others on
another number of ranks; what is set in batches is meant in those of the first ranks.
"""

from __future__ import annotations

import copy
import functools
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.core.run.batch import WANTED_VARIABLE
from workbench.engine.run_context import RunContext
from workbench.engine.snapshot.entries import (
    StateEntry,
    find_saved_random,
    has_state_dict,
    is_plain,
)
from workbench.frameworks.torch.common_batches import (
    CommonBatches,
    common_batches_of,
    has_order,
    is_divided,
    limit_examples,
)
from workbench.frameworks.torch.common_stream import find_stream, take_stream
from workbench.frameworks.torch.entries import copy_to_host
from workbench.frameworks.torch.library_loop import LibraryLoop, LibraryTraining, callback_state

_STRATEGIES = ("SingleDeviceStrategy", "DDPStrategy")
# What changes optimizers, schedulers or parameters while it trains, or tries several trainings.
_CHANGING = {
    "BaseFinetuning": "changes the optimizer's parameters",
    "BatchSizeFinder": "looks for a batch size that fits",
    "GradientAccumulationScheduler": "changes how many batches an update has",
    "LearningRateFinder": "looks for a learning rate",
    "ModelPruning": "changes the model's parameters",
    "StochasticWeightAveraging": "replaces the scheduler",
}
_OWN = ("lightning.", "pytorch_lightning.", "workbench.")
# Of Lightning's own callbacks, beside what their state_dict has.
_COUNTED = ("_last_global_step_saved", "_latest_update_epoch", "_latest_update_step")
_LOGGED = ("_callback_metrics", "_logged_metrics", "_progress_bar_metrics")
_NEVER = sys.maxsize


def run_fit(fit: Callable[..., Any], trainer: Any, *args: Any, **kwargs: Any) -> Any:
    """Do a Trainer's fit, saved if the run saves it."""
    begins = functools.partial(fit, trainer, *args, **kwargs)
    if trainer.fast_dev_run or _is_search(trainer):
        return begins()
    return LightningTrainer.run_saved(trainer, begins, args[0] if args else kwargs["model"])


def _is_search(trainer: Any) -> bool:
    """Return whether a Tuner tries a fit, which ends without training."""
    return any(getattr(one, "_early_exit", False) for one in trainer.callbacks)


def _is_own(kind: type) -> bool:
    return kind.__module__.startswith(_OWN)


class FitProgress(StateEntry):
    """How far a fit is, what it has logged, and what its module keeps beside its parameters.

    Args:
        parts: Batches of a rank in an update, on the first ranks.
    """

    kind = "the progress of a Trainer"
    order = 3  # what hooks of checkpoints are given has been restored

    def __init__(self, trainer: Any, batches: CommonBatches) -> None:
        super().__init__({}, "progress")
        self.trainer, self.batches = trainer, batches
        self.parts: int = trainer.accumulate_grad_batches
        self.check = 0
        """After how many batches of the first ranks a validation follows."""
        self.before = 0
        """Batches of the first ranks in earlier epochs."""
        self._pending: list[dict[str, Any]] = []

    def count(self, update: int) -> int:
        """Return how many batches of an update a rank had on the first ranks."""
        return math.ceil(self.batches.size(update) * self.parts / self.batches.total)

    def place(self, updates: int) -> int:
        """Return the batches of the epoch that a rank of the first ones had in some updates."""
        if updates < self.batches.updates:
            return updates * self.parts
        return (updates - 1) * self.parts + self.count(updates - 1)

    def own(self) -> dict[str, Any]:
        """Return a copy."""
        trainer, fit = self.trainer, self.trainer.fit_loop
        epoch, connector = fit.epoch_loop, trainer._logger_connector
        return {
            "parts": self.parts,
            "check": self.check,
            "before": self.before,
            "loops": {name: one.state_dict() for name, one in self._counters().items()},
            "stepped": epoch._batches_that_stepped,
            "logged": {name: copy_to_host(getattr(connector, name), None) for name in _LOGGED},
            "first": connector._first_loop_iter,
            "results": {key: _metric_state(one) for key, one in epoch._results.items()},
            "metrics": {name: _metric_state(one) for name, one in self._metrics().items()},
            "attributes": self._attributes(),
            "should_stop": trainer.should_stop,
            "hooks": self._ask_hooks(),
        }

    def _counters(self) -> dict[str, Any]:
        fit = self.trainer.fit_loop
        return {
            "epochs": fit.epoch_progress,
            "scheduler": fit.epoch_loop.scheduler_progress,
            "optimizer": fit.epoch_loop.automatic_optimization.optim_progress,
        }

    def _metrics(self) -> dict[str, Any]:
        """Return the metrics of the module that it updates while it trains."""
        kind = getattr(sys.modules.get("torchmetrics"), "Metric", ())
        modules = self.trainer.lightning_module.named_modules()
        return {name: one for name, one in modules if isinstance(one, kind)}

    def _attributes(self) -> dict[str, Any]:
        values = vars(self.trainer.lightning_module)
        public = {name: one for name, one in values.items() if not name.startswith("_")}
        return {
            name: copy.deepcopy(one)
            for name, one in public.items()
            if name != "training" and is_plain(one)
        }

    def _call_hooks(self, hook: str, checkpoint: dict[str, Any]) -> None:
        """Call hooks for checkpoints that are none of Lightning's."""
        trainer, model = self.trainer, self.trainer.lightning_module
        for one in (model, *trainer.callbacks):
            if not _is_own(_definer(one, hook)):
                given = (checkpoint,) if one is model else (trainer, model, checkpoint)
                getattr(one, hook)(*given)

    def _ask_hooks(self) -> dict[str, Any]:
        """Return what hooks for checkpoints add, on the first rank, as in Lightning's own."""
        if not self.trainer.is_global_zero:
            return {}
        checkpoint = {"state_dict": self.trainer.lightning_module.state_dict()}
        self._call_hooks("on_save_checkpoint", checkpoint)
        del checkpoint["state_dict"]
        return dict(copy_to_host(checkpoint, None))

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Continue; what ranks have summed up by themselves is divided among those there are."""
        trainer, saved = self.trainer, owns[0]
        fit, connector, batches = trainer.fit_loop, trainer._logger_connector, self.batches
        epoch = fit.epoch_loop
        self.parts, self.check, self.before = saved["parts"], saved["check"], saved["before"]
        for name, one in self._counters().items():
            one.load_state_dict(copy.deepcopy(saved["loops"][name]))
        done = batches.done * batches.parts
        before = self.before * batches.parts // self.parts
        for tracker, count in (
            (epoch.batch_progress.current, done),
            (epoch.batch_progress.total, before + done),
        ):
            vars(tracker).update(dict.fromkeys(vars(tracker), count))
        epoch.batch_progress.is_last_batch = False
        epoch._batches_that_stepped = saved["stepped"]
        device = trainer.strategy.root_device
        for name, logged in saved["logged"].items():
            placed = {key: one.to(device) for key, one in logged.items() if hasattr(one, "to")}
            setattr(connector, name, logged | placed)
        connector._first_loop_iter = saved["first"]
        trainer.should_stop = saved["should_stop"]
        mine = owns[rank::ranks]
        self._pending = [one["results"] for one in mine] if batches.done else []
        for name, metric in self._metrics().items():
            for one in mine:
                _merge(metric, one["metrics"].get(name, {}))
        model = trainer.lightning_module
        for name in saved["attributes"]:
            values = [(one["attributes"].get(name),) for one in owns]
            if (value := find_saved_random(values, rank)) is not None:
                setattr(model, name, copy.deepcopy(value[0]))
        checkpoint = {"state_dict": model.state_dict(), **copy.deepcopy(saved["hooks"])}
        self._call_hooks("on_load_checkpoint", checkpoint)
        return ""

    def log(self, original: Callable[..., Any], fx: str, name: str, *args: Any, **kw: Any) -> None:
        """Log a value; the first time, with what was logged in the epoch before the snapshot."""
        results = self.trainer.fit_loop.epoch_loop._results
        before = set(results)
        original(fx, name, *args, **kw)
        for key in results.keys() - before:
            for one in self._pending:
                _merge(results[key], one.get(key, {}))

    def end_epoch(self) -> None:
        """Forget what belongs to the epoch that has ended."""
        self._pending = []


class LightningTrainer(LibraryTraining):
    """One fit of a Trainer that is saved after its updates; methods of its loops are replaced."""

    called, packages, tried = "Lightning", ("lightning", "pytorch_lightning"), "2.6"

    def __init__(self, trainer: Any, run: RunContext) -> None:
        super().__init__(trainer, run)
        self.progress: FitProgress | None = None
        self._is_refused = self._is_mid_epoch = self._has_finished = False
        self._steps = 0
        self._loader: Any = None
        self._limit: int | float = 1.0
        """Of the batches of a validation."""
        self._validated: list[Any] = []
        """Loaders of validations whose examples are limited to those of the first ranks."""

    @property
    def is_first(self) -> bool:
        """Whether this rank speaks for all."""
        return bool(self.trainer.is_global_zero)

    def why_not_saved(self, model: Any) -> str:
        """Return why it cannot be saved in a release that was tried."""
        trainer = self.trainer
        if int(self.run.world.get("WORLD_SIZE", "1")) != trainer.world_size:
            return "each rank trains alone (devices=1)"
        strategy = next(one.__name__ for one in type(trainer.strategy).__mro__ if _is_own(one))
        if strategy not in _STRATEGIES:
            return f"its strategy is {strategy}"
        if getattr(trainer.strategy, "_ddp_comm_state", None) is not None:
            return "its hook for the exchange of gradients keeps a state"
        if not model.automatic_optimization:
            return "it optimizes by hand (automatic_optimization = False)"
        for callback in trainer.callbacks:
            for kind in type(callback).__mro__:
                if _is_own(kind) and (why := _CHANGING.get(kind.__name__)):
                    return f"its {type(callback).__name__} {why}"
        if trainer.reload_dataloaders_every_n_epochs:
            return "its data is loaded again after some epochs (reload_dataloaders_every_n_epochs)"
        return ""

    def install(self) -> None:
        """Replace methods of its loops."""
        trainer = self.trainer
        fit, epoch = trainer.fit_loop, trainer.fit_loop.epoch_loop
        self.keep(trainer, "accumulate_grad_batches", "num_sanity_val_steps")
        if self.run.snapshots is not None and self.run.snapshots.resumes:
            trainer.num_sanity_val_steps = 0
        for owner, name, function in (
            (fit._data_source, "dataloader", self._request),
            (trainer._data_connector, "_prepare_dataloader", self._prepare),
            (fit, "setup_data", self._setup),
            (fit, "run", self._run),
            (fit, "reset", self._reset),
            (fit, "on_advance_start", self._begin_epoch),
            (fit, "on_advance_end", self._end_epoch),
            (fit, "on_run_end", self._finish),
            (epoch, "reset", self._reset_epoch),
            (epoch, "on_run_start", self._begin_batches),
            (epoch, "on_advance_end", self._end_batch),
            (epoch, "_should_check_val_fx", self._validates),
            (epoch, "update_lr_schedulers", self._schedule),
            (epoch.val_loop, "setup_data", self._setup_validation),
            (epoch._results, "log", self._log),
            (trainer.strategy, "backward", self._backward),
        ):
            self.replace(owner, name, function)

    # What gives the batches

    def _request(self, original: Callable[[], Any]) -> Any:
        loader, trainer = original(), self.trainer
        if self.loop is not None or self._is_refused:
            return loader
        own = getattr(loader, "batch_sampler", None)
        if (begun := self.begin(self._take_common(loader))) is None:
            self._is_refused = True
            return loader
        self._loader, loop = begun
        if self._loader is loader:
            self.undone.callback(vars(loader).update, batch_sampler=own)
        batches = loop.place.batches
        batches.continues = True
        self.progress = FitProgress(trainer, batches)
        trainer.accumulate_grad_batches = batches.parts
        trainer.limit_train_batches = 1.0  # the batches follow it
        if loop.is_resumed and isinstance(trainer.val_check_interval, int):
            trainer.val_check_interval = 1.0
        return self._loader

    def _take_common(self, loader: Any) -> tuple[Any, CommonBatches] | str:
        trainer = self.trainer
        ranks = self._first_ranks
        place, limit = (trainer.global_rank, trainer.world_size), trainer.limit_train_batches
        accumulated, own = trainer.accumulate_grad_batches, getattr(loader, "batch_sampler", None)
        if (stream := find_stream(getattr(loader, "dataset", None), own)) is not None:
            size = loader.batch_size or 1
            most = limit * size * ranks if isinstance(limit, int) else 0
            total = size * accumulated * ranks
            return take_stream(loader, stream, size, total, place, loader.drop_last, limit=most)
        if ranks > 1 and not (self._divides or is_divided(loader)):
            return "each rank trains on all of its data (use_distributed_sampler=False)"
        if trainer.overfit_batches and own is not None:
            loader = self._resample(loader, _data_module(trainer).SequentialSampler(loader.dataset))
        found = common_batches_of(
            loader,
            accumulated=accumulated,
            ranks=ranks,
            place=place,
            seed=int(os.environ.get("PL_GLOBAL_SEED", "0")),
            limit=limit,
        )
        if isinstance(found, str):
            return found
        vars(loader)["batch_sampler"] = found
        return loader, found

    @property
    def _first_ranks(self) -> int:
        """The number of ranks whose batches are counted."""
        if self.progress is None:
            return max(int(self.trainer.world_size), int(os.environ.get(WANTED_VARIABLE, "0")))
        batches = self.progress.batches
        return batches.total // (batches.most * self.progress.parts)

    @property
    def _divides(self) -> bool:
        """Whether Lightning divides the examples of a loader among the ranks."""
        return bool(self.trainer._accelerator_connector.use_distributed_sampler)

    def _resample(self, loader: Any, sampler: Any, **given: Any) -> Any:
        """Return a loader with another sampler."""
        return _data_module(self.trainer)._update_dataloader(loader, sampler, **given)

    def _prepare(self, original: Callable[..., Any], loader: Any, *args: Any, **kw: Any) -> Any:
        if self._loader is not None and loader is self._loader:
            return loader
        if kw["mode"].dataloader_prefix != "val" or not self._limits(loader):
            return original(loader, *args, **kw)
        own = loader.batch_sampler
        first = limit_examples(own.sampler, own.batch_size, self._first_ranks, self._limit)
        if not len(first):  # Lightning raises
            return original(loader, *args, **kw)
        found = original(self._resample(loader, first, mode=kw["mode"]), *args, **kw)
        self._validated.append(found)
        self.trainer.limit_val_batches = 1.0  # the batches follow it
        return found

    def _limits(self, loader: Any) -> bool:
        """Return whether validations use a part of a loader's examples, which Lightning divides."""
        is_limited = isinstance(self._limit, int) or self._limit != 1.0
        if not is_limited or self._is_refused or not self._divides or not has_order(loader):
            return False
        return find_stream(loader.dataset, loader.batch_sampler) is None

    def _setup_validation(self, original: Callable[[], None]) -> None:
        """Set up the data of validations; a limit is meant in batches of the first ranks."""
        trainer, loop = self.trainer, self.trainer.fit_loop.epoch_loop.val_loop
        self._limit, self._validated = trainer.limit_val_batches, []
        try:
            original()
        finally:
            trainer.limit_val_batches = self._limit
        for number, loader in enumerate(loop._combined_loader.flattened if self._validated else ()):
            if all(loader is not one for one in self._validated):
                found = _data_module(trainer)._parse_num_batches
                loop._max_batches[number] = found(
                    loop._stage, loop._max_batches[number], self._limit
                )

    def _setup(self, original: Callable[[], None]) -> None:
        """Set up the data; limits in batches are meant in those of the first ranks."""
        trainer, was = self.trainer, self.loop
        limit, interval = trainer.limit_train_batches, trainer.val_check_interval
        try:
            original()
        finally:
            trainer.limit_train_batches, trainer.val_check_interval = limit, interval
        progress = self.progress
        check = trainer.val_check_batch
        if progress is not None and was is None and check is not None and not math.isinf(check):
            of_epoch = progress.place(progress.batches.updates)
            is_count = isinstance(interval, int)
            progress.check = interval if is_count else max(1, int(of_epoch * interval))

    # Where it begins

    def _run(self, original: Callable[[], None]) -> None:
        self.trainer.fit_loop.setup_data()
        if self.loop is None:
            return original()
        self._attach(self.loop)
        fit = self.trainer.fit_loop
        if self.loop.is_resumed and fit.done and not self.loop.place.is_over:
            fit.reset()  # only the hooks of its end are left
            self.loop.continue_random()
            fit.on_run_start()
            fit.on_run_end()
            return None
        original()
        if not self._has_finished:  # there is nothing left to do
            self.loop.continue_random()
            self.loop.finish()
        return None

    def _attach(self, loop: LibraryLoop) -> None:
        """Restore the fit."""
        trainer, fit, batches = self.trainer, self.trainer.fit_loop, loop.place.batches
        steps, epochs = trainer.estimated_stepping_batches, trainer.max_epochs or 0
        steps = 0 if math.isinf(steps) or steps < 0 else steps
        if not loop.is_resumed and trainer.global_step:
            self._begin_at_own(loop)
        loop.attach(self._entries(), steps=steps or None, epochs=max(0, epochs) or None)
        if loop.is_resumed:
            trainer.should_stop |= loop.place.is_over
            self._is_mid_epoch = batches.done > 0
            for one in (fit, fit.epoch_loop, fit.epoch_loop.val_loop):
                one._restarting = one._loaded_from_state_dict = False
                one._resuming_from_checkpoint = False
        self._steps = trainer.global_step

    def _begin_at_own(self, loop: LibraryLoop) -> None:
        """Begin at the place of a checkpoint of its own, whose epoch Lightning begins again."""
        trainer, fit, batches = self.trainer, self.trainer.fit_loop, loop.place.batches
        count, epochs = fit.epoch_loop.batch_progress, fit.epoch_progress.current
        has_begun = epochs.started > epochs.processed
        is_within = has_begun and 0 < count.current.ready < fit.max_batches
        batches.epoch = epochs.processed + (has_begun and not is_within)
        batches.done = count.current.ready // batches.parts if is_within else 0
        assert self.progress is not None
        self.progress.before = count.total.ready - (count.current.ready if is_within else 0)
        loop.count_from(trainer.global_step)
        if batches.done:
            iter(fit._data_fetcher)

    def _entries(self) -> dict[str, Any]:
        trainer = self.trainer
        found = {
            "model": trainer.lightning_module,
            "optimizer": trainer.optimizers[0],
            "progress": self.progress,
        }
        for number, one in enumerate(trainer.lr_scheduler_configs):
            found[f"scheduler {number}"] = one.scheduler
        if trainer.precision_plugin.state_dict():
            found["precision"] = trainer.precision_plugin
        if (data := trainer.datamodule) is not None and not _is_own(_definer(data, "state_dict")):
            found["data module"] = data
        return found | _callback_entries(trainer.callbacks, [*found.values(), trainer.model])

    def _reset(self, original: Callable[[], None]) -> None:
        original()
        if self._is_mid_epoch:
            fit = self.trainer.fit_loop
            fit._restart_stage = "restarted_mid_epoch"  # the epoch has begun before
            fit._resuming_from_checkpoint = True  # what gives its batches has begun

    def _reset_epoch(self, original: Callable[[], None]) -> None:
        if not self._is_mid_epoch:
            original()

    def _begin_epoch(self, original: Callable[[], None]) -> None:
        if self.loop is not None and not self._is_mid_epoch:
            self.loop.continue_random()
        original()

    def _begin_batches(self, original: Callable[[Any], None], fetcher: Any) -> None:
        original(fetcher)
        if self.loop is not None:
            self.loop.continue_random()
        self._is_mid_epoch = False

    # What follows an update

    def _end_batch(self, original: Callable[[Any], None], fetcher: Any) -> None:
        """Save the fit where all that follows from an update is done."""
        epoch = self.trainer.fit_loop.epoch_loop
        original(fetcher)
        if self.loop is None:
            return
        if self._has_stepped and not epoch.done:
            self._commit(self.loop)

    def _end_epoch(self, original: Callable[[], None]) -> None:
        original()
        if (loop := self.loop) is None or self.progress is None:
            return
        self.progress.end_epoch()
        batches = loop.place.batches
        if self._has_stepped:
            self.progress.before += self.progress.place(batches.done + 1)
            batches.done = batches.updates - 1  # also where it ends early
            self._commit(loop)
        elif batches.done:
            batches.end_epoch()

    @property
    def _has_stepped(self) -> bool:
        return bool(self.trainer.global_step != self._steps)

    def _commit(self, loop: LibraryLoop) -> None:
        self._steps = self.trainer.global_step
        loop.commit()

    def _finish(self, original: Callable[[], None]) -> None:
        original()
        if self.loop is not None:
            self.loop.place.is_over = self._has_finished = True
            self.loop.finish()

    # What Lightning counts in batches

    def _validates(self, original: Callable[[Any], bool], fetcher: Any) -> bool:
        """Return whether a validation follows: with the weights that it has on the first ranks."""
        trainer, progress = self.trainer, self.progress
        epoch = trainer.fit_loop.epoch_loop
        is_early = trainer.should_stop and trainer.fit_loop._can_stop_early
        if progress is None or not progress.check or is_early or epoch.restarting:
            return bool(original(fetcher))
        if epoch._should_accumulate() or not epoch._should_check_val_epoch():
            return False
        batches = progress.batches
        begun = progress.before if trainer.check_val_every_n_epoch is None else 0
        is_last = batches.done + 1 >= batches.updates
        first = last = begun + progress.place(batches.done + 1)
        if not is_last:
            last = begun + progress.place(batches.done + 2) - 1
        return last // progress.check * progress.check >= first

    def _schedule(self, original: Callable[..., None], interval: str, **given: Any) -> None:
        """Step the schedulers; the number of batches between two steps is that of the first."""
        progress, configs = self.progress, self.trainer.lr_scheduler_configs
        if progress is None or interval != "step":
            original(interval, **given)
            return
        before = [one.frequency for one in configs]
        done = progress.place(progress.batches.done + 1)
        for one in configs:
            one.frequency = 1 if done % one.frequency == 0 else _NEVER
        try:
            original(interval, **given)
        finally:
            for one, frequency in zip(configs, before, strict=True):
                one.frequency = frequency

    def _backward(self, original: Callable[..., Any], loss: Any, *args: Any, **kw: Any) -> Any:
        """Weight the loss of this rank's part, so that the mean over ranks is that of all."""
        if self.loop is None or self.progress is None:
            return original(loss, *args, **kw)
        batches, progress = self.loop.place.batches, self.progress
        done, parts = batches.done, batches.parts
        part = self.trainer.fit_loop.epoch_loop.batch_progress.current.ready - 1 - done * parts
        weight = batches.weight(part)
        # It divides by the parts of a whole update, also in a smaller one.
        weight *= parts / batches.count_parts(done) * progress.count(done) / progress.parts
        return original(loss if weight == 1 else loss * weight, *args, **kw)

    def _log(self, original: Callable[..., Any], *args: Any, **kw: Any) -> None:
        if self.progress is None:
            original(*args, **kw)
        else:
            self.progress.log(original, *args, **kw)


def _data_module(trainer: Any) -> Any:
    """Return the module of Lightning that prepares its loaders."""
    return sys.modules[type(trainer._data_connector).__module__]


def _callback_entries(callbacks: Sequence[Any], known: Sequence[Any]) -> dict[str, Any]:
    """Return the entries of what callbacks keep."""
    own = [one for one in callbacks if not _is_own(type(one))]
    found = callback_state(own, known)
    for number, one in enumerate(callbacks):
        name = f"{number} of Lightning's callbacks"
        if _is_own(type(one)):
            kept = {key: value for key, value in vars(one).items() if has_state_dict(value)}
            found |= {f"{name}.{key}": value for key, value in kept.items()}
        if one.state_dict() or any(name in vars(one) for name in _COUNTED):
            found[name] = CallbackState(one)
    return found


class CallbackState:
    """What a callback's ``state_dict`` has, and some of what it counts beside."""

    def __init__(self, callback: Any) -> None:
        self._callback = callback

    def state_dict(self) -> dict[str, Any]:
        """Return copies."""
        values = vars(self._callback)
        counted = {name: values[name] for name in _COUNTED if name in values}
        return {"own": copy_to_host(self._callback.state_dict(), None), "counted": counted}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue."""
        one, own = self._callback, state["own"]
        if "dirpath" in own:  # it takes its best ones from the folder that it has begun in alone
            one.dirpath = own["dirpath"]
        if own:
            one.load_state_dict(copy.deepcopy(own))
        vars(one).update(state["counted"])


def _definer(value: Any, name: str) -> type:
    """Return the class that defines an attribute of an object."""
    return next((one for one in type(value).__mro__ if name in vars(one)), type(value))


def _metric_state(metric: Any) -> dict[str, Any]:
    """Return what a metric has summed up on this rank, by the names of its states."""
    return {name: copy_to_host(getattr(metric, name), None) for name in metric._defaults}


def _merge(metric: Any, state: Mapping[str, Any]) -> None:
    """Add to a metric what another rank has summed up."""
    for name, saved in state.items():
        present, kind = getattr(metric, name), metric._reductions.get(name)
        if isinstance(present, list):
            present.extend(saved)
            continue
        value = saved.to(present.device)
        reduction = getattr(getattr(metric, "meta", None), "reduce_fx", None)
        called = getattr(reduction if name == "value" and reduction else kind, "__name__", "")
        if "max" in called:
            merged = present.maximum(value)
        elif "min" in called:
            merged = present.minimum(value)
        else:
            merged = present + value
        setattr(metric, name, merged)
    if state:
        metric._update_count = max(1, getattr(metric, "_update_count", 0))
