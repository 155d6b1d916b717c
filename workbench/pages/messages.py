"""Say runs and clusters as ``workbench.pages.protocol`` has them.

The only sentences are those that the store has already.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

import msgspec

from workbench.analysis.step_breakdown import NOTHING_KNOWN, StepBreakdown, read_stored_breakdown
from workbench.core.cluster.model import ClusterFact, ResizeAt, as_next_started, shown_state
from workbench.core.curves import Curve
from workbench.core.fleet.model import Node
from workbench.core.performance.comparison import StepSummary
from workbench.core.recovery.resumption import NONE, offers_resume
from workbench.core.run.metrics import (
    drawn,
    fraction_done,
    group_names,
    seconds_taken,
    select_reported,
)
from workbench.core.run.model import Run, only_printed
from workbench.errors import Unknown
from workbench.pages.protocol import (
    ClusterMessage,
    CurveTextMessage,
    ListedRunMessage,
    MarkMessage,
    MeasuredMessage,
    RankMessage,
    ResizingMessage,
    RunMessage,
    StepMessage,
    StepPart,
    StepsMessage,
)
from workbench.store import Store
from workbench.store.disk import full_disk
from workbench.surfaces import in_page
from workbench.view.attempts import marks_of, redone_messages
from workbench.view.cluster_changes import resize_effects
from workbench.view.hang_text import hang_message
from workbench.view.pictures.curve_layout import curve_description, nonfinite_remark
from workbench.view.pictures.step_bars import choose_rows, is_marked, label, longest_bar, title
from workbench.view.run_record import failed_attempts, runs_before
from workbench.view.state_line import is_stopping, line_parts, reason, state_word
from workbench.view.tables.nodes import fleet_message, fleet_of

MOST_RANKS = 32  # whose step times are sent
SPARK_BUCKETS = 40
CLOCK_POINTS = 40
ERROR_CHARACTERS = 20_000
NO_CURVES: Mapping[str, Curve] = {}


@dataclass(frozen=True)
class MessageDetails:
    """What the message of a run has besides what a person wished and the supervisor wrote.

    Args:
        values: The last value of every name.
        ranges: The least and the greatest one, where several ranks reported it.
        displays: Number of rank 0's displays.
        marks: Where it continued.
        failures: The attempts that failed and were tried again.
        snapshot: The iteration of the newest one.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    displays: int = 0
    marks: tuple[MarkMessage, ...] = ()
    failures: tuple[str, ...] = ()
    snapshot: int = NONE


NO_DETAILS = MessageDetails()


def read_details(store: Store, run: Run) -> MessageDetails:
    """Return the details of ``run`` as they are now."""
    return MessageDetails(
        values=store.reports.final_values(run.id),
        ranges=store.reports.final_ranges(run.id),
        displays=store.displays.count(run.id).get(0, 0),
        marks=marks_of(store, run),
        failures=failed_attempts(store, run),
        snapshot=store.attempts.newest_snapshot(run.id),
    )


def run_message(
    run: Run,
    now: float,
    details: MessageDetails = NO_DETAILS,
    *,
    rate: float = 0.0,
    waiting: str = "",
    reclaimed: tuple[Node, ...] = (),
    clock: tuple[tuple[int, float], ...] = (),
    anatomy: StepBreakdown = NOTHING_KNOWN,
    curves: Mapping[str, Curve] = NO_CURVES,
    redone: Iterable[int] = (),
) -> RunMessage:
    """Return one run.

    Args:
        now: Epoch seconds.
        rate: Recent iterations per second; 0 when unknown.
        waiting: Why it waits.
        reclaimed: The nodes of its cluster that have an interruption notice.
        clock: When iterations were done, see ``clock_of``.
        anatomy: The step breakdown and its verdict.
        curves: The curves to describe.
        redone: The attempts with stretches that were done again.
    """
    wish, fact = run.wish, run.fact
    return RunMessage(
        id=wish.id,
        name=wish.name,
        kind=wish.kind,
        cluster=wish.cluster,
        state=fact.state,
        is_ended=fact.state.ended,
        is_stopping=is_stopping(run),
        ranks=fact.ranks,
        generation=fact.generation,
        created=wish.created,
        started=fact.started,
        ended=fact.ended,
        now=now,
        iteration=fact.iteration,
        fraction=fraction_done(fact),
        seconds_taken=seconds_taken(fact, now),
        failed_rank=fact.failed_rank,
        failed_host=fact.failed_host,
        error=fact.error[-ERROR_CHARACTERS:],
        message=in_page(fact.message),
        word=state_word(run),
        line=tuple(map(in_page, line_parts(run, now, waiting, rate, reclaimed))),
        curves=tuple(
            _curve_text(name, curves[name], details.values.get(name, math.nan))
            for name in drawn(curves)
        ),
        is_folded=bool(fact.traceback),
        hang=hang_message(run),
        parameters={name: _plain(value) for name, value in wish.options.parameters},
        arguments=tuple(str(argument) for argument in wish.options.arguments),
        values={
            name: finite_or_none(value) for name, value in select_reported(details.values).items()
        },
        ranges={name: one for name, one in details.ranges.items() if name in drawn(curves)},
        clock=clock,
        displays=details.displays,
        verdict=anatomy.says,
        step=_step_message(anatomy.summary),
        marks=details.marks,
        redone=redone_messages(redone),
        failures=details.failures,
        is_resumable=offers_resume(run, details.snapshot),
    )


def clock_of(store: Store, run: Run, names: Iterable[str]) -> tuple[tuple[int, float], ...]:
    """Return pairs of an iteration, and the seconds from the run's start until it was done."""
    groups = group_names(names)
    if not groups or not run.fact.started:
        return ()
    found = store.reports.clock(run.id, groups[0].names[0], CLOCK_POINTS)
    return tuple((at, round(max(0.0, time - run.fact.started), 3)) for at, time in found)


def _curve_text(name: str, curve: Curve, last: float) -> CurveTextMessage:
    return CurveTextMessage(
        name=name, description=curve_description(curve, last), remark=nonfinite_remark(curve)
    )


def _step_message(step: StepSummary | None) -> StepMessage | None:
    if step is None:
        return None
    return StepMessage(
        parts=cast("Mapping[StepPart, float]", step.parts), noise=step.noise, batch=step.batch
    )


def steps_message(anatomy: StepBreakdown) -> StepsMessage:
    """Return the step breakdown."""
    rows = choose_rows(anatomy, MOST_RANKS)
    return StepsMessage(
        slowest=anatomy.slowest,
        ranks=tuple((rank, *seconds) for rank, seconds in rows.items()),
        parts=cast("tuple[StepPart, ...]", anatomy.parts),
        says=anatomy.says,
        title=title(anatomy, rows),
        labels=tuple(label(anatomy, rank) for rank in rows),
        marked=next((i for i, rank in enumerate(rows) if is_marked(anatomy, rank)), -1),
        longest=longest_bar(rows),
    )


def full_run_message(
    store: Store, run: Run, now: float, anatomy: StepBreakdown | None = None
) -> RunMessage:
    """Return the full message of ``run`` at ``now``.

    Args:
        anatomy: The step breakdown (default: the stored one).
    """
    return _fill_run_message(store, run, now, read_details(store, run), anatomy)


def _listed_run_message(store: Store, run: Run, now: float) -> RunMessage:
    """Return the message of a run in a list, without what takes long to read."""
    values = store.reports.final_values(run.id)
    displays = store.displays.count(run.id).get(0, 0)
    return _fill_run_message(store, run, now, MessageDetails(values=values, displays=displays))


def _fill_run_message(
    store: Store,
    run: Run,
    now: float,
    details: MessageDetails,
    anatomy: StepBreakdown | None = None,
) -> RunMessage:
    cluster, before = ClusterFact(run.wish.cluster), tuple[Run, ...]()
    reclaimed: tuple[Node, ...] = ()
    if not run.fact.state.ended:
        cluster = store.cluster_fact(run.wish.cluster)
        reclaimed = store.fleets.reclaimed_nodes(run.wish.cluster)
        before = runs_before(run, store.list_unfinished(run.wish.cluster))
    return run_message(
        run,
        now,
        details,
        waiting=reason(run, cluster, before),
        reclaimed=reclaimed,
        anatomy=anatomy or read_stored_breakdown(store, run),
    )


def listed_runs(
    store: Store, cluster: str | None, limit: int, now: float
) -> tuple[ListedRunMessage, ...]:
    """Return the newest runs first, each with a small picture of its main curve."""
    found = []
    for run in store.runs(cluster, limit=limit):
        message = _listed_run_message(store, run, now)
        groups = group_names(message.values)
        name = groups[0].names[0] if groups else ""
        spark = store.reports.spark(run.id, name, SPARK_BUCKETS) if name else []
        listed = ListedRunMessage(
            **msgspec.structs.asdict(message),
            sparkline=tuple(map(finite_or_none, spark)),
            sparkline_name=name,
            only_printed=only_printed(run, bool(groups)),
        )
        found.append(listed)
    return tuple(found)


def cluster_message(store: Store, name: str, now: float) -> ClusterMessage:
    """Return cluster ``name``: its desired and its observed state.

    Raises:
        Unknown: There is no such cluster.
    """
    wish, fact = store.cluster_wish(name), store.cluster_fact(name)
    if wish is None:
        raise Unknown(f"There is no cluster {name!r}.")
    wish = as_next_started(wish, fact)
    last = store.surveys.last(name)
    fleet = fleet_message(fleet_of(store, wish, fact.ranks, now))
    ranks = store.ranks(name, fact.generation) if fact.ranks else []
    return ClusterMessage(
        **msgspec.structs.asdict(fleet),
        name=name,
        state=shown_state(wish, fact),
        message=in_page(full_disk(store.path) or fact.message),
        is_wanted=wish.up,
        # The default is as many as the nodes have slots.
        ranks_asked=(wish.ranks or fact.ranks) if wish.up else 0,
        ranks_wished=wish.ranks,
        ranks_actual=fact.ranks,
        oversubscribe=wish.oversubscribe,
        revision=wish.revision,
        generation=fact.generation,
        updated=fact.updated,
        ranks=tuple(RankMessage(rank=one.rank, host=one.host, pid=one.pid) for one in ranks),
        runs=tuple(_listed_run_message(store, run, now) for run in store.list_unfinished(name)),
        measured=MeasuredMessage(run=last[0], time=last[1]) if last else None,
        resizing=_resizing_message(store, name),
        releases=(fact.releases or None) if wish.up else None,
    )


def _resizing_message(store: Store, cluster: str) -> ResizingMessage | None:
    found = resize_effects(store, cluster)
    if not found:
        return None
    step, end = found[ResizeAt.STEP], found[ResizeAt.END]
    return ResizingMessage(step=step, epoch=found.get(ResizeAt.EPOCH), end=end)


def finite_or_none(value: float) -> float | None:
    """Return ``value``, or None for numbers that JSON lacks."""
    return value if math.isfinite(value) else None


def _plain(value: object) -> object:
    """Return a parameter as a JSON value."""
    if isinstance(value, float):
        return finite_or_none(value)
    return value if isinstance(value, (bool, int, str)) or value is None else repr(value)
