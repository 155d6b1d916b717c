"""The messages to a page about clusters, runs and measurements, one type each.

``extension/messages.py`` writes ``extension/src/messages.ts`` from these, so that both sides agree:
a message ``RunMessage`` is ``IRun`` there. Times are in epoch seconds, 0 for "not yet"; money is in
dollars. A field with a default may be missing from what an older version saved.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, cast

from workbench.core.cluster.model import ClusterState
from workbench.core.curves.frames import FrameHeader, SeriesHeader
from workbench.core.fleet.model import NodeState, Provider
from workbench.core.fleet.purchases import PurchaseOutcome
from workbench.core.run.model import RunKind, RunState
from workbench.view.phrase import Phrase

StepPart = Literal[
    "compute", "communication", "waiting", "moving", "point-to-point", "data", "other"
]


@dataclass(frozen=True, kw_only=True)
class NodeMessage:
    """One node, as it was last seen.

    Args:
        address: Its address for the other nodes, or empty.
        failed: Whether it did not come up, or could not be prepared; ``message`` says why.
        since: When it entered its state.
        slots: Number of ranks that it can run; 0 while unknown.
        price: Present dollars per hour; 0 if it is free.
        spent: Dollars so far.
        traffic: Part of ``spent`` for traffic, estimated.
        message: One sentence for the reader, or empty.
        notice: When the provider takes it back; null without an interruption notice.
    """

    id: str
    address: str
    type: str
    zone: str
    state: NodeState
    failed: bool
    since: float
    slots: int
    price: float
    spent: float
    traffic: float
    head: bool
    message: str
    notice: Phrase | None = None


@dataclass(frozen=True, kw_only=True)
class PurchaseMessage:
    """One purchase that was tried, or is being tried.

    Args:
        message: Why it was refused, in a sentence.
    """

    what: str
    outcome: PurchaseOutcome
    message: str


@dataclass(frozen=True, kw_only=True)
class HangMessage:
    """Which ranks wait for which others.

    Args:
        sure: Whether no rank makes progress; else some ranks are only slow.
        sentence: To be shown with a capital first letter.
        advice: What to do; null if there is nothing to do.
    """

    sure: bool
    sentence: Phrase | None = None
    advice: Phrase | None = None


@dataclass(frozen=True, kw_only=True)
class StepMessage:
    """The step breakdown of a run, as the mean over its ranks.

    Args:
        parts: Seconds of each part, in display order.
        noise: Relative variation of the step time.
        batch: Examples of all ranks in a step; 0 when unknown.
    """

    parts: Mapping[StepPart, float]
    noise: float
    batch: float


@dataclass(frozen=True, kw_only=True)
class StepsMessage:
    """The step breakdown of each rank, in seconds per step.

    Args:
        slowest: The rank that the others wait for; -1 when unknown.
        ranks: Some ranks in their order, each with its number and its parts; the slowest is among
            them.
        parts: The names of the parts.
        says: The verdict and related advice, a sentence each.
        title: The caption.
        labels: Of each of ``ranks``.
        marked: The place in ``ranks`` of the one to highlight; -1 for none.
        longest: Of all bars, in seconds.
    """

    slowest: int
    ranks: tuple[tuple[float, ...], ...]
    parts: tuple[StepPart, ...] = ()
    says: tuple[str, ...] = ()
    title: Phrase | None = None
    labels: tuple[Phrase, ...] = ()
    marked: int = -1
    longest: float = 0.0


@dataclass(frozen=True, kw_only=True)
class CurveTextMessage:
    """A curve in words.

    Args:
        description: What it shows, for those who do not see it.
        remark: That values are not finite; null if all are.
    """

    name: str
    description: Phrase
    remark: Phrase | None


@dataclass(frozen=True, kw_only=True)
class MarkMessage:
    """A mark on a run's curves, where it continued in another attempt, or is to.

    Args:
        iteration: That of the snapshot from which it continued.
        text: Why it continued, and what that cost.
        is_pending: Whether it is to move there; the curves have not come as far yet.
    """

    iteration: int
    text: Phrase
    is_pending: bool = False


@dataclass(frozen=True, kw_only=True)
class RedoneMessage:
    """The stretches of a run's curves that a later attempt did again, drawn faintly.

    Args:
        attempt: The attempt that did them first.
        text: What is shown where one is pointed at.
    """

    attempt: int
    text: Phrase


@dataclass(frozen=True, kw_only=True)
class RunMessage:
    """A run: its desired and its observed state.

    Args:
        is_ended: Whether the run is complete.
        is_stopping: Whether a stop was requested.
        now: The server's clock when this was written.
        fraction: From 0 to 1; null when no total is known.
        error: The failed rank's own traceback.
        message: Sentences for the reader, or empty.
        values: The last value of each reported name, in the order in which views show them: the
            median over the ranks; null where it is not finite.
        ranges: The least and the greatest of the ranks' last values, of each curve that is drawn.
        clock: Pairs of an iteration and the seconds from the run's start until it was done, both
            increasing; empty in lists.
        word: Its state in a word.
        line: The parts of the line beside its state; a string is shown as it is.
        curves: Those that are drawn, in the run's own messages; empty in lists.
        is_folded: Whether frames are left out of the error, which ``workbench logs`` prints.
        hang: Which ranks wait for which others, now or when it ended.
        displays: Number of rank 0's figures, tables and similar.
        verdict: The verdict on the step breakdown, a sentence each; final once it has ended.
        step: Null without measurements.
        marks: Where it continued or is to, in the run's own messages; empty in lists.
        is_resumable: Whether Resume is offered; false in lists and in what a notebook keeps.
        redone: The attempts with stretches that were done again; empty in lists.
        failures: The attempts that failed and were tried again, a sentence each; empty in lists.
    """

    id: str
    name: str
    kind: RunKind
    cluster: str
    state: RunState
    is_ended: bool
    is_stopping: bool
    ranks: int
    generation: int
    created: float
    started: float
    ended: float
    now: float
    iteration: int
    fraction: float | None
    seconds_taken: float
    failed_rank: int
    failed_host: str
    error: str
    message: str
    parameters: Mapping[str, object]
    arguments: tuple[str, ...]
    values: Mapping[str, float | None]
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    clock: tuple[tuple[int, float], ...] = ()
    word: Phrase | None = None
    line: tuple[Phrase | str, ...] = ()
    curves: tuple[CurveTextMessage, ...] = ()
    is_folded: bool = False
    hang: HangMessage | None = None
    displays: int = 0
    verdict: tuple[str, ...] = ()
    step: StepMessage | None = None
    marks: tuple[MarkMessage, ...] = ()
    is_resumable: bool = False
    redone: tuple[RedoneMessage, ...] = ()
    failures: tuple[Phrase, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ListedRunMessage(RunMessage):
    """A run of the list, with a small picture of its main curve.

    Args:
        sparkline: Some values in the order of iterations; null for a gap.
        sparkline_name: What ``sparkline`` shows, such as ``main/loss``; empty when nothing was
            reported.
        only_printed: Whether it finished without a value to draw, as a cell that only prints does.
    """

    sparkline: tuple[float | None, ...]
    sparkline_name: str
    only_printed: bool = False


@dataclass(frozen=True, kw_only=True)
class AboutMessage:
    """What a run is made of.

    Args:
        parts: Texts by what they are, such as ``arguments``; of variables only the names.
        source: The script's or the cell's text.
    """

    parts: Mapping[str, str]
    source: str


@dataclass(frozen=True, kw_only=True)
class RankMessage:
    """The host and process of a rank."""

    rank: int
    host: str
    pid: int


@dataclass(frozen=True, kw_only=True)
class MeasuredMessage:
    """Which run measured a cluster last, and when."""

    run: str
    time: float


@dataclass(frozen=True, kw_only=True)
class FleetMessage:
    """A cluster's nodes and costs.

    Args:
        provider: The provider of its nodes; ``local`` is this machine.
        nodes_actual: Number of nodes with ranks.
        nodes_defined: The last desired number, also of a cluster that is down.
        min_nodes: The smallest number of nodes of a world.
        max_nodes: The number to which it may grow while runs wait; 0 for a fixed size.
        price: Dollars per hour; null when it costs nothing.
        spent: Dollars so far; null when it costs nothing.
        traffic: Dollars of these for traffic, estimated; null when it costs nothing.
        budget: Dollars that it may cost in total; null for no limit.
        expires: When it is deleted automatically; null for never.
        node_states: The number of nodes in each state, including ``failed``; empty for this
            machine.
        nodes: Some nodes that are not gone, the head first; empty for this machine.
        purchases: The purchases tried for missing nodes, in order; empty when none is missing.
    """

    provider: Provider
    nodes_asked: int
    nodes_actual: int
    nodes_defined: int
    min_nodes: int
    max_nodes: int
    price: float | None
    spent: float | None
    traffic: float | None
    budget: float | None
    expires: float | None
    node_states: Mapping[str, int]
    nodes: tuple[NodeMessage, ...]
    purchases: tuple[PurchaseMessage, ...]


@dataclass(frozen=True, kw_only=True)
class ResizingMessage:
    """What a resize means for the run that trains now, by when it is asked to move.

    Args:
        step: At its next iteration.
        epoch: At the end of its epoch; null if it has none.
        end: After it has ended.
    """

    step: Phrase
    epoch: Phrase | None
    end: Phrase


@dataclass(frozen=True, kw_only=True)
class ClusterMessage(FleetMessage):
    """A cluster: its desired and its observed state.

    Args:
        message: One sentence for the reader, or empty.
        is_wanted: Whether it is desired to be up.
        ranks_asked: 0 while it is not desired to be up.
        ranks_wished: The last desired size, also of a cluster that is down.
        revision: Increases with every wish; the latest one is valid.
        runs: Those that have not ended, oldest first.
        measured: Null if no run measured its links.
        resizing: Null if no run trains.
    """

    name: str
    state: ClusterState
    message: str
    is_wanted: bool
    ranks_asked: int
    ranks_wished: int
    ranks_actual: int
    oversubscribe: bool
    revision: int
    generation: int
    updated: float
    ranks: tuple[RankMessage, ...]
    runs: tuple[RunMessage, ...]
    measured: MeasuredMessage | None
    resizing: ResizingMessage | None = None


@dataclass(frozen=True, kw_only=True)
class ClustersMessage:
    """All clusters, and the limits of this machine.

    Args:
        slots: Ranks that this machine runs without oversubscription.
        usual_ranks: Ranks that a new cluster of this machine has.
        max_ranks: The largest number of ranks that can be requested.
    """

    clusters: tuple[ClusterMessage, ...]
    slots: int
    usual_ranks: int
    max_ranks: int
    version: str


@dataclass(frozen=True, kw_only=True)
class ExchangeMessage:
    """An allreduce of one size.

    Args:
        way: The implementation: ours, or the MPI library's own.
        algorithm: The algorithm, or empty.
    """

    nbytes: int
    seconds: float
    way: str
    algorithm: str
    algbw: float
    busbw: float


@dataclass(frozen=True, kw_only=True)
class RateMessage:
    """A measurement within a node."""

    node: str
    what: str
    bandwidth: float
    latency: float


@dataclass(frozen=True, kw_only=True)
class SurveyMessage:
    """The results of a measurement, in bytes, seconds and bytes per second.

    Args:
        seconds: Its duration.
        nodes: Names in the order of their ranks.
        links: From each node (row) to each (column); null where it was not measured.
        latencies: One way, from a node to another, by their indices in ``nodes``.
        slowest: The slowest link, by its ends; null without any.
        rating: The rated bandwidth of a node's network; 0 when unknown.
        rates: Within nodes.
        remarks: What stands out and what has changed, a sentence each.
    """

    time: float
    seconds: float
    ranks: int
    nodes: tuple[str, ...]
    links: tuple[tuple[float | None, ...], ...]
    latencies: tuple[tuple[int, int, float], ...]
    slowest: tuple[int, int] | None
    rating: float
    exchanges: tuple[ExchangeMessage, ...]
    rates: tuple[RateMessage, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DisplayedMessage:
    """What a rank displays in one place.

    Args:
        data: By MIME type, as the rank sent it: not to be trusted. Images are in base64, JSON is
            text.
        metadata: By an image's MIME type: its size in pixels.
    """

    place: int
    data: Mapping[str, str]
    metadata: Mapping[str, Mapping[Literal["width", "height"], int]]


Piece = (
    tuple[int, Literal["stdout", "stderr"], str]
    | tuple[int, Literal["display", "update"], str, DisplayedMessage]
    | tuple[int, Literal["clear"], str]
)


@dataclass(frozen=True, kw_only=True)
class OutputMessage:
    """Some output of the ranks.

    Args:
        after: Sequence number up to which output was sent or skipped.
        skipped: Number of pieces that were left out because there were too many.
    """

    after: int
    skipped: int
    pieces: tuple[Piece, ...]


MESSAGES: tuple[type[Any], ...] = (
    Phrase, NodeMessage, PurchaseMessage, HangMessage, StepMessage,
    StepsMessage, CurveTextMessage, MarkMessage, RedoneMessage, RunMessage, ListedRunMessage,
    AboutMessage, RankMessage, MeasuredMessage, FleetMessage, ResizingMessage, ClusterMessage,
    ClustersMessage, ExchangeMessage,
    RateMessage, SurveyMessage, SeriesHeader, FrameHeader, DisplayedMessage, OutputMessage,
)  # fmt: skip


_AS_THEY_ARE = frozenset({str, int, float, bool, type(None)})


def as_values(message: Any) -> dict[str, Any]:
    """Return a message as JSON values."""
    return {name: _plain(getattr(message, name)) for name in _names(message.__class__)}


@cache
def _names(kind: Hashable) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cast("Any", kind)))


def _plain(value: Any) -> Any:
    if type(value) in _AS_THEY_ARE:  # most are, and a page gets several hundred a second
        return value
    if isinstance(value, str):  # an enum's member as well
        return str(value)
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return as_values(value) if is_dataclass(value) else value
