"""Save and resume the training of a Chainer trainer, without a change to its code.

All ranks have the parameters and the optimizers in common. All the rest that Chainer serializes is
a rank's own: iterators, extensions, triggers, and persistent values such as those of batch
normalization. ``trainer.npz`` has both: ``chainer.serializers.load_npz`` reads it into a trainer.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from chainer.serializers import DictionarySerializer, NpzDeserializer

from workbench.core.run.rank_protocol import ExamplesVisited, IteratorUndivided
from workbench.engine.snapshot.array_file import ArrayFile
from workbench.engine.snapshot.entries import own_of
from workbench.engine.snapshot.peers import Peers, world_size
from workbench.engine.snapshot.pieces import SavedPieces
from workbench.engine.snapshot.run_snapshots import RunSnapshots
from workbench.engine.snapshot.saved_bytes import SavedBytes
from workbench.engine.snapshot.saved_training import SavedTraining, SnapshotRun
from workbench.engine.snapshot.state import SavedState
from workbench.frameworks.chainer.batches import (
    BatchChange,
    CodeBatch,
    find_undivided,
    parts_of,
    place,
    restore_iterators,
)
from workbench.frameworks.chainer.entries import (
    HIDDEN_BEGIN,
    Arrays,
    ExchangeEntry,
    SerializableEntry,
)
from workbench.frameworks.chainer.global_order import weight_gradients
from workbench.frameworks.chainer.hidden_state import (
    generator_states,
    generators_elsewhere,
    hidden_states,
    restore_generators,
    restore_hidden,
)
from workbench.frameworks.chainer.iterator_visits import IteratorVisits
from workbench.frameworks.chainer.iterators import is_known, own_iterators, serialize_apart
from workbench.frameworks.chainer.linear_scaling import RampState, RateRamp, ramps_of, rate_setter
from workbench.frameworks.chainer.plain_values import plain_values_of, training_length

_PARAMETERS = "updater/model:"
"""How the names of all parameters begin."""
_EXCHANGE = "exchange:"


class TrainerFile(ArrayFile):
    """The values of the trainer, by Chainer's names for them, and what exchanges hold back."""

    name = "trainer.npz"

    def flatten(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return arrays by their names in the file."""
        others = {name: one for name, one in values.items() if name}
        return super().flatten({**values[""], **others})

    def read(self, content: SavedBytes) -> dict[str, Any]:
        """Return the values of the trainer by an empty name, and those of exchanges by theirs."""
        found: dict[str, Any] = {"": {}}
        for name, one in self.read_flat(content).items():
            entry, _, path = name.partition("/")
            if entry.startswith(_EXCHANGE):
                found.setdefault(entry, {})[path] = one
            else:
                found[""][name] = one
        return found


TRAINER = TrainerFile()


class TrainerExchangeEntry(ExchangeEntry):
    """The exchange of one of a trainer's optimizers."""

    file = TRAINER


class TrainerEntry(SerializableEntry):
    """A trainer: what Chainer serializes, and what it leaves out."""

    kind = "a trainer"
    file = TRAINER

    def __init__(self, trainer: Any, peers: Peers) -> None:
        super().__init__({"": trainer}, "")
        self.remarks: list[str] = []
        """What is not exact after ``restore``."""
        self.parts: Sequence[Mapping[str, CodeBatch]] = ()
        """For each rank of now, what ``parts_of`` returned of its updater."""
        self._peers = peers
        self._updater = trainer.updater
        self._plain = plain_values_of(trainer)
        self._ramps: dict[str, RateRamp] = {}
        self._restores_rates: Callable[[], None] = lambda: None

    def find_shared(self) -> Callable[[str], bool]:
        """Return what knows the parameters and the optimizers."""
        parameters = frozenset(
            f"{_PARAMETERS}{name}{path}"
            for name, optimizer in self._optimizers.items()
            for path, _ in optimizer.target.namedparams()
        )
        return lambda name: name in parameters or name.startswith("updater/optimizer:")

    def write_shared(self, writer: DictionarySerializer) -> None:
        """Write the parameters and the optimizers, and ask nothing else of the trainer."""
        within = writer["updater"]
        for name, optimizer in self._optimizers.items():
            optimizer.serialize(within[f"optimizer:{name}"])
            for path, parameter in optimizer.target.namedparams():
                within(f"model:{name}{path}", parameter.array)

    def write(self, writer: DictionarySerializer) -> None:
        """Write all that Chainer serializes, and parts of triggers that it leaves out."""
        with serialize_apart(self._updater):
            self.value.serialize(writer)
        for path, part in self._plain.parts.items():
            part.serialize(writer[path])

    def capture(self, spare: Any, *, has_common: bool) -> tuple[Any, Any]:
        """Return copies of the common state, and of all else that belongs to the training."""
        common, values = super().capture(spare, has_common=has_common)
        updater = self._updater
        rank, ranks = self._peers.rank, self._peers.size
        iterators = own_iterators(updater).items()
        ramps = {name: one.state for name, one in self._ramps.items()}
        return common, {
            "values": values,
            "places": {name: place(one, rank, ranks) for name, one in iterators if is_known(one)},
            "observation": dict(_read_observed(self.value.observation)),
            "first": self._plain.first,
            "numbers": self._plain.now(),
            "ramps": {name: one for name, one in ramps.items() if one is not None},
            "hidden": {name: hidden_states(one.target) for name, one in self._optimizers.items()},
            "generators": generator_states(updater),
        }

    def readable(self, common: Any, own: Any) -> Any:
        """Return all values that Chainer serializes."""
        return common | own["values"]

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Continue from a snapshot; what is not exact goes into ``remarks``."""
        updater, own = self._updater, own_of(owns, rank)
        values = common | own["values"]
        with serialize_apart(updater):
            updater.serialize(NpzDeserializer(values, "updater/"))
        self._restore_rest(values)
        self.value.observation = dict(own["observation"])
        places = [one["places"] for one in owns]
        saved = [
            {name: _iterator_values(name, one["values"]) for name in one["places"]} for one in owns
        ]
        numbers, more = (own["first"], own["numbers"]), ranks / len(owns)
        self._plain.restore(*numbers, ranks=more)
        self._restores_rates = functools.partial(self._plain.restore_rates, *numbers, ranks=more)
        remarks, change = restore_iterators(updater, saved, places, self.parts, rank)
        self.remarks = [
            *remarks,
            *self._restore_unsaved(owns, rank, ranks),
            *self._scale_rates(change, own["ramps"]),
        ]
        return ""

    def begin_rates(self) -> None:
        """Set the learning rates of the first iteration here, after all extensions are ready."""
        self._restores_rates()
        for one in self._ramps.values():
            one.begin()

    def step_rates(self) -> None:
        """Set the learning rates of the next iteration."""
        for one in self._ramps.values():
            one.step()

    @property
    def _optimizers(self) -> dict[str, Any]:
        found: dict[str, Any] = self._updater.get_all_optimizers()
        return found

    def _restore_rest(self, values: Arrays) -> None:
        """Restore extensions and triggers; the code may have others now."""
        trainer = self.value
        parts = {"stop_trigger/": trainer.stop_trigger, **self._plain.parts}
        for name, entry in trainer._extensions.items():
            parts[f"extensions/{name}/"] = entry.extension
            parts[f"extension_triggers/{name}/"] = entry.trigger
        for path, one in parts.items():
            if hasattr(one, "serialize") and any(key.startswith(path) for key in values):
                one.serialize(NpzDeserializer(values, path, strict=False))
        elapsed = values.get("_snapshot_elapsed_time")
        trainer._snapshot_elapsed_time = 0.0 if elapsed is None else float(elapsed)

    def _restore_unsaved(self, owns: Sequence[Any], rank: int, ranks: int) -> list[str]:
        """Continue what Chainer itself does not save; return what begins again."""
        remarks = []
        hidden = own_of(owns, rank)["hidden"]
        if ranks == len(owns):
            for name, optimizer in self._optimizers.items():
                restore_hidden(optimizer.target, hidden.get(name, {}))
        elif any(hidden.values()):
            remarks.append(HIDDEN_BEGIN)
        restore_generators(self._updater, [one["generators"] for one in owns], rank)
        if found := generators_elsewhere(self._updater):
            remarks.append(f"the generator {found} draws in other processes, and begins again")
        return remarks

    def _scale_rates(self, change: BatchChange, saved: dict[str, RampState]) -> list[str]:
        """Let the rates follow a batch that changes; return what is done."""
        setter = rate_setter(self.value)
        text = f"all ranks have {change.now} examples in a step, and had {change.before}"
        if setter:
            return [f"{text}; {setter} sets the learning rate"] if change != BatchChange() else []
        self._ramps = ramps_of(self._updater, change.before, change.now, change.examples, saved)
        if change.before == change.now:
            return []
        return [f"{text}; {one}" for one in dict.fromkeys(map(repr, self._ramps.values()))]


class TrainerState(SavedState):
    """The state of a trainer, and of the exchanges of its optimizers."""

    def __init__(self, trainer: Any, peers: Peers) -> None:
        self.trainer = TrainerEntry(trainer, peers)
        self.visits = IteratorVisits(trainer.updater, peers)
        self._updater, self._peers = trainer.updater, peers
        optimizers = trainer.updater.get_all_optimizers().items()
        exchanges = {f"{_EXCHANGE}{name}": one for name, one in optimizers}
        super().__init__(
            [self.trainer, *(TrainerExchangeEntry(exchanges, name) for name in exchanges)]
        )

    @property
    def iteration(self) -> int:
        """Iterations done."""
        return int(self._updater.iteration)

    @property
    def epoch(self) -> float:
        """Epochs done; 0 if unknown."""
        return float(getattr(self._updater, "epoch_detail", 0.0))

    def count_visits(self, training: int) -> list[ExamplesVisited]:
        """Return the visits of epochs that have ended since the last snapshot; collective."""
        return self.visits.count(training)

    def capture(self, spare: dict[str, Any] | None) -> tuple[dict[str, Any] | None, Any]:
        """Return copies of the state, and of how often examples were visited."""
        common, own = super().capture(spare)
        return common, own | {"visits": self.visits.own()}

    def sample(self) -> dict[str, Any]:
        """Return nothing: a multi-node optimizer keeps the ranks equal."""
        return {}

    def restore(
        self,
        contents: Mapping[str, SavedBytes],
        owns: Sequence[Any],
        rank: int,
        ranks: int,
        saved: SavedPieces | None = None,
    ) -> list[str]:
        """Continue from a snapshot's files; see ``SavedState``."""
        # Before what may fail on one rank alone.
        self.trainer.parts = self._peers.gather(parts_of(self._updater))
        self.visits.restore([one.get("visits") for one in owns])
        return super().restore(contents, owns, rank, ranks, saved) + self.trainer.remarks

    def describe(self, name: str) -> str:
        """Return what a reader calls an entry."""
        return f"{name.removeprefix(_EXCHANGE)!r}" if name else "its trainer"


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


def unsavable(updater: Any, ranks: int) -> str:
    """Return why a training on ``ranks`` ranks cannot be saved; empty if it can."""
    optimizers: dict[str, Any] = getattr(updater, "get_all_optimizers", dict)()
    if not optimizers:
        return "its updater has no optimizer"
    if ranks == 1:
        return ""
    module: Any = sys.modules.get("chainermn.optimizers")
    kinds = (module._MultiNodeOptimizer, module._DoubleBufferingOptimizer) if module else ()
    for name, one in optimizers.items():
        if not isinstance(one, kinds):
            return f"its optimizer {name!r} is not ChainerMN's multi-node optimizer"
        if one.communicator.size != ranks:
            return f"its optimizer {name!r} has {one.communicator.size} of {ranks} ranks"
    return ""


class SavedTrainer(SavedTraining):
    """One trainer's training of a run."""

    def __init__(self, run: SnapshotRun, trainer: Any, number: int, peers: Peers) -> None:
        state = TrainerState(trainer, peers)
        super().__init__(run, state, number, peers)
        self._trainer, self._rates, self._visits = trainer, state.trainer, state.visits
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
        self._visits.note(trainer.updater.iteration)
        # Before the stop trigger is asked, which may keep what it has seen.
        if is_due or trainer.updater.iteration >= self.look_at:
            self.passed(is_due=is_due)
        self._rates.step_rates()
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
        self._visits.begin()
        trainer, manifest = self._trainer, self.resumed
        if manifest is None:
            return bool(original(trainer))
        # The extensions have been initialized, so the next random number is the training's.
        self.continue_random()
        self._rates.begin_rates()
        self._rates.step_rates()
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


def _iterator_values(name: str, values: Arrays) -> dict[str, Any]:
    path = f"updater/iterator:{name}/"
    found = {key.removeprefix(path): one for key, one in values.items() if key.startswith(path)}
    order = found.get("order", found.get("_order"))
    found["order"] = None if order is None or order[()] is None else order
    return found


def _read_observed(observation: dict[str, Any]) -> list[tuple[str, float]]:
    """Return the observed numbers; a trigger may look at them before the next iteration."""
    found = []
    for name, value in observation.items():
        number = getattr(value, "array", value)
        if getattr(number, "size", 1) == 1:
            try:
                found.append((name, float(number)))
            except (TypeError, ValueError):
                continue  # extensions may observe anything
    return found
