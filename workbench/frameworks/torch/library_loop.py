"""Loops that a library brings, such as Hugging Face's Trainer, and their own checkpoints."""

from __future__ import annotations

import copy
import functools
import importlib.metadata
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.engine.boundary import RunStopped
from workbench.engine.elastic.loop import ElasticLoop
from workbench.engine.run_context import RunContext, current
from workbench.engine.snapshot.entries import has_state_dict, is_plain
from workbench.engine.snapshot.peers import Peers
from workbench.engine.snapshot.saved_bytes import SavedBytes, StateFile
from workbench.engine.snapshot.state import LoopState
from workbench.frameworks.torch.common_batches import CommonBatches, CommonBatchesData
from workbench.frameworks.torch.tensor_file import TENSORS

if TYPE_CHECKING:
    from workbench.engine.snapshot.pieces import SavedPieces


def saving_run() -> RunContext | None:
    """Return the present run if it saves a library's training that begins now."""
    run = current()
    if run is None or run.snapshots is None or run.in_loop or run.log.progress_source is not None:
        return None
    return run


class LateState(LoopState):
    """The state of a loop whose parts exist only after its place in the data was asked for."""

    _saved: tuple[Any, Sequence[Any], int, int, SavedPieces | None] | None = None

    @property
    def owns(self) -> Sequence[Any]:
        """The own state of each rank of the snapshot until it is restored; empty without one."""
        return self._saved[1] if self._saved is not None else ()

    @property
    def state_files(self) -> dict[str, StateFile]:
        """The files that have what all ranks have in common, also that of the parts to come."""
        return {TENSORS.name: TENSORS, **super().state_files}

    def restore(
        self,
        contents: Mapping[str, SavedBytes],
        owns: Sequence[Any],
        rank: int,
        ranks: int,
        saved: SavedPieces | None = None,
    ) -> list[str]:
        """Continue at the snapshot's place; the rest follows in ``complete``."""
        assert self._data is not None
        self._saved = contents, owns, rank, ranks, saved
        self._steps.done = owns[0]["iteration"]
        places = [one["entries"][self._data.name] for one in owns]
        remark = self._data.restore({}, places, rank, ranks)
        return [remark] if remark else []

    def complete(self, state: MutableMapping[str, Any]) -> list[str]:
        """Add the parts, and restore them from the snapshot if there is one."""
        data, steps, saved = self._data, self._steps, self._saved
        LoopState.__init__(self, state, steps, data)
        self._saved = None
        return super().restore(*saved) if saved is not None else []


class LibraryLoop(ElasticLoop):
    """A loop that a library drives, saved after each of its updates.

    The library's hook calls ``begin`` before the library counts its steps, ``attach`` once model
    and optimizer exist, ``commit`` after each update with all that follows from it (logs,
    evaluation, checkpoints), and ``finish`` after the last one. All are collective.
    """

    def __init__(self, batches: CommonBatches) -> None:
        self.place = CommonBatchesData(batches)
        super().__init__({}, steps=None, epochs=None, data=self.place)
        self.state = LateState({}, self._count, self.place)
        self._state = self.state

    @property
    def is_resumed(self) -> bool:
        """Whether it continues from a snapshot."""
        return self._saved is not None and self._saved.resumed is not None

    def begin(self) -> None:
        """Read the place in the data from a snapshot, if the run resumes.

        Raises:
            StateError: There is none, or it is of other data.
        """
        self._run, self._has_begun = current(), True
        assert self._run is not None
        self._resume(self._run)

    def attach(
        self, state: MutableMapping[str, Any], *, steps: int | None, epochs: float | None
    ) -> None:
        """Restore what the library has made so far, and count the steps from here.

        Args:
            steps: Of the whole training; None if unknown.

        Raises:
            StateError: The snapshot is of another training.
        """
        run, saved = self._run, self._saved
        assert run is not None
        assert saved is not None
        self._entries, self._number = state, len(state)
        self._steps, self._epochs = steps, epochs
        saved.restore_by(lambda: self.state.complete(state))
        self._check_ranks(Peers())
        if run.boundaries.due:
            raise RunStopped(f"stopped at iteration {self.step}")
        run.in_loop = self.step + 1
        self._report(run)
        run.closing.append(self._leave)

    def count_from(self, step: int) -> None:
        """Count the steps of a checkpoint of the library's own as done."""
        self._count.done = step
        if self._saved is not None:
            self._saved.begin()

    def continue_random(self) -> None:
        """Continue the random numbers of the snapshot, once nothing else draws any."""
        if self._saved is not None:
            self._saved.continue_random()
            self.place.batches.keep_random()


def replace_method(undone: ExitStack, owner: Any, name: str, function: Callable[..., Any]) -> None:
    """Have a function called in the place of an object's, which it gets as its first one.

    Args:
        undone: Has it set back when it is closed.
    """
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(functools.partial(function, original)))
    undone.callback(vars(owner).pop, name, None)


class LibraryTraining:
    """One training by a library's trainer, which is saved after its updates.

    What the trainer and its parts call is replaced on the objects for as long as it trains.
    """

    called = ""
    """The library, for a reader."""
    packages: tuple[str, ...] = ()
    """What it may be imported as."""
    tried = ""
    """Its release whose trainings have been saved and resumed."""

    def __init__(self, trainer: Any, run: RunContext) -> None:
        self.trainer, self.run = trainer, run
        self.loop: LibraryLoop | None = None
        self.undone = ExitStack()
        """What is set back at the end."""

    @classmethod
    def run_saved(cls, trainer: Any, train: Callable[[], Any], *args: Any) -> Any:
        """Have a trainer train, saved if the run saves it.

        Args:
            args: For ``why_not_saved``.
        """
        if (run := saving_run()) is None:
            return train()
        training = cls(trainer, run)
        if why := training.why_refused(*args):
            training.refuse(why)
            return train()
        with training.installed():
            return train()

    def why_refused(self, *args: Any) -> str:
        """Return why it cannot be saved, a clause; empty if it can, as far as is known yet."""
        names = [one.__module__.partition(".")[0] for one in type(self.trainer).__mro__]
        version = importlib.metadata.version(next(one for one in names if one in self.packages))
        if not version.startswith(f"{self.tried}."):
            return f"{self.called} {version} was not tried, only {self.tried}"
        return self.why_not_saved(*args)

    def why_not_saved(self, *args: Any) -> str:
        """Return why it cannot be saved in a release that was tried."""
        raise NotImplementedError

    @property
    def is_first(self) -> bool:
        """Whether this rank speaks for all."""
        raise NotImplementedError

    def install(self) -> None:
        """Replace what is called."""
        raise NotImplementedError

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Have the training saved in the context."""
        with self.undone:
            self.install()
            yield

    def replace(self, owner: Any, name: str, function: Callable[..., Any]) -> None:
        """Have a function called in the place of an object's; see ``replace_method``."""
        replace_method(self.undone, owner, name, function)

    def keep(self, owner: Any, *names: str) -> None:
        """Have attributes of an object set back at the end."""
        for name in names:
            self.undone.callback(setattr, owner, name, getattr(owner, name))

    def begin(self, found: tuple[Any, CommonBatches] | str) -> tuple[Any, LibraryLoop] | None:
        """Return its loader and its loop, which has read its place if the run resumes.

        Args:
            found: The loader with what gives it common batches, or why that is not possible.

        Returns:
            None if it is not saved.
        """
        if isinstance(found, str):
            self.refuse(found)
            return None
        loader, batches = found
        self.loop = LibraryLoop(batches)
        self.loop.begin()
        return loader, self.loop

    def refuse(self, why: str) -> None:
        """Note that it cannot be saved, before it trains; see ``RunSnapshots.refuse``.

        Args:
            why: A clause.

        Raises:
            StateError: The run resumes, and this may be what it is to continue.
        """
        if self.run.snapshots is not None:
            self.run.snapshots.refuse(why)
            if self.is_first:
                self.run.snapshots.remark(f"this training is not saved, because {why}")


class Attributes:
    """The plain attributes of an object, as a ``state_dict``."""

    def __init__(self, owner: Any, names: Iterable[str]) -> None:
        self._owner, self._names = owner, tuple(names)

    def state_dict(self) -> dict[str, Any]:
        """Return copies."""
        return {name: copy.deepcopy(getattr(self._owner, name)) for name in self._names}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Set them."""
        for name, value in state.items():
            setattr(self._owner, name, value)


def callback_state(callbacks: Iterable[Any], known: Iterable[Any]) -> dict[str, Any]:
    """Return the entries of what callbacks keep: plain values, and what has a ``state_dict``.

    Args:
        known: What has an entry already.
    """
    found, others = dict[str, Any](), {id(one) for one in known}
    for number, one in enumerate(callbacks):
        name, values = f"{number} {type(one).__name__}", vars(one)
        for key, value in values.items():
            if has_state_dict(value) and id(value) not in others:
                found[f"{name}.{key}"] = value
        if plain := [key for key, value in values.items() if is_plain(value)]:
            found[name] = Attributes(one, plain)
    return found


def remark_ranks(folder: str, files: str, ranks: int) -> None:
    """Say that a checkpoint of a library's own is of another number of ranks.

    Args:
        files: Pattern of the files that it has for each rank.
        ranks: Those that load it.
    """
    path = Path(folder)
    if saved := len([*path.glob(files)]):
        remark_other_ranks(path.name, saved, ranks)


def remark_other_ranks(name: str, saved: int, ranks: int) -> None:
    """Say that a checkpoint was saved on another number of ranks than those that load it."""
    if saved == ranks:
        return
    print(
        f"workbench: {name} was saved on {_count(saved)} and is loaded on {ranks}. The place "
        "in the epoch is counted in steps of all ranks, so examples may be visited twice or not at "
        f"all: continue on {_count(saved)}, or keep the batch of all ranks.",
        file=sys.stderr,
        flush=True,
    )


def _count(ranks: int) -> str:
    return f"{ranks} rank{'s' * (ranks != 1)}"
