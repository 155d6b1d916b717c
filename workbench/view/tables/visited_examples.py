"""Say how often each example was visited in each epoch of a run, over all of its attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from workbench.core.run.model import Run
from workbench.core.run.rank_protocol import ExamplesVisited, IteratorUndivided
from workbench.core.units import count
from workbench.store import Store
from workbench.view.tables.listing import Table

MOST_SHOWN = 10
NO_RECORD = (
    "has no epoch whose examples are known: each epoch of workbench.elastic with GlobalBatches, of "
    "a trainer of Chainer, Hugging Face or Lightning, or of a loop of accelerate is counted at its "
    "end, if the training is saved"
)
APART = (
    "Whether ranks have the same examples is not known, because the data is not divided by "
    "chainermn.scatter_dataset."
)
_WORDS = {0: "never", 1: "once", 2: "twice"}


def read_visits(store: Store, run: Run) -> list[ExamplesVisited]:
    """Return the counts of the epochs that the run has, in order.

    An epoch that was ended twice, because its model was lost in between, counts as it was ended
    last.
    """
    events = store.events.all(run.id, ExamplesVisited)
    last = max((one.training for one in events), default=0)
    found = {
        (one.training, one.epoch): one
        for one in events
        if one.training < last or one.iteration <= run.fact.iteration
    }
    return [found[key] for key in sorted(found)]


def visits_table(visits: Sequence[ExamplesVisited]) -> Table:
    """Return how many examples were visited how often, a row for each epoch."""
    many = sorted({0, 1}.union(*(dict(one.times) for one in visits)))
    trainings = len({one.training for one in visits}) > 1
    rows = []
    for one in visits:
        times = dict(one.times)
        epoch = f"{one.epoch + 1} of training {one.training}" if trainings else f"{one.epoch + 1}"
        rows.append((epoch, str(sum(times.values())), *(str(times.get(n, 0)) for n in many)))
    return Table(("epoch", "examples", *map(_describe_times, many)), (*rows,))


def read_own_iterator(store: Store, run: Run) -> str:
    """Return the kind of a run's iterator that is the user's own; empty for any other."""
    found = store.events.newest(run.id, IteratorUndivided)
    return found.kind if found else ""


def visits_sentence(run: Run, visits: Sequence[ExamplesVisited], iterator: str = "") -> str:
    """Return whether each example was visited once in each epoch, or what was not so.

    Args:
        iterator: What ``read_own_iterator`` returns.
    """
    if not visits and iterator:
        return (
            f"Run {run.wish.name!r} has no epoch whose examples are known: its {iterator} does not "
            "say which it gives."
        )
    if not visits:
        return f"Run {run.wish.name!r} {NO_RECORD}."
    if any(one.apart for one in visits):
        said = visits_sentence(run, [replace(one, apart=False) for one in visits])
        return f"{said.replace(': ', ', of the data of each rank for itself: ', 1)} {APART}"
    over = f"over {count(run.fact.attempt, 'attempt')}"
    known = {(one.training, one.epoch) for one in visits}
    gaps = [
        f"epoch {epoch + 1} is not known whole"
        for training, last in dict(sorted(known)).items()
        for epoch in range(last)
        if (training, epoch) not in known
    ]
    faults = [_describe_fault(one) for one in visits if {*dict(one.times)} != {1}]
    if not (gaps or faults):
        return f"Examples once: proved, in {count(len(visits), 'epoch')} {over}."
    each = {*dict(visits[0].times)}
    if not gaps and len(each) == 1 and all({*dict(one.times)} == each for one in visits):
        return (
            f"Examples once: no. Each one was visited {_describe_times(min(each))} in each epoch, "
            f"{over}: the ranks do not divide the data."
        )
    return f"Examples once: not proved, {over}: {'; '.join([*gaps, *faults][:MOST_SHOWN])}."


def visits_values(visits: Sequence[ExamplesVisited]) -> list[Mapping[str, object]]:
    """Return the counts in values for JSON."""
    return [
        {
            "training": one.training,
            "epoch": one.epoch + 1,
            "times": dict(one.times),
            "apart": one.apart,
        }
        for one in visits
    ]


def _describe_fault(one: ExamplesVisited) -> str:
    times = dict(one.times)
    usual = max(times, key=lambda many: times[many])
    parts = [f"{times[many]} {_describe_times(many)}" for many in sorted(times) if many != usual]
    parts += [f"each {_describe_times(usual)}"] if not parts else []
    such = ", ".join(map(str, one.others[:MOST_SHOWN]))
    return f"epoch {one.epoch + 1} visited {', '.join(parts)}{f' (such as {such})' if such else ''}"


def _describe_times(many: int) -> str:
    return _WORDS.get(many, f"{many} times")
