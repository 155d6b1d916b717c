"""Save the trainings of Hugging Face's Trainer, and report what it logs.

Its training is saved after updates, with all that it keeps, and continues on any number of ranks
with the same batch of all of them. A script that loads its own checkpoints (``--restart``) saves
one before it starts again elsewhere.
"""

from __future__ import annotations

import copy
import functools
import importlib.metadata
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from workbench.core.run.batch import WANTED_VARIABLE
from workbench.engine.boundary import RunStopped
from workbench.engine.reporting.report import plan, report_logged
from workbench.engine.run_context import RunContext, current
from workbench.engine.snapshot.entries import StateEntry
from workbench.frameworks.torch.library_loop import (
    LibraryLoop,
    callback_state,
    refuse,
    remark_ranks,
    saving_run,
)

TRIED = "5.24"
"""The release of transformers whose Trainer has been saved and resumed."""

_HERE = "workbench"  # in the place of a checkpoint of its own
# Of its state; the rest follows from its arguments.
_COUNTED = (
    "epoch",
    "global_step",
    "num_input_tokens_seen",
    "total_flos",
    "log_history",
    "best_metric",
    "best_global_step",
    "best_model_checkpoint",
)


def wrap_trainer(module: Any) -> None:
    """Report what Hugging Face's Trainer logs, and save its trainings.

    Args:
        module: ``transformers.trainer``.
    """
    if vars(module).setdefault("_workbench", module.Trainer.train) is not module.Trainer.train:
        return

    class Watching(module.TrainerCallback):
        """Hugging Face's callback that reports what its Trainer logs, and sees its steps end."""

        is_asked = False
        saved: TransformersTrainer | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            plan(state.max_steps, state.num_train_epochs)
            if (run := current()) is not None and args.save_strategy != "no":
                run.boundaries.ask = self.ask

        def ask(self) -> bool:
            """Have it save a checkpoint at the end of this step."""
            self.is_asked = True
            return True

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_save |= self.is_asked
            if self.saved is not None:
                self.saved.ended_step()

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if self.saved is not None:
                self.saved.ends_epoch = True

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if self.is_asked:
                raise RunStopped(f"stopped at iteration {state.global_step}")

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if (run := current()) is not None:
                run.boundaries.ask = None

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            values = logs or {}
            report_logged({k: v for k, v in values.items() if not k.startswith("train_")})

    begin, train = module.Trainer.__init__, module.Trainer.train

    @functools.wraps(begin)
    def initialize(trainer: Any, *args: Any, **kwargs: Any) -> None:
        begin(trainer, *args, **kwargs)
        if current() is not None:
            trainer.add_callback(Watching())

    @functools.wraps(train)
    def run_training(
        trainer: Any, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        run = saving_run()
        if current() is not None and resume_from_checkpoint and trainer.is_world_process_zero():
            path = resume_from_checkpoint
            path = module.get_last_checkpoint(trainer.args.output_dir) if path is True else path
            remark_ranks(path or "", "rng_state*.pth", trainer.args.world_size)
        callbacks = trainer.callback_handler.callbacks
        watching = next((one for one in callbacks if isinstance(one, Watching)), None)
        if run is None or watching is None:
            return train(trainer, resume_from_checkpoint, *args, **kwargs)
        if why := _why_not_saved(trainer):
            refuse(run, why, says=trainer.is_world_process_zero())
            return train(trainer, resume_from_checkpoint, *args, **kwargs)
        watching.saved = saved = TransformersTrainer(trainer, run)
        with saved.installed():
            return train(trainer, resume_from_checkpoint, *args, **kwargs)

    module.Trainer.__init__, module.Trainer.train = initialize, run_training


def _why_not_saved(trainer: Any) -> str:
    """Return why a Trainer cannot be saved, a clause; empty if it can, as far as is known yet."""
    version, args = importlib.metadata.version("transformers"), trainer.args
    if not version.startswith(f"{TRIED}."):
        return f"transformers {version} was not tried, only {TRIED}"
    if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        return "its model is divided among the ranks"
    if getattr(trainer, "is_distributed_loading_by_transformers", False):
        return "its model is divided among the ranks"
    if args.n_gpu > 1:
        return "one rank trains on several GPUs"
    return "it looks for a batch size that fits" if args.auto_find_batch_size else ""


class TrainerSums:
    """What a Trainer counts and adds up between its logs, beside its state."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.begun = time.time()
        self.lived = 0.0
        """Seconds that earlier attempts have trained."""

    def read(self) -> dict[str, Any]:
        """Return them; what all ranks have alike is rank 0's."""
        trainer = self.trainer
        state = {name: copy.deepcopy(getattr(trainer.state, name)) for name in _COUNTED}
        return {
            "state": None if trainer.args.process_index else state,
            "loss": float(trainer._tr_loss),
            "losses": trainer._total_loss_scalar,
            "logged": trainer._globalstep_last_logged,
            "first": trainer._initial_global_step,
            "tokens": trainer._initial_num_input_tokens_seen,
            "flos": trainer.current_flos,
            "lived": self.lived + time.time() - self.begun,
        }

    def set_state(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Continue its state, before the Trainer begins to add up."""
        for name, value in saved[0]["state"].items():
            setattr(self.trainer.state, name, copy.deepcopy(value))

    def set(self, saved: Sequence[Mapping[str, Any]], rank: int, ranks: int) -> None:
        """Continue the sums; ranks that were not there have the means of those that were."""
        trainer, first = self.trainer, saved[0]
        losses = [one["loss"] for one in saved]
        own = losses[rank] if ranks == len(saved) else sum(losses) / len(losses)
        trainer._tr_loss.fill_(own)
        trainer._total_loss_scalar = first["losses"]
        trainer._globalstep_last_logged = first["logged"]
        trainer._initial_global_step = first["first"]
        trainer._initial_num_input_tokens_seen = first["tokens"]
        trainer.current_flos = sum(one["flos"] for one in saved) / ranks
        self.lived = first["lived"]


class SumsEntry(StateEntry):
    """The sums of a Trainer."""

    kind = "the sums of a Trainer"

    def own(self) -> Any:
        """Return them."""
        return self.value.read()

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Continue them."""
        self.value.set_state(owns)
        self.value.set(owns, rank, ranks)
        return ""


class TransformersTrainer:
    """One training of a Trainer that is saved after its updates.

    Its methods are replaced on the object for as long as it trains: what decides where it begins,
    what gives its batches and what follows an update.
    """

    def __init__(self, trainer: Any, run: RunContext) -> None:
        self.trainer, self.run = trainer, run
        self.loop: LibraryLoop | None = None
        self.ends_epoch = False
        self._has_stepped, self._part = False, 0
        self._accumulated = 1  # by a rank in an update, as its arguments say
        self._divides: bool | None = None  # whether the loss is divided by the number of items
        self._sums = TrainerSums(trainer)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Have the training saved in the context."""
        trainer, args = self.trainer, self.trainer.args
        kept = {
            name: getattr(args, name)
            for name in ("gradient_accumulation_steps", "ignore_data_skip", "eval_on_start")
        }
        replaced: dict[str, Callable[..., Any]] = {
            "get_train_dataloader": self._loader,
            "_init_training_state": self._state,
            "_prepare_for_training": self._prepare,
            "_run_epoch": self._epoch,
            "_load_rng_state": self._random,
            "_maybe_log_save_evaluate": self._followed,
            "_finalize_training": self._finalize,
            "compute_loss": self._loss,
        }
        handler = trainer.callback_handler
        for name, function in replaced.items():
            original = getattr(trainer, name)
            setattr(trainer, name, functools.wraps(original)(functools.partial(function, original)))
        handler.on_train_begin = functools.partial(self._begin, handler.on_train_begin)
        try:
            yield
        finally:
            for name in replaced:
                vars(trainer).pop(name, None)
            vars(handler).pop("on_train_begin", None)
            for name, value in kept.items():
                setattr(args, name, value)

    def ended_step(self) -> None:
        """Note that an update has ended; what follows from it comes next."""
        self._has_stepped, self._part = True, 0

    def _loader(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        from workbench.frameworks.accelerate import take_common

        loader, trainer = original(*args, **kwargs), self.trainer
        own = trainer.args
        ranks = max(own.world_size, int(os.environ.get(WANTED_VARIABLE, "0")))
        self._accumulated = own.gradient_accumulation_steps
        batches = take_common(loader, self._accumulated, ranks)
        if isinstance(batches, str):
            refuse(self.run, batches, says=trainer.is_world_process_zero())
            return loader
        self.loop = LibraryLoop(batches)
        self.loop.begin()
        own.gradient_accumulation_steps = batches.parts
        own.ignore_data_skip = False
        own.eval_on_start &= not self.loop.is_resumed
        return loader

    def _state(
        self,
        original: Callable[..., Any],
        max_steps: int,
        updates: int,
        epochs: int,
        checkpoint: Any,
        trial: Any,
    ) -> Any:
        loop, trainer = self.loop, self.trainer
        if loop is None:
            return original(max_steps, updates, epochs, checkpoint, trial)
        batches = loop.place.batches
        if not loop.is_resumed:
            begun, given = original(max_steps, updates, epochs, checkpoint, trial)
            batches.epoch, batches.done = begun, given // batches.parts
            if trainer.state.global_step:
                loop.count_from(trainer.state.global_step)
            return begun, given
        original(max_steps, updates, epochs, None, trial)
        self._sums.set_state([one["entries"]["sums"] for one in loop.state.owns])
        if loop.place.is_over or trainer.state.global_step >= max_steps:
            return epochs, 0
        return batches.epoch, batches.done * batches.parts

    def _prepare(
        self, original: Callable[..., Any], max_steps: int, loader: Any, checkpoint: Any
    ) -> Any:
        is_resumed = self.loop is not None and self.loop.is_resumed
        return original(max_steps, loader, None if is_resumed else checkpoint)

    def _begin(self, original: Callable[..., Any], args: Any, state: Any, control: Any) -> Any:
        """Restore the training once its callbacks have begun."""
        control = original(args, state, control)
        if self.loop is not None:
            self.loop.attach(self._entries(), steps=state.max_steps, epochs=state.num_train_epochs)
        return control

    def _entries(self) -> dict[str, Any]:
        trainer = self.trainer
        own = [
            one
            for one in trainer.callback_handler.callbacks
            if not type(one).__module__.startswith(("transformers.", "workbench."))
            or hasattr(one, "state")
        ]
        found = {
            "model": trainer.model,
            "optimizer": trainer.optimizer,
            "scheduler": trainer.lr_scheduler,
            "sums": self._sums,
        }
        found |= callback_state(own, [*found.values(), trainer.model_wrapped])
        if (scaler := getattr(trainer.accelerator, "scaler", None)) is not None:
            found["scaler"] = scaler
        return found

    def _epoch(self, original: Callable[..., Any], **given: Any) -> Any:
        if self.loop is not None and self.loop.is_resumed:
            is_first = given["epoch"] == given["epochs_trained"]
            given["resume_from_checkpoint"] = _HERE if is_first else None
        self.ends_epoch = False
        return original(**given)

    def _random(self, original: Callable[..., Any], checkpoint: Any) -> None:
        if checkpoint == _HERE and self.loop is not None:
            self.loop.continue_random()
        else:
            original(checkpoint)

    def _followed(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Save the training where all that follows from an update is done."""
        original(*args, **kwargs)
        if self.loop is None or not self._has_stepped:
            return
        place = self.loop.place
        if self.ends_epoch or not (place.ends_epoch or self.trainer.control.should_epoch_stop):
            self._has_stepped = False
            self.loop.commit()
            if self.ends_epoch:
                place.batches.end_epoch()

    def _finalize(
        self, original: Callable[..., Any], trial: Any, examples: Any, begun: float
    ) -> Any:
        if (loop := self.loop) is not None:
            state = self.trainer.state
            loop.place.is_over |= state.global_step < state.max_steps
            loop.continue_random()
            loop.finish()
            begun -= self._sums.lived
        return original(trial, examples, begun)

    def _loss(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Weight the loss of this rank's part, so that the mean over ranks is that of all.

        Where a model is to divide by the number of items, the Trainer adds up the parts and
        multiplies by the ranks. Of one that does not divide, the factor stays that of the first
        ranks.
        """
        given = {**args[1]} if len(args) > 1 else {}  # the original may take labels out
        result = original(*args, **kwargs)
        if self.loop is None:
            return result
        trainer, batches = self.trainer, self.loop.place.batches
        items = kwargs.get("num_items_in_batch")
        is_counted = items is not None and (
            trainer.model_accepts_loss_kwargs or trainer.compute_loss_func is not None
        )
        averages = trainer.args.average_tokens_across_devices
        first = max(1, round(batches.total / (batches.most * self._accumulated)))
        change = first / batches.ranks if averages else 1.0
        if kwargs.get("return_outputs") or (len(args) > 2 and args[2]):  # an evaluation
            if is_counted and change != 1 and not self._is_divided(given, items):
                return result[0] * change, result[1]
            return result
        weight = batches.weight(self._part)
        self._part += 1
        if is_counted:
            parts = math.ceil(batches.size(batches.done) / (batches.most * first))
            change *= parts / batches.count_parts(batches.done)
            if (weight, change) != (1, 1) and not self._is_divided(given, items):
                weight *= change
            elif averages:
                weight = float(weight > 0)  # its mean is that of all ranks already
        return result if weight == 1 else result * weight

    def _is_divided(self, given: Mapping[str, Any], items: Any) -> bool:
        """Return whether the loss of a model is divided by the number of items that it is given.

        Any model with keyword arguments is given it, and some do not read it. So it is tried once.
        """
        if self._divides is None:
            trainer = self.trainer
            base: Any = sys.modules["transformers.trainer"].Trainer
            is_models = trainer.compute_loss_func is None and trainer.label_smoother is None
            is_plain = is_models and type(trainer).compute_loss is base.compute_loss
            model = trainer.accelerator.unwrap_model(trainer.model)
            self._divides = not is_plain or _divides_loss(model, given, items)
        return self._divides


def _divides_loss(model: Any, given: Mapping[str, Any], items: Any) -> bool:
    """Return whether another number of items changes a model's loss; true if that is not known."""
    torch: Any = sys.modules["torch"]

    before = [(one, one.training) for one in model.modules()]
    model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng():
            outputs = [model(**given, num_items_in_batch=items * n) for n in (1, 2)]
        losses = [one["loss"] if isinstance(one, dict) else one[0] for one in outputs]
        return not torch.equal(*losses)
    except Exception:  # noqa: BLE001  # a model may do anything
        return True
    finally:
        for module, training in before:
            module.training = training
