"""A training loop that is written by hand, and stops, continues and moves at the end of a step."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from workbench.core.run.rank_protocol import Progress
from workbench.engine.boundary import RunStopped
from workbench.engine.elastic.global_batches import GlobalBatches, GlobalBatchesData
from workbench.engine.framework import frameworks
from workbench.engine.run_context import RunContext, current
from workbench.engine.snapshot.entries import LoopData
from workbench.engine.snapshot.state import LoopState, StepCount, difference_of
from workbench.errors import InputError, StateError

if TYPE_CHECKING:
    from workbench.engine.snapshot.peers import Peers
    from workbench.engine.snapshot.saved_training import SavedTraining

_ROUNDING = 1e-6
# Between two looks at what need not be seen in each step: whether the state has other entries, and
# the progress, which is reported once more at the end.
LOOK_SECONDS = 0.1


class ElasticStep(int):
    """A step of an elastic loop; as a number, how many steps were done before it.

    Where gradients of several batches are accumulated, each of these has the number of their step.

    Args:
        epoch: Epochs done before it, a whole number; 0 without data.
        batch: What the loop's data gives this rank; None without data.
        weight: The factor for this rank's mean loss, so that gradients that are averaged over
            ranks are those of the whole batch; 1 unless the ranks' shares differ.
        ends_epoch: Whether its batch is the last of the epoch.
    """

    epoch = 0
    batch: Any = None
    weight = 1.0
    ends_epoch = False


class ElasticLoop:
    """A loop whose state is saved between steps; ``workbench.elastic`` returns it.

    ``for step in loop:`` calls ``restore`` first, ``commit`` at the end of each step, and
    ``finish`` after the last one. A loop of another form calls them itself.
    """

    def __init__(
        self,
        state: MutableMapping[str, Any],
        *,
        steps: int | None,
        epochs: float | None,
        data: LoopData | None,
    ) -> None:
        self._count = StepCount()
        self._steps, self._epochs, self._data = steps, epochs, data
        self._state = LoopState(state, self._count, data)
        self._entries, self._number = state, len(state)
        self._callbacks: list[Callable[[], object]] = []
        self._run: RunContext | None = None
        self._saved: SavedTraining | None = None
        self._has_begun = self._has_finished = False
        self._first = 0  # the step that it continued from
        self._next_look = -math.inf

    def __repr__(self) -> str:
        return f"<ElasticLoop of {', '.join(sorted(self._state.names))}, {self.step} steps done>"

    def __iter__(self) -> Iterator[ElasticStep]:
        """Yield the steps that are left.

        Raises:
            StateError: It is inside of another elastic loop.
        """
        # An iterator that a user has kept from an earlier run is over with it.
        if any(one is not self and one._run is current() for one in _iterating):
            raise _build_nesting_error()
        _iterating.append(self)
        try:
            self.restore()
            following, commit = self._next, self.commit
            while (step := following()) is not None:
                yield step
                commit()
            self.finish()
        finally:
            _iterating.remove(self)
            self._leave()

    @property
    def step(self) -> int:
        """Steps done."""
        return self._count.done

    @property
    def epoch(self) -> float:
        """Epochs done, such as 1.5; 0 without data."""
        return self._state.epoch

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], object]]) -> None:
        """Have functions called when the loop continues on another number of ranks.

        They are called after the state was restored, for example to scale the learning rate.
        """
        self._callbacks.extend(callbacks)

    def restore(self) -> bool:
        """Begin the loop; return whether it continues from a snapshot.

        Collective over the run's ranks; calls after the first do nothing.

        Raises:
            StateError: The snapshot is of another state, or the loop is inside of another one.
            InputError: The ranks have different entries in their states.
        """
        if self._has_begun:
            return False
        run = self._run = current()
        if run is not None and run.in_loop:
            raise _build_nesting_error()
        self._has_begun = True
        if run is not None:
            self._resume(run)
        if self._data is not None:
            self._data.begin()
        if (saved := self._saved) is not None:
            saved.continue_random()
        if run is not None:
            if run.boundaries.due:
                raise RunStopped(f"stopped at iteration {self.step}")
            run.in_loop = self.step + 1
            self._report(run)
            run.closing.append(self._leave)  # where an error ends the loop
        return saved is not None and saved.resumed is not None

    def commit(self) -> None:
        """End a step: the run may be saved, stopped or moved here.

        All ranks end the same steps.

        Raises:
            InputError: Entries of the state were added or removed.
        """
        # A step leaves nothing of ours in the processor's caches, so each line here costs several
        # times what it does in a loop. What can wait for a look does.
        data, count = self._data, self._count
        if len(self._entries) != self._number:
            self._state.check_names()
        ends_known = False
        if data is not None:
            ends_known = self._run is not None and self._state.visits.note(data)
            data.trained()
            if not data.ends_update:  # a snapshot here would lack the gradients so far
                return
        count.done = done = count.done + 1
        if (run := self._run) is None:
            return
        run.iteration = done
        if ends_known:
            self._report_visits(run)
        boundaries, saved = run.boundaries, self._saved
        if data is None:
            boundaries.count += 1  # all there is to do without epochs
        else:
            boundaries.passed(data.epoch)
        is_due = boundaries.is_asked and boundaries.due
        if is_due or time.monotonic() >= self._next_look:
            self._state.check_names()
            self._report(run)
        # After the last step, ``finish`` saves what is final.
        if saved is not None and (is_due or (done >= saved.look_at and not self._is_over())):
            self._state.check_names()
            saved.passed(is_due=is_due)
        if is_due:
            raise RunStopped(f"stopped at iteration {done}")
        run.in_loop = done + 1

    def finish(self) -> None:
        """End the loop: its final state is saved, and a resumed run does not repeat it.

        Raises:
            InputError: Entries of the state were added or removed.
        """
        if self._has_finished:
            return
        self._state.check_names()
        self._has_finished = True
        run, saved = self._run, self._saved
        is_repeated = saved is not None and saved.resumed is not None and saved.resumed.final
        if saved is not None and not (is_repeated and self.step == self._first):
            saved.end(totals_reached=True)
        self._leave()
        if run is not None and run.boundaries.due:
            raise RunStopped(f"stopped at iteration {self.step}")

    def _leave(self) -> None:
        if self._data is not None:
            self._data.close()
        if (run := self._run) is not None:
            if run.in_loop:
                self._report(run)
            if self._leave in run.closing:
                run.closing.remove(self._leave)
            run.in_loop = 0

    def _is_over(self) -> bool:
        if self._steps is not None and self.step >= self._steps:
            return True
        return self._epochs is not None and self.epoch >= self._epochs - _ROUNDING

    def _next(self) -> ElasticStep | None:
        """Return the next step; None if there is none."""
        data, done = self._data, self._count.done
        if data is None:  # and so there are no epochs to end it
            return ElasticStep(done) if self._steps is None or done < self._steps else None
        if data.ends_update and self._is_over():
            return None
        try:
            while (given := data.give()) is None:
                if self._is_over():
                    return None
        except StopIteration:
            return None
        step = ElasticStep(self._count.done)
        step.batch, step.weight = given
        step.epoch, step.ends_epoch = data.epochs_before, data.ends_epoch
        return step

    def _resume(self, run: RunContext) -> None:
        """Resume from a snapshot, if the run saves any."""
        if run.snapshots is None:
            return
        from workbench.engine.snapshot.peers import Peers

        peers = Peers()
        self._check_ranks(peers)
        saved = self._saved = run.snapshots.begin_loop(self._state, peers)
        saved.begin()
        if self._data is not None:
            self._data.watch(self._may_be_saved)
        self._first = self.step
        if saved.was_stopped:
            raise RunStopped(f"stopped at iteration {self.step}")
        if saved.resumed is not None and saved.resumed.ranks != peers.size:
            for callback in self._callbacks:
                callback()

    def _may_be_saved(self) -> bool:
        """Return whether a snapshot may follow the present step, as far as is known."""
        run, saved = self._run, self._saved
        assert run is not None
        assert saved is not None
        return run.boundaries.is_asked or self._count.done + 1 >= saved.look_at

    def _check_ranks(self, peers: Peers) -> None:
        first, *others = peers.gather(self._state.kinds)
        for rank, kinds in enumerate(others, 1):
            if difference := difference_of(first, kinds):
                name, there, here = difference
                raise InputError(
                    f"state[{name!r}] is {there or 'absent'} on rank 0 and {here or 'absent'} on "
                    f"rank {rank}",
                    "give all ranks the same entries.",
                )

    def _report(self, run: RunContext) -> None:
        """Report the progress."""
        self._next_look = time.monotonic() + LOOK_SECONDS
        run.iteration = self.step
        # A loop that takes its batches itself may continue an earlier attempt's.
        seen = run.seen_epoch if self._data is None and not self._first else 0.0
        epoch, epochs = self.epoch or seen, self._epochs or 0.0
        total = self._steps or 0
        if not total and epochs and epoch:
            total = self.step + max(0, math.ceil(self.step * (epochs / epoch - 1) - _ROUNDING))
        run.log.progress = Progress(self.step, total, epoch, float(epochs))

    def _report_visits(self, run: RunContext) -> None:
        """Report how often each example of the epoch that has ended was visited; collective."""
        from workbench.engine.snapshot.peers import Peers

        peers = Peers()
        training = self._saved.number if self._saved is not None else 0
        visited = self._state.visits.end(peers, self.step, training)
        if visited is not None and peers.rank == 0:
            run.log.tell(visited)


_iterating: list[ElasticLoop] = []


def elastic(
    state: MutableMapping[str, Any],
    *,
    steps: int | None = None,
    epochs: float | None = None,
    data: Any = None,
) -> ElasticLoop:
    """Return a training loop that can stop, resume and move to other ranks between its steps.

    The end of a step is the end of the loop's body::

        state = {"model": model, "optimizer": optimizer, "best": 0.0}
        for step in workbench.elastic(state, data=loader, epochs=10):
            x, y = step.batch
            ...

    In a run the state is saved at the end of steps, at intervals that cost little, where the run
    stops, and at the end. A run that is resumed, moved to another number of ranks, or lost
    continues from the newest snapshot. All ranks do the same steps. Elsewhere it is a plain loop.

    Args:
        state: By name: models, optimizers and schedulers of PyTorch or Chainer, objects with
            ``state_dict``, iterators of Chainer, arrays, random generators, and plain values
            (numbers, texts, and lists and dictionaries of them). Models, optimizers and arrays
            have to be equal on all ranks, as data parallelism keeps them; of everything else each
            rank has its own. The loop sets the entries when it continues, so read a plain value
            from ``state``.
        steps: Ends the loop after so many steps, those of earlier attempts included.
        epochs: Ends it after so many epochs of ``data``.
        data: ``workbench.GlobalBatches``, a ``DataLoader`` of PyTorch, or an iterator of Chainer.
            Each step's batch is ``step.batch``.

    Raises:
        InputError: An argument is invalid, or an entry of the state cannot be saved.
    """
    if not isinstance(state, MutableMapping):
        raise InputError(
            f"elastic(state) takes a dictionary, not a {type(state).__name__}",
            "name what is to be saved, as in {'model': model, 'optimizer': optimizer}.",
        )
    if data is not None and any(value is data for value in state.values()):
        raise InputError(
            "elastic(state, data=…) has the data in its state too", "leave it out there."
        )
    if epochs is not None and data is None:
        raise InputError("elastic(epochs=…) needs the data whose epochs it counts", "give data=….")
    return ElasticLoop(
        state,
        steps=None if steps is None else _steps(steps),
        epochs=None if epochs is None else _epochs(epochs),
        data=None if data is None else _loop_data(data),
    )


def _steps(value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise InputError(f"elastic(steps=…) takes a whole number from 0, not {value!r:.80}")
    return number


def _epochs(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < math.inf:
        raise InputError(f"elastic(epochs=…) takes a number from 0, not {value!r:.80}")
    return number


def _build_nesting_error() -> StateError:
    return StateError(
        "An elastic loop begins inside of another one",
        "let one loop have the steps, and use a plain loop inside of a step.",
    )


def _loop_data(data: Any) -> LoopData:
    """Return what gives a loop the batches of ``data``.

    Raises:
        InputError: It is nothing that keeps a place.
    """
    if isinstance(data, GlobalBatches):
        return GlobalBatchesData(data)
    for one in frameworks():
        if (found := one.loop_data(data)) is not None:
            return found
    *others, last = ["GlobalBatches", *(one.data for one in frameworks() if one.data)]
    kinds = f"{', '.join(others)} or {last}" if others else last
    raise InputError(
        f"elastic(data=…) takes {kinds}, not a {type(data).__name__}",
        "put what knows its place in the data into the state, and read the batches yourself.",
    )
