"""What was measured of a cluster, and judged of its links: the slowest, outliers, and changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median

import msgspec

from workbench.core.fleet.connection_limits import limit_rate
from workbench.core.messages import Amount, Count, decode
from workbench.core.performance.exchange_model import REDUCTION, Link
from workbench.core.units import duration, gbits, size_text

# What a rank writes to this stream is stored as a measurement, and not as output.
RESULT_STREAM = "measurement"

# A link this far below the others' median is an outlier; TCP over one switch varies by less.
SLOW = 0.8
UNEQUAL = 0.8
CHANGED = 0.75
BELOW_RATING = 0.85
# Whether almost all links of a node are slow, or only some.
_ALMOST_ALL = 0.75
_HEALTHY = 0.8
_DAY = 86_400.0

# Of links, by their ends: bytes per second, and the value for comparison.
_Found = Mapping[tuple[str, str], tuple[float, float]]


@dataclass(frozen=True)
class Pair:
    """The rate from one node to another, measured while both were otherwise idle.

    Args:
        latency: Seconds of an empty message, one way.
        bandwidth: Bytes per second.
    """

    source: str
    target: str
    latency: Amount
    bandwidth: Amount


@dataclass(frozen=True)
class Exchange:
    """The result of one allreduce.

    Args:
        nbytes: Bytes of each rank.
        way: The library of the allreduce.
        choice: The algorithm, if known.
    """

    nbytes: Count
    seconds: Amount
    ranks: Count
    way: str
    choice: str = ""

    @property
    def algorithm(self) -> str:
        """Library and algorithm as text, which a rate is meaningless without."""
        return f"{self.way}: {self.choice}" if self.choice else self.way

    @property
    def algbw(self) -> float:
        """Bytes of a rank per second."""
        return algbw(self.nbytes, self.seconds)

    @property
    def busbw(self) -> float:
        """Bytes per second on each link, comparable between numbers of ranks."""
        return busbw(self.nbytes, self.seconds, self.ranks)


@dataclass(frozen=True)
class BandwidthSurvey:
    """A survey of all links at one time.

    Args:
        time: Epoch seconds.
        nodes: Names of all, in the order of their ranks.
        rating: The vendor's sustained rate of the type of node in bytes per second; 0 if unknown.
        burst: Rate of a short burst in bytes per second; 0 if unknown.
        flow: Limit of one connection in bytes per second; 0 for no limit.
        sockets: Connections over which each pair was measured.
    """

    time: Amount
    nodes: tuple[str, ...]
    pairs: tuple[Pair, ...]
    exchanges: tuple[Exchange, ...] = ()
    rating: Amount = 0.0
    burst: Amount = 0.0
    flow: Amount = 0.0
    sockets: Count = 1

    def between(self, source: str, target: str) -> Pair | None:
        """Return the measurement from one node to another, if there is one."""
        found = (one for one in self.pairs if (one.source, one.target) == (source, target))
        return next(found, None)

    @property
    def slowest(self) -> Pair | None:
        """Return the slowest link, which all ranks wait for."""
        return min(self.pairs, key=lambda one: one.bandwidth, default=None)

    def link(self) -> Link | None:
        """Return the link of an exchange among all nodes: as slow as the slowest one."""
        if not (slowest := self.slowest):
            return None
        return Link(median(one.latency for one in self.pairs), slowest.bandwidth, REDUCTION)


class RemarkKind(StrEnum):
    """The kind of a remark on a survey."""

    SLOW = "slow"
    UNEQUAL = "unequal directions"
    LOST = "lost"
    GAINED = "gained"
    BELOW_RATING = "below rating"
    BURST = "burst"
    FLOW = "one flow"


@dataclass(frozen=True)
class Remark:
    """One remark on a survey.

    Args:
        nodes: The one node, or source and target of the one link; empty for all.
        bandwidth: Bytes per second.
        usual: Bytes per second for comparison: of the others, of the opposite direction, of the
            earlier survey, or of the rating.
        since: Epoch seconds of the earlier survey; 0 if there is none.
        flow: Limit of one connection in bytes per second, if that is the reason.
        sockets: Connections of each pair of ranks.
    """

    kind: RemarkKind
    nodes: tuple[str, ...]
    bandwidth: float
    usual: float
    since: float = 0.0
    flow: float = 0.0
    sockets: int = 1

    @property
    def share(self) -> float:
        """Return the ratio of the bandwidth to the usual one."""
        return self.bandwidth / self.usual if self.usual else 1.0


def algbw(nbytes: float, seconds: float) -> float:
    """Return bytes/time, as nccl-tests' PERFORMANCE.md defines it."""
    return nbytes / seconds


def busbw(nbytes: float, seconds: float, ranks: int) -> float:
    """Return algbw times the bytes on a link for each byte of an allreduce, as nccl-tests does."""
    return algbw(nbytes, seconds) * 2 * (ranks - 1) / ranks


def tournament(count: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return rounds in which each of ``count`` nodes meets each other once, in disjoint pairs.

    The circle method (Kirkman 1847): the first stays, the others rotate. With an odd number one
    node rests in each round.
    """
    places = list(range(count + count % 2))
    rounds = []
    for _ in range(len(places) - 1):
        half = len(places) // 2
        met = zip(places[:half], reversed(places[half:]), strict=True)
        rounds.append(tuple((min(a, b), max(a, b)) for a, b in met if max(a, b) < count))
        places = [places[0], places[-1], *places[1:-1]]
    return tuple(rounds)


def judge(survey: BandwidthSurvey, before: BandwidthSurvey | None = None) -> tuple[Remark, ...]:
    """Return the remarks on a survey, the worst first.

    Args:
        before: An earlier survey; only pairs in both are compared.
    """
    remarks = [*_slow(survey), *_unequal(survey), *_judge_rating(survey)]
    if before is not None:
        remarks += _find_changes(survey, before)
    return tuple(sorted(remarks, key=lambda one: (one.share, one.kind, one.nodes)))


def _slow(survey: BandwidthSurvey) -> list[Remark]:
    if len(survey.nodes) < 3:
        return []  # nothing to compare with
    # If one of three nodes is slow, only a third of the links is normal.
    ordered = sorted(one.bandwidth for one in survey.pairs)
    usual = ordered[math.ceil(_HEALTHY * (len(ordered) - 1))] if ordered else 0.0
    found = {_ends(one): (one.bandwidth, usual) for one in survey.pairs}
    slow = {ends: values for ends, values in found.items() if values[0] < SLOW * usual}
    return _group_findings(survey, slow, RemarkKind.SLOW)


def _ends(pair: Pair) -> tuple[str, str]:
    return (pair.source, pair.target)


def _group_findings(survey: BandwidthSurvey, found: _Found, kind: RemarkKind) -> list[Remark]:
    """Combine findings on links into remarks on all links, on nodes, or on single links."""
    if survey.pairs and len(found) >= _ALMOST_ALL * len(survey.pairs):
        return [_remark(kind, (), found)]
    remarks = []
    left = dict(found)
    # The node with the most findings first: it explains those of its neighbours.
    while left:
        worst = max(survey.nodes, key=lambda node: len(_of(left, node)))
        mine = _of(left, worst)
        there = [one for one in survey.pairs if worst in _ends(one)]
        if len(mine) < max(2, _ALMOST_ALL * len(there)):
            break
        remarks.append(_remark(kind, (worst,), mine))
        left = {ends: values for ends, values in left.items() if worst not in ends}
    return remarks + [_remark(kind, ends, {ends: values}) for ends, values in left.items()]


def _remark(kind: RemarkKind, nodes: tuple[str, ...], found: _Found) -> Remark:
    now, usual = zip(*found.values(), strict=True)
    return Remark(kind, nodes, median(now), median(usual))


def _of(found: _Found, node: str) -> dict[tuple[str, str], tuple[float, float]]:
    return {ends: value for ends, value in found.items() if node in ends}


def _unequal(survey: BandwidthSurvey) -> list[Remark]:
    remarks = []
    for one in survey.pairs:
        back = survey.between(one.target, one.source)
        if back is not None and one.bandwidth < UNEQUAL * back.bandwidth:
            ends = (one.source, one.target)
            remarks.append(Remark(RemarkKind.UNEQUAL, ends, one.bandwidth, back.bandwidth))
    return remarks


def _judge_rating(survey: BandwidthSurvey) -> list[Remark]:
    if not survey.rating or not survey.pairs:
        return []
    usual = median(one.bandwidth for one in survey.pairs)
    within = limit_rate(survey.rating, survey.flow, survey.sockets)
    if BELOW_RATING * within <= usual < BELOW_RATING * survey.rating:
        return [
            Remark(
                RemarkKind.FLOW, (), usual, survey.rating, flow=survey.flow, sockets=survey.sockets
            )
        ]
    if usual < BELOW_RATING * survey.rating:
        return [Remark(RemarkKind.BELOW_RATING, (), usual, survey.rating)]
    if usual > survey.rating / BELOW_RATING and survey.burst > survey.rating:
        return [Remark(RemarkKind.BURST, (), usual, survey.rating)]
    return []


def _find_changes(survey: BandwidthSurvey, before: BandwidthSurvey) -> list[Remark]:
    """Return the nodes and links whose bandwidth has changed."""
    earlier = {_ends(one): one.bandwidth for one in before.pairs if one.bandwidth}
    both = {
        _ends(one): (one.bandwidth, earlier[_ends(one)])
        for one in survey.pairs
        if _ends(one) in earlier
    }
    lost = {ends: pair for ends, pair in both.items() if pair[0] < CHANGED * pair[1]}
    gained = {ends: pair for ends, pair in both.items() if pair[0] > pair[1] / CHANGED}
    remarks = _group_findings(survey, lost, RemarkKind.LOST) + _group_findings(
        survey, gained, RemarkKind.GAINED
    )
    return [replace(one, since=before.time) for one in remarks]


def sentence(remark: Remark, now: float, *, weekday: str = "") -> str:
    """Return a remark as a sentence.

    Args:
        now: Epoch seconds.
        weekday: Of ``remark.since`` in the user's time zone; empty to give the number of days.
    """
    there = f"{gbits(remark.bandwidth)} of {gbits(remark.usual)} Gbit/s"
    who = _who(remark.nodes)
    if remark.kind is RemarkKind.SLOW:
        return f"{who} is slow: {there} that are usual here."
    if remark.kind is RemarkKind.UNEQUAL:
        return f"{who} is slower than the way back: {there}."
    if remark.kind is RemarkKind.BELOW_RATING:
        return f"{who} reaches {there} that these nodes are rated at."
    if remark.kind is RemarkKind.FLOW:
        return (
            f"{who} reaches {there} that these nodes are rated at: EC2 gives one connection "
            f"{gbits(remark.flow)}, and two ranks have {remark.sockets}. "
            "The nodes are not to blame."
        )
    if remark.kind is RemarkKind.BURST:
        return (
            f"{who} reaches {gbits(remark.bandwidth)} Gbit/s for a moment; these nodes sustain "
            f"{gbits(remark.usual)}."
        )
    days = round((now - remark.since) / _DAY)
    since = weekday or ("today" if days == 0 else f"{days} day{'s' if days > 1 else ''} ago")
    if remark.kind is RemarkKind.GAINED:
        return f"{who} has {remark.share:.1f} times its bandwidth of {since}: {there}."
    return f"{who} lost {_part(1 - remark.share)} its bandwidth since {since}: {there}."


def _who(nodes: tuple[str, ...]) -> str:
    if not nodes:
        return "The network"
    return f"Node {nodes[0]}" if len(nodes) == 1 else f"The way from {nodes[0]} to {nodes[1]}"


def describe_links(survey: BandwidthSurvey) -> str:
    """Return what the network between nodes is, as a clause; empty without any link."""
    if not (slowest := survey.slowest):
        return ""
    between = f"{slowest.source}–{slowest.target}"
    trips = sorted(2 * one.latency for one in survey.pairs)
    rates = sorted(one.bandwidth for one in survey.pairs)
    said = f"{_span(trips, duration)} there and back, {_span(rates, _rate)}"
    if len(survey.pairs) <= 2:
        return f"{between}: {said}"
    return f"{len(survey.nodes)} nodes: {said}, the least from {slowest.source} to {slowest.target}"


def _span(values: list[float], write: Callable[[float], str]) -> str:
    """Return the least and the most of ordered values, or one where they are alike."""
    least, most = write(values[0]), write(values[-1])
    return most if values[0] >= SLOW * values[-1] else f"{least} to {most}"


def _rate(bandwidth: float) -> str:
    return f"{size_text(bandwidth)}/s"


def _part(lost: float) -> str:
    words = {0.25: "a quarter of", 1 / 3: "a third of", 0.5: "half", 2 / 3: "two thirds of"}
    near = min(words, key=lambda part: abs(part - lost))
    return words[near] if abs(near - lost) <= 0.04 else f"{lost:.0%} of"


def as_json(survey: BandwidthSurvey) -> str:
    """Return the stored form of a survey."""
    return msgspec.json.encode(survey).decode()


def of_json(text: str) -> BandwidthSurvey:
    """Return the survey that ``as_json`` encoded.

    Raises:
        MachineError: The text is invalid.
    """
    return decode(BandwidthSurvey, text)


def matrix(survey: BandwidthSurvey) -> tuple[tuple[float | None, ...], ...]:
    """Return bytes per second from each node (row) to each (column); None where unmeasured."""
    found = {(one.source, one.target): one.bandwidth for one in survey.pairs}
    return tuple(
        tuple(found.get((source, target)) for target in survey.nodes) for source in survey.nodes
    )


@dataclass(frozen=True)
class Rate:
    """A data rate on one node.

    Args:
        what: Its name for the user: ``disk write``, ``host to device``.
        bandwidth: Bytes per second.
        latency: Seconds; 0 if it has no meaning.
    """

    node: str
    what: str
    bandwidth: Amount
    latency: Amount = 0.0


@dataclass(frozen=True)
class Measurement:
    """The results of one measurement.

    Args:
        ranks: Of the whole world.
        seconds: Duration of the measurement.
        rates: Within nodes.
        left_out: What was not measured and why, a sentence each.
    """

    survey: BandwidthSurvey
    ranks: Count
    seconds: Amount
    rates: tuple[Rate, ...] = ()
    left_out: tuple[str, ...] = ()


def measurement_json(found: Measurement) -> str:
    """Return the stored form of a measurement."""
    return msgspec.json.encode(found).decode()


def measurement_of(text: str) -> Measurement:
    """Return the measurement that ``measurement_json`` encoded.

    Raises:
        MachineError: The text is invalid.
    """
    return decode(Measurement, text)


def is_enough(seconds: Sequence[float]) -> bool:
    """Return whether the faster half of at least three times agrees within 5 %."""
    if len(seconds) < 3:
        return False
    ordered = sorted(seconds)
    return ordered[len(ordered) // 2] <= 1.05 * ordered[0]


def sizes_up_to(most: int) -> tuple[int, ...]:
    """Return sizes to measure: from 1 kB on each four times the one before, and ``most``."""
    found, size = [], 1_000
    while size < most:
        found.append(size)
        size *= 4
    return (*found, most)
