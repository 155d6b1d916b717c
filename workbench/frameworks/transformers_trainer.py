"""Save the trainings of Hugging Face's Trainer, and report what it logs.

Its training is saved after updates, with all that it keeps, and continues on any number of ranks
with the same batch of all of them. A script that loads its own checkpoints (``--restart``) saves
one before it starts again elsewhere.
"""

from __future__ import annotations

import copy
import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.core.run.batch import WANTED_VARIABLE
from workbench.engine.boundary import RunStopped
from workbench.engine.reporting.report import plan, report_logged
from workbench.engine.run_context import RunContext, current
from workbench.engine.snapshot.entries import StateEntry
from workbench.frameworks.torch.library_loop import (
    LibraryTraining,
    callback_state,
    remark_ranks,
)
from workbench.frameworks.transformers_evaluation import FIRST, divides_loss, run_evaluation

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
        """Hugging Face's callback that reports what its Trainer logs, and saves if asked."""

        is_asked = False

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
    evaluate = module.Trainer.evaluation_loop

    @functools.wraps(begin)
    def initialize(trainer: Any, *args: Any, **kwargs: Any) -> None:
        begin(trainer, *args, **kwargs)
        if current() is not None:
            trainer.add_callback(Watching())

    @functools.wraps(train)
    def run_training(
        trainer: Any, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        if current() is not None and resume_from_checkpoint and trainer.is_world_process_zero():
            path = resume_from_checkpoint
            path = module.get_last_checkpoint(trainer.args.output_dir) if path is True else path
            remark_ranks(path or "", "rng_state*.pth", trainer.args.world_size)
        vars(trainer).pop(FIRST, None)
        begins = functools.partial(train, trainer, resume_from_checkpoint, *args, **kwargs)
        return TransformersTrainer.run_saved(trainer, begins)

    @functools.wraps(evaluate)
    def evaluate_loader(trainer: Any, dataloader: Any, *args: Any, **kwargs: Any) -> Any:
        return run_evaluation(evaluate, trainer, dataloader, *args, **kwargs)

    module.Trainer.__init__, module.Trainer.train = initialize, run_training
    module.Trainer.evaluation_loop = evaluate_loader


class TrainerSums(StateEntry):
    """What a Trainer counts and adds up between its logs, beside its state."""

    kind = "the sums of a Trainer"

    def __init__(self, trainer: Any) -> None:
        super().__init__({}, "sums")
        self.trainer = trainer
        self.begun = time.time()
        self.lived = 0.0
        """Seconds that earlier attempts have trained."""

    def own(self) -> dict[str, Any]:
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

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Continue; ranks that were not there have the means of those that were."""
        self.set_state(owns)
        trainer, first = self.trainer, owns[0]
        losses = [one["loss"] for one in owns]
        own = losses[rank] if ranks == len(owns) else sum(losses) / len(losses)
        trainer._tr_loss.fill_(own)
        trainer._total_loss_scalar = first["losses"]
        trainer._globalstep_last_logged = first["logged"]
        trainer._initial_global_step = first["first"]
        trainer._initial_num_input_tokens_seen = first["tokens"]
        trainer.current_flos = sum(one["flos"] for one in owns) / ranks
        self.lived = first["lived"]
        return ""


class TransformersTrainer(LibraryTraining):
    """One training of a Trainer that is saved after its updates.

    Replaced is what decides where it begins, what gives its batches and what follows an update.
    """

    called, packages, tried = "transformers", ("transformers",), "5.24"

    def __init__(self, trainer: Any, run: RunContext) -> None:
        super().__init__(trainer, run)
        self._has_stepped = self._ends_epoch = False
        self._part = 0
        self._accumulated = 1  # by a rank in an update, as its arguments say
        self._sums = TrainerSums(trainer)

    @property
    def is_first(self) -> bool:
        """Whether this rank speaks for all."""
        return bool(self.trainer.is_world_process_zero())

    def why_not_saved(self) -> str:
        """Return why it cannot be saved in a release that was tried."""
        trainer, args = self.trainer, self.trainer.args
        if (
            trainer.is_deepspeed_enabled
            or trainer.is_fsdp_enabled
            or getattr(trainer, "is_distributed_loading_by_transformers", False)
        ):
            return "its model is divided among the ranks"
        if args.n_gpu > 1:
            return "one rank trains on several GPUs"
        return "it looks for a batch size that fits" if args.auto_find_batch_size else ""

    def install(self) -> None:
        """Replace its methods, and some of its callbacks' handler."""
        trainer, handler = self.trainer, self.trainer.callback_handler
        self.keep(trainer.args, "gradient_accumulation_steps", "ignore_data_skip", "eval_on_start")
        for owner, name, function in (
            (trainer, "get_train_dataloader", self._loader),
            (trainer, "_init_training_state", self._state),
            (trainer, "_prepare_for_training", self._prepare),
            (trainer, "_run_epoch", self._epoch),
            (trainer, "_load_rng_state", self._random),
            (trainer, "_maybe_log_save_evaluate", self._followed),
            (trainer, "_finalize_training", self._finalize),
            (trainer, "compute_loss", self._loss),
            (handler, "on_train_begin", self._begin),
            (handler, "on_step_end", self._end_step),
            (handler, "on_epoch_end", self._end_epoch),
        ):
            self.replace(owner, name, function)

    def _end_step(self, original: Callable[..., Any], *given: Any) -> Any:
        """Note that an update has ended; what follows from it comes next."""
        self._has_stepped, self._part = True, 0
        return original(*given)

    def _end_epoch(self, original: Callable[..., Any], *given: Any) -> Any:
        self._ends_epoch = True
        return original(*given)

    def _loader(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        from workbench.frameworks.accelerate import take_common

        loader, own = original(*args, **kwargs), self.trainer.args
        ranks = max(own.world_size, int(os.environ.get(WANTED_VARIABLE, "0")))
        self._accumulated = own.gradient_accumulation_steps
        begun = self.begin(take_common(loader, self._accumulated, ranks))
        if begun is not None:
            loader, loop = begun
            own.gradient_accumulation_steps = loop.place.batches.parts
            own.ignore_data_skip = False
            own.eval_on_start &= not loop.is_resumed
            vars(self.trainer)[FIRST] = self._first_ranks
        return loader

    @property
    def _first_ranks(self) -> int:
        """The number of ranks whose batches an update has."""
        assert self.loop is not None
        batches = self.loop.place.batches
        return max(1, round(batches.total / (batches.most * self._accumulated)))

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
            # With data whose length is unknown, no epochs are.
            epochs = state.num_train_epochs if self.loop.place.batches.examples else None
            self.loop.attach(self._entries(), steps=state.max_steps, epochs=epochs)
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
            if is_first and given["steps_trained_in_current_epoch"]:
                self.loop.continue_random()  # it reads first
        self._ends_epoch = False
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
        if self._ends_epoch or not (place.ends_epoch or self.trainer.control.should_epoch_stop):
            self._has_stepped = False
            self.loop.commit()
            if self._ends_epoch:
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
        first = self._first_ranks
        change = first / batches.ranks if averages else 1.0
        if kwargs.get("return_outputs") or (len(args) > 2 and args[2]):  # an evaluation
            if is_counted and change != 1 and not divides_loss(trainer, given, items):
                return result[0] * change, result[1]
            return result
        weight = batches.weight(self._part)
        self._part += 1
        if is_counted:
            parts = batches.count_parts(batches.done, first)
            change *= parts / batches.count_parts(batches.done)
            if (weight, change) != (1, 1) and not divides_loss(trainer, given, items):
                weight *= change
            elif averages:
                weight = float(weight > 0)  # its mean is that of all ranks already
        return result if weight == 1 else result * weight
