"""Save and resume the training of a Chainer trainer, without a change to its code."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, Any

from workbench.core.run.rank_events import IteratorUndivided
from workbench.engine.snapshot.array_file import read_arrays, write_arrays
from workbench.engine.snapshot.folder import Write
from workbench.engine.snapshot.peers import Peers, world_size
from workbench.engine.snapshot.run_snapshots import RunSnapshots
from workbench.engine.snapshot.saved_training import SavedTraining, SnapshotRun
from workbench.engine.snapshot.writer import new_arrays
from workbench.frameworks.chainer.batches import BatchChange, find_undivided, parts_of
from workbench.frameworks.chainer.global_order import weight_gradients
from workbench.frameworks.chainer.iterators import is_known, own_iterators
from workbench.frameworks.chainer.linear_scaling import RampState, RateRamp, ramps_of, rate_setter
from workbench.frameworks.chainer.plain_values import plain_values_of, training_length
from workbench.frameworks.chainer.trainer_state import (
    Arrays,
    OwnState,
    capture,
    describe_layout,
    restore,
    restore_random_states,
    unsavable,
)

TRAINER = "trainer.npz"
PARAMETERS = "updater/model:"
"""How the names of all parameters in that file begin."""


def begin_saved(run: RunSnapshots, trainer: Any) -> SavedTrainer | None:
    """Prepare to save a trainer's training, and resume it; None if it cannot be saved.

    Collective over the run's ranks.

    Raises:
        StateError: The run resumes, and there is nothing that it could resume from.
    """
    if why := unsavable(trainer.updater, world_size()):
        run.refuse(why)
        return None
    peers = Peers()
    if peers.rank == 0 and not run.replays and (kind := find_undivided(trainer.updater)):
        run.log.tell(IteratorUndivided(f"{kind:.100}"))
    training = SavedTrainer(run, trainer, run.following, peers)
    run.begin(training)
    return training


class TrainerState:
    """The state of a trainer; ``trainer.npz`` is what Chainer's ``load_npz`` reads into it."""

    def __init__(self, trainer: Any, peers: Peers) -> None:
        self._trainer, self._peers = trainer, peers
        self._plain = plain_values_of(trainer)
        self._ramps: dict[str, RateRamp] = {}
        self._restores_rates: Callable[[], None] = lambda: None

    @property
    def iteration(self) -> int:
        """Iterations done."""
        return int(self._trainer.updater.iteration)

    @property
    def epoch(self) -> float:
        """Epochs done; 0 if unknown."""
        return float(getattr(self._trainer.updater, "epoch_detail", 0.0))

    def settle(self) -> None:
        """Complete the exchange of gradients that are held back."""
        for optimizer in self._trainer.updater.get_all_optimizers().values():
            if hasattr(type(optimizer), "held_back"):
                optimizer.held_back()

    def sample(self) -> dict[str, Any]:
        """Return nothing: a multi-node optimizer keeps the ranks equal."""
        return {}

    def difference(self, samples: Sequence[dict[str, Any]]) -> str:
        """Return that nothing differs."""
        return ""

    def memory(self) -> Callable[[], Arrays]:
        """Return what allocates arrays for a copy of the common state."""
        return functools.partial(new_arrays, describe_layout(self._trainer))

    def capture(self, spare: Arrays | None) -> tuple[Arrays | None, OwnState]:
        """Return copies of the common state and of this rank's own."""
        rank, ranks = self._peers.rank, self._peers.size
        common, own = capture(self._trainer, self._plain, spare, rank, ranks)
        states = {name: one.state for name, one in self._ramps.items()}
        own.ramps = {name: one for name, one in states.items() if one is not None}
        return common, own

    def files(self, common: Arrays, owns: Sequence[bytes]) -> dict[str, Write]:
        """Return what writes ``trainer.npz``."""
        values = common | pickle.loads(owns[0]).values

        def write(file: IO[bytes]) -> None:
            write_arrays(file, values)

        return {TRAINER: write}

    def restore(
        self, contents: Mapping[str, memoryview], owns: Sequence[OwnState], rank: int, ranks: int
    ) -> list[str]:
        """Continue from a snapshot's files; return what is not exact."""
        # Before what may fail on one rank alone.
        parts = self._peers.gather(parts_of(self._trainer.updater))
        # Parameters have memory already, and optimizers may keep what they get.
        common = read_arrays(contents[TRAINER], lambda name: not name.startswith(PARAMETERS))
        remarks, change = restore(self._trainer, self._plain, common, owns, rank, parts)
        own = owns[rank] if rank < len(owns) else owns[0]
        self._restores_rates = functools.partial(
            self._plain.restore_rates, own.first, own.numbers, ranks=ranks / len(owns)
        )
        return remarks + self._scale_rates(change, vars(own).get("ramps", {}))

    def _scale_rates(self, change: BatchChange, saved: dict[str, RampState]) -> list[str]:
        """Let the rates follow a batch that changes; return what is done."""
        setter = rate_setter(self._trainer)
        text = f"all ranks have {change.now} examples in a step, and had {change.before}"
        if setter:
            return [f"{text}; {setter} sets the learning rate"] if change != BatchChange() else []
        self._ramps = ramps_of(
            self._trainer.updater, change.before, change.now, change.examples, saved
        )
        if change.before == change.now:
            return []
        return [f"{text}; {one}" for one in dict.fromkeys(map(repr, self._ramps.values()))]

    def begin_rates(self) -> None:
        """Set the learning rates of the first iteration here, after all extensions are ready."""
        self._restores_rates()
        for one in self._ramps.values():
            one.begin()

    def step_rates(self) -> None:
        """Set the learning rates of the next iteration."""
        for one in self._ramps.values():
            one.step()


class SavedTrainer(SavedTraining):
    """One trainer's training of a run."""

    def __init__(self, run: SnapshotRun, trainer: Any, number: int, peers: Peers) -> None:
        self._trained = TrainerState(trainer, peers)
        super().__init__(run, self._trained, number, peers)
        self._trainer = trainer
        self._has_begun = False

    def weight_gradients(self) -> AbstractContextManager[None]:
        """Weight gradients by the share of the batch, for as long as the context lasts."""
        updater = self._trainer.updater
        known = {name: one for name, one in own_iterators(updater).items() if is_known(one)}
        return weight_gradients(updater, known)

    def ends(self, original: Callable[[Any], bool], *, is_due: bool) -> bool:
        """Return whether the training ends at this boundary; save it here if it is time.

        Args:
            original: The trainer's stop trigger.
            is_due: Whether the run stops at this boundary.
        """
        trainer = self._trainer
        if not self._has_begun:
            return self._begins_at_its_end(original) or is_due
        # Before the stop trigger is asked, which may keep what it has seen.
        if is_due or trainer.updater.iteration >= self.look_at:
            self.passed(is_due=is_due)
        self._trained.step_rates()
        if is_due:
            return True
        if not original(trainer):
            return False
        self.end(totals_reached=self._has_reached(*training_length(original)))
        return True

    def _begins_at_its_end(self, original: Callable[[Any], bool]) -> bool:
        """Return whether the training has ended before its first iteration here."""
        self._has_begun = True
        # An extension that loads a snapshot of its own has already done so.
        self.begin()
        trainer, manifest = self._trainer, self.resumed
        if manifest is None:
            return bool(original(trainer))
        # The extensions have been initialized, so the next random number is the training's.
        restore_random_states(self.owns, self.peers.rank, trainer.updater.iteration)
        self.owns = []
        self._trained.begin_rates()
        self._trained.step_rates()
        if self.is_replay:
            return True
        iterations, epochs = training_length(original)
        if not manifest.final or not (iterations or epochs):
            return bool(original(trainer))
        return not manifest.totals_reached or self._has_reached(iterations, epochs)

    def _has_reached(self, iterations: int, epochs: float) -> bool:
        updater = self._trainer.updater
        if iterations:
            return bool(updater.iteration >= iterations)
        return bool(epochs and updater.epoch_detail >= epochs)
