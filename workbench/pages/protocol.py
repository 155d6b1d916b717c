"""The messages to a page about clusters, runs and measurements, one type each.

``extension/messages.py`` writes ``extension/src/messages.ts`` from these, so that both sides agree:
a message ``RunMessage`` is ``IRun`` there. Times are in epoch seconds, 0 for "not yet"; money is in
dollars. A field with a default may be missing from what an older version saved. A number that is
not finite is null in JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from workbench.core.cluster.model import ClusterState
from workbench.core.fleet.form import FieldKind
from workbench.core.fleet.model import NodeState
from workbench.core.fleet.purchases import PurchaseOutcome
from workbench.core.run.metrics import Family
from workbench.core.run.model import RunKind, RunState
from workbench.pages.requests import FormRequest

StepPart = Literal[
    "compute", "communication", "waiting", "moving", "point-to-point", "data", "other"
]

# The MIME type of a run in a cell's output.
RUN_TYPE = "application/vnd.workbench.run+json"
# Close codes of the WebSocket.
UNKNOWN_RUN = 4404
STORE_TROUBLE = 4503


class SentMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The base of what is sent to pages."""


class NodeMessage(SentMessage, frozen=True, kw_only=True):
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
        notice: When the provider takes it back; empty without an interruption notice.
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
    notice: str = ""


class PurchaseMessage(SentMessage, frozen=True, kw_only=True):
    """One purchase that was tried, or is being tried.

    Args:
        message: Why it was refused, in a sentence.
    """

    what: str
    outcome: PurchaseOutcome
    message: str


class HangMessage(SentMessage, frozen=True, kw_only=True):
    """Which ranks wait for which others.

    Args:
        sure: Whether no rank makes progress; else some ranks are only slow.
        advice: What to do; empty if there is nothing to do.
    """

    sure: bool
    sentence: str
    advice: str = ""


class StepMessage(SentMessage, frozen=True, kw_only=True):
    """The step breakdown of a run, as the mean over its ranks.

    Args:
        parts: Seconds of each part, in display order.
        noise: Relative variation of the step time.
        batch: Examples of all ranks in a step; 0 when unknown.
    """

    parts: Mapping[StepPart, float]
    noise: float
    batch: float


class StepsMessage(SentMessage, frozen=True, kw_only=True, tag="steps"):
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
    title: str = ""
    labels: tuple[str, ...] = ()
    marked: int = -1
    longest: float = 0.0


class CurveTextMessage(SentMessage, frozen=True, kw_only=True):
    """A curve in words.

    Args:
        description: What it shows, in words that follow its name.
        remark: That values are not finite, likewise; empty if all are.
    """

    name: str
    description: str
    remark: str


class MarkMessage(SentMessage, frozen=True, kw_only=True):
    """A mark on a run's curves, where it continued in another attempt, or is to.

    Args:
        iteration: That of the snapshot from which it continued.
        text: Why it continued, and what that cost.
        is_pending: Whether it is to move there; the curves have not come as far yet.
    """

    iteration: int
    text: str
    is_pending: bool = False


class RedoneMessage(SentMessage, frozen=True, kw_only=True):
    """The stretches of a run's curves that a later attempt did again, drawn faintly.

    Args:
        attempt: The attempt that did them first.
        text: What is shown where one is pointed at.
    """

    attempt: int
    text: str


class RunMessage(SentMessage, frozen=True, kw_only=True):
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
        line: The parts of the line beside its state.
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
    ranges: Mapping[str, tuple[float, float]] = {}
    clock: tuple[tuple[int, float], ...] = ()
    word: str = ""
    line: tuple[str, ...] = ()
    curves: tuple[CurveTextMessage, ...] = ()
    is_folded: bool = False
    hang: HangMessage | None = None
    displays: int = 0
    verdict: tuple[str, ...] = ()
    step: StepMessage | None = None
    marks: tuple[MarkMessage, ...] = ()
    is_resumable: bool = False
    redone: tuple[RedoneMessage, ...] = ()
    failures: tuple[str, ...] = ()


class ListedRunMessage(RunMessage, frozen=True, kw_only=True):
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


class AboutMessage(SentMessage, frozen=True, kw_only=True):
    """What a run is made of.

    Args:
        parts: Texts by what they are, such as ``arguments``; of variables only the names.
        source: The script's or the cell's text.
    """

    parts: Mapping[str, str]
    source: str


class RankMessage(SentMessage, frozen=True, kw_only=True):
    """The host and process of a rank."""

    rank: int
    host: str
    pid: int


class MeasuredMessage(SentMessage, frozen=True, kw_only=True):
    """Which run measured a cluster last, and when."""

    run: str
    time: float


class FleetMessage(SentMessage, frozen=True, kw_only=True):
    """A cluster's nodes and costs.

    Args:
        provider: Name of the provider of its nodes.
        provider_label: What people call the provider.
        has_nodes: Whether it has nodes, rather than this machine alone.
        lists_hosts: Whether its nodes are hosts that the user lists, which stay on.
        nodes_actual: Number of nodes with ranks.
        nodes_defined: The last desired number, also of a cluster that is down.
        min_nodes: The smallest number of nodes of a world.
        max_nodes: The number to which it may grow while runs wait; 0 for a fixed size.
        unit: What is charged in place of dollars, such as ``core-hours``.
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

    provider: str
    provider_label: str
    has_nodes: bool
    lists_hosts: bool
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
    unit: str = ""


class ResizingMessage(SentMessage, frozen=True, kw_only=True):
    """What a resize means for the run that trains now, by when it is asked to move.

    Args:
        step: At its next iteration.
        epoch: At the end of its epoch; null if it has none.
        end: After it has ended.
    """

    step: str
    epoch: str | None
    end: str


class ClusterMessage(FleetMessage, frozen=True, kw_only=True):
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
        releases: When its nodes are given back because there is nothing to do, while that is
            announced; null otherwise.
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
    releases: float | None = None


class ClustersMessage(SentMessage, frozen=True, kw_only=True):
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


class TableMessage(SentMessage, frozen=True, kw_only=True):
    """A table; the first cell of a row is its name.

    Args:
        is_open: Whether it is shown at once, and not folded.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    is_open: bool = False


class FieldMessage(SentMessage, frozen=True, kw_only=True):
    """A field of a provider's form.

    Args:
        hint: What it does.
        usual: The number that a new form shows.
        example: What is shown where no text was entered.
        is_folded: Whether it is among the settings that are folded at first.
    """

    name: str
    label: str
    hint: str
    kind: FieldKind
    usual: float
    example: str
    is_folded: bool


class PlaceMessage(SentMessage, frozen=True, kw_only=True):
    """A provider of nodes, and what its form asks."""

    name: str
    label: str
    has_nodes: bool
    lists_hosts: bool
    fields: tuple[FieldMessage, ...]


class FormMessage(SentMessage, frozen=True, kw_only=True):
    """What may be asked for a cluster that is not up.

    Args:
        asked: What was asked for last; null if that was this machine.
    """

    places: tuple[PlaceMessage, ...]
    asked: FormRequest | None


class OfferMessage(SentMessage, frozen=True, kw_only=True):
    """One instance type that fits.

    Args:
        cells: Its row in the table; the price history is drawn in place of the empty one.
        history: Pairs of epoch seconds and $/h, oldest first.
        chart: The price history in words.
        range: Its least and greatest price.
    """

    cells: tuple[str, ...]
    history: tuple[tuple[float, float], ...]
    chart: str
    range: str


class OffersMessage(SentMessage, frozen=True, kw_only=True):
    """The instance types that fit, the best first."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[OfferMessage, ...]


class EstimateMessage(SentMessage, frozen=True, kw_only=True, omit_defaults=True):
    """What the nodes of a form come to.

    Args:
        refusal: Why they cannot be started; empty if they can.
        says: The total with remarks, or why there is none.
        price: Dollars an hour of all nodes; null without a price.
        hosts: The number of listed hosts.
        region: The region searched.
        types: The instance types to choose from.
        offers: Null until they are asked for.
        findings: Those of a dry run of what starting and deleting needs; null without one.
    """

    refusal: str = ""
    says: str = ""
    price: float | None = None
    hosts: int = 0
    region: str = ""
    types: tuple[str, ...] = ()
    offers: OffersMessage | None = None
    findings: TableMessage | None = None


class KeyMessage(SentMessage, frozen=True, kw_only=True):
    """A host key that is not trusted yet.

    Args:
        kind: Its algorithm.
        line: The line of known_hosts.
    """

    address: str
    kind: str
    fingerprint: str
    line: str


class KeysMessage(SentMessage, frozen=True, kw_only=True):
    """The host keys to confirm; empty if all are trusted."""

    keys: tuple[KeyMessage, ...]


class HostsMessage(SentMessage, frozen=True, kw_only=True):
    """The text of a host file, and how many hosts it names."""

    text: str
    count: int


class ProofMessage(SentMessage, frozen=True, kw_only=True):
    """What the provider has left of a deleted cluster, and what it cost, in sentences."""

    sentence: str


class SurveyMessage(SentMessage, frozen=True, kw_only=True):
    """The results of a measurement.

    Args:
        heading: Its size and its time.
        remarks: What stands out and what has changed, a sentence each.
        description: The picture in words.
        picture: A PNG in base64; empty without one, or if the notebook has it already.
    """

    heading: str
    remarks: tuple[str, ...]
    tables: tuple[TableMessage, ...]
    description: str
    picture: bytes = b""


class SeriesHeader(SentMessage, frozen=True, kw_only=True):
    """The part of a frame's header about one curve.

    Args:
        quantity: Its quantity; curves of one quantity share axes.
        family: A share is between 0 and 1, or in percent.
        is_validation: Whether it was measured on validation data.
        reset: Whether the earlier buckets of this curve are to be discarded first.
        width: Iterations of all ranks in each bucket.
        ranks: How many ranks reported it.
        count: Number of buckets in this frame.
        attempt: That of a stretch which a later attempt did again; 0 for the curve itself.
    """

    name: str
    reset: bool
    width: int
    ranks: int
    count: int
    quantity: str = ""
    family: Family = "other"
    is_validation: bool = False
    attempt: int = 0


class FrameHeader(SentMessage, frozen=True, kw_only=True, tag="points"):
    """The header of a frame.

    Args:
        feed: The feed whose versions are meant.
        version: The newest version that the frame contains.
        points: Number of points that the run has reported, over all names.
        slowest: The rank whose means are in the column ``slowest``; -1 for none.
    """

    feed: str
    version: int
    points: int
    slowest: int
    series: tuple[SeriesHeader, ...]


class DisplayedMessage(SentMessage, frozen=True, kw_only=True):
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


class OutputMessage(SentMessage, frozen=True, kw_only=True, tag="output"):
    """Some output of the ranks.

    Args:
        after: Sequence number up to which output was sent or skipped.
        skipped: Number of pieces that were left out because there were too many.
    """

    after: int
    skipped: int
    pieces: tuple[Piece, ...]


class HelloMessage(SentMessage, frozen=True, kw_only=True, tag="hello"):
    """The first message to a page that follows a run."""

    feed: str
    run: RunMessage


class RunNewsMessage(SentMessage, frozen=True, kw_only=True, tag="run"):
    """The run's present state."""

    run: RunMessage


class EndMessage(SentMessage, frozen=True, tag="end"):
    """The run is complete; the server closes, or waits for a page that stays."""


FollowMessage = HelloMessage | RunNewsMessage | StepsMessage | OutputMessage | EndMessage


class SavedMessage(SentMessage, frozen=True, kw_only=True, omit_defaults=True):
    """What a notebook keeps of a run that has ended.

    Args:
        frame: A frame of points, in base64.
        survey: What it measured, of a measurement.
    """

    run: RunMessage
    steps: StepsMessage | None
    frame: bytes
    survey: SurveyMessage | None = None


class SavedRunMessage(SentMessage, frozen=True, kw_only=True, omit_defaults=True):
    """What is in the cell's output for the page to show the run.

    Args:
        streamed: Whether the kernel puts what rank 0 writes and displays into the cell, beside
            this.
        raised: Whether the cell's own error shows the failed rank's traceback.
        saved: Only once the run has ended.
    """

    run: str
    name: str
    streamed: bool = False
    raised: bool = False
    saved: SavedMessage | None = None


class RunsMessage(SentMessage, frozen=True, kw_only=True):
    """The newest runs first."""

    runs: tuple[ListedRunMessage, ...]


class ListedSweepMessage(SentMessage, frozen=True, kw_only=True):
    """A sweep of the list.

    Args:
        progress: How far it is, or why it is over.
    """

    id: str
    name: str
    progress: str
    is_over: bool


class SweepsMessage(SentMessage, frozen=True, kw_only=True):
    """The newest sweeps first."""

    sweeps: tuple[ListedSweepMessage, ...]


class SweepMessage(ListedSweepMessage, frozen=True, kw_only=True):
    """A sweep with its trials.

    Args:
        lines: How far it is; or how it ended, with the best trial.
        headers: Of the table of trials.
        rows: The best trials first.
        picture: A PNG, in base64; empty without a trial that has finished with a value.
        says: The picture in words.
    """

    lines: tuple[str, ...]
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    picture: bytes
    says: str


class StoppedMessage(SentMessage, frozen=True, kw_only=True):
    """The names of the runs of a cluster that were asked to stop."""

    stopped: tuple[str, ...]


class RemovedMessage(SentMessage, frozen=True, kw_only=True):
    """The name of the cluster that was taken off all lists."""

    removed: str


class TurnMessage(SentMessage, frozen=True, kw_only=True):
    """The answer to a page that is to save a notebook.

    Args:
        granted: Whether it may do so now, for half a minute or until DELETE; else it asks again.
    """

    granted: bool


class RefusalMessage(
    SentMessage, frozen=True, kw_only=True, omit_defaults=True, tag_field="reason", tag="workbench"
):
    """The answer to a request that was refused, or failed; its reason tells it from others'.

    Args:
        message: Why, in a sentence.
        price: Dollars an hour, where only a yes to them is missing.
    """

    message: str
    price: float | None = None


MESSAGES: tuple[type[Any], ...] = (
    NodeMessage, PurchaseMessage, HangMessage, StepMessage,
    StepsMessage, CurveTextMessage, MarkMessage, RedoneMessage, RunMessage, ListedRunMessage,
    AboutMessage, RankMessage, MeasuredMessage, FleetMessage, ResizingMessage, ClusterMessage,
    ClustersMessage, TableMessage, FieldMessage, PlaceMessage, FormMessage, OfferMessage,
    OffersMessage, EstimateMessage, KeyMessage, KeysMessage, HostsMessage, ProofMessage,
    SurveyMessage, ListedSweepMessage, SweepsMessage, SweepMessage, SeriesHeader,
    FrameHeader, DisplayedMessage, OutputMessage,
    HelloMessage, RunNewsMessage, EndMessage, SavedMessage, SavedRunMessage, RunsMessage,
    StoppedMessage, RemovedMessage, TurnMessage, RefusalMessage,
)  # fmt: skip
