"""Keep what a plan and a verdict foretell, and hold it against what came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from workbench.core.change import Change, Observed
from workbench.core.exchange import PLAIN, Codec, Coding
from workbench.core.fleet import Node, Offer
from workbench.core.forecast import ANY, Doing, Forecasts, Foretold, Teller, did
from workbench.core.frontier import Frontier, Task, forecast, ranks_of
from workbench.core.run import Run
from workbench.core.scaling import NOISE, Batch
from workbench.core.step import Shape
from workbench.core.verdict import Verdict
from workbench.store import Store
from workbench.view.foretold import (
    NOWHERE,
    algorithm_of,
    alike,
    correction_of,
    forecast_from,
    observed_run,
    scatter_of,
    shape_of,
    step_forecast,
    trained_as,
    work_of,
)
from workbench.view.phrases import count, duration

# A verdict's predictions are good for this much.
SURE = 0.1
# Other numbers of ranks on a node share its caches and memory otherwise: so much is a guess.
SHARED = 0.06
# Of the types that a plan shows, and of the sizes of each, as many are kept.
MOST_TYPES = 8
MOST_SIZES = 16
LARGER = (24, 32, 48, 64)


def doing_of(store: Store, run: Run, observed: Observed) -> Doing:
    """Return how a run trains."""
    return Doing(
        type=type_of(store.nodes(run.wish.cluster)),
        nodes=observed.nodes,
        ranks=len(observed.ranks),
        nbytes=observed.nbytes,
        batch=observed.batch,
        codec=observed.coding.codec,
        bandwidth=observed.link.bandwidth if observed.link and observed.nodes > 1 else 0.0,
        ours=observed.ours,
        stale=observed.stale,
    )


def type_of(nodes: Sequence[Node]) -> str:
    """Return the type of a cluster's nodes; empty where they have none, or several."""
    types = {node.type for node in nodes if node.type}
    return types.pop() if len(types) == 1 else ""


def keep_verdict(store: Store, run: Run, observed: Observed, verdict: Verdict, now: float) -> None:
    """Keep what a verdict says that its remedies would give.

    Args:
        now: Epoch seconds.
    """
    doing = doing_of(store, run, observed)
    found = [
        Foretold(done, one.seconds, (1 - SURE) * one.seconds, (1 + SURE) * one.seconds, one.do)
        for one in verdict.remedies
        if (done := _changed(doing, one.change, one.do)) != doing
    ]
    forecasts = Forecasts(Teller.VERDICT, run.id, now, tuple(found))
    store.keep_forecasts(run.wish.cluster, forecasts)


def _changed(doing: Doing, change: Change, do: str) -> Doing:
    """Return how a run would train after a change; the same where that does not tell it apart."""
    delayed = do == "--double-buffering"
    return replace(
        doing,
        type=ANY if change.bandwidth else doing.type,
        nodes=doing.nodes * change.nodes,
        ranks=doing.ranks * change.nodes,
        batch=doing.batch * change.batch,
        codec=change.coding.codec if change.coding else doing.codec,
        bandwidth=change.bandwidth or doing.bandwidth,
        ours=doing.ours or delayed or do.startswith("--com"),
        stale=doing.stale or delayed,
    )


def here(store: Store, run: Run, observed: Observed, most: int = MOST_SIZES) -> list[Foretold]:
    """Return what a step would take on more of what a run is on, in each way to exchange.

    Within one machine that is on more ranks, between nodes on more nodes with as many ranks.
    """
    base = doing_of(store, run, observed)
    runs = [*alike(store, run)]
    corrections = {ours: correction_of(runs, ours=ours) for ours in (False, True)}
    scatter = scatter_of(runs)
    found = []
    for shape in _shapes(observed, min(most, MOST_SIZES)):
        for other in _ways(observed, shape.nodes):
            work = trained_as(work_of(observed), observed, other)
            work = replace(work, compute=work.compute * _crowded(observed, shape))
            came = step_forecast(
                work, shape, other.coding, corrections[other.ours], observed.link is not None,
                algorithm_of(other), NOISE if _is_as_full(observed, shape) else SHARED, scatter,
            )  # fmt: skip
            done = replace(
                base, nodes=shape.nodes, ranks=shape.ranks, codec=other.coding.codec,
                ours=other.ours, stale=other.stale,
            )  # fmt: skip
            found.append(Foretold(done, came.seconds, came.low, came.high))
    return found


def _shapes(observed: Observed, most: int) -> list[Shape]:
    if observed.nodes == 1:
        return [Shape(1, NOWHERE, ranks, observed.memory) for ranks in range(1, most + 1)]
    shape = shape_of(observed)
    return [replace(shape, nodes=nodes) for nodes in range(1, most + 1)] if shape else []


def _ways(observed: Observed, nodes: int) -> Iterator[Observed]:
    """Give the ways in which gradients can be exchanged, that of the run first."""
    yield replace(observed, nodes=nodes)
    for ours, coding in ((False, PLAIN), *((True, one) for one in observed.codings)):
        if (ours, coding.codec) != (observed.ours, observed.coding.codec):
            yield replace(observed, nodes=nodes, ours=ours, coding=coding, stale=False)


def _is_as_full(observed: Observed, shape: Shape) -> bool:
    return shape.ranks_per_node == len(observed.ranks) // observed.nodes


def _crowded(observed: Observed, shape: Shape) -> float:
    """Return how many times as long ranks compute that share the cores of a node."""
    if not observed.cores:
        return 1.0
    now = len(observed.ranks) // observed.nodes
    wanted, had = (
        max(1.0, ranks * observed.busy / observed.cores) for ranks in (shape.ranks_per_node, now)
    )
    return wanted / had


def of_offers(
    task: Task,
    frontier: Frontier,
    offers: Sequence[Offer],
    codings: Sequence[Coding],
    *,
    ours: bool,
    measured: dict[str, float],
) -> Iterator[Foretold]:
    """Give what a plan says of the types that it shows, with the best codec and with none."""
    if task.batch is Batch.TOTAL:
        return  # a rank's batch is another on every size, so no run could be told to be it
    cheapest = {offer.type: offer for offer in sorted(offers, key=lambda one: -one.price)}
    known = {coding.codec: coding for coding in codings}
    curves = {one.type: one for one in frontier.curves}
    types = dict.fromkeys([one.type for one in frontier.choices]) | dict.fromkeys(curves)
    for name in [*types][:MOST_TYPES]:
        offer, curve = cheapest[name], curves[name]
        for place, nodes in enumerate(curve.sizes):
            if nodes > MOST_SIZES and nodes not in LARGER:
                continue
            for codec in dict.fromkeys([curve.codecs[place], Codec.NONE]):
                found = forecast(task, offer, nodes, known[codec], measured=measured)
                if found is not None:
                    yield _of_offer(
                        task, offer, nodes, codec, found.seconds, (found.low, found.high), ours
                    )


def _of_offer(
    task: Task, offer: Offer, nodes: int, codec: Codec, seconds: float,
    band: tuple[float, float], ours: bool,
) -> Foretold:  # fmt: skip
    ranks = nodes * ranks_of(offer)
    steps = task.examples / task.work.batch / ranks
    doing = Doing(offer.type, nodes, ranks, task.work.nbytes, task.work.batch, codec, ours=ours)
    low, high = band
    do = f"{nodes} × {offer.type}"
    return Foretold(doing, seconds / steps, low / steps, high / steps, do)


def foretold_sentence(store: Store, run: Run) -> str:
    """Return what was foretold of ``run`` and what came; empty where nothing was.

    What a plan or a verdict had told before goes first; without one it is what the last run
    before it says that trained the same.
    """
    real = observed_run(store, run)
    if real is None:
        return ""
    done = doing_of(store, run, real)
    came = fmean(one.total for one in real.ranks)
    for kept in store.forecasts(run.wish.cluster, run.wish.created):
        if kept.source != run.id and (told := did(done, kept.found)):
            return f"{_teller(store, kept, told)} {_held(run, told, came)}"
    if (found := forecast_from(store, run, real)) is None:
        return ""
    before, base, one = found
    who = f"Run {before.wish.name} on {count(len(base.ranks), 'rank')} foretold"
    return f"{who} {_held(run, Foretold(done, one.seconds, one.low, one.high), came)}"


def _teller(store: Store, kept: Forecasts, told: Foretold) -> str:
    named = {one.id: one.wish.name for one in store.runs()}.get(kept.source, "")
    if kept.teller is Teller.VERDICT:
        do = f"`{told.do}`" if told.do.startswith("--") else told.do
        return f"The verdict on run {named or kept.source} foretold, with {do},"
    return f"The plan made from run {named} foretold" if named else "The plan foretold"


def _held(run: Run, told: Foretold, came: float) -> str:
    fact = run.fact
    steps = fact.iteration / fact.epoch if fact.iteration and fact.epoch else 0.0
    times, what = (steps, "an epoch") if steps else (1.0, "a step")
    foretold, low, high, real = (
        _span(times * one) for one in (told.seconds, told.low, told.high, came)
    )
    percent = round(100 * (came / told.seconds - 1))
    off = f"{'−' if percent < 0 else '+' if percent else ''}{abs(percent)} %"
    beyond = "" if told.holds(came) else ", which is beyond what was thought possible"
    return f"{foretold} {what} ({low} to {high}); it took {real} ({off}){beyond}."


def _span(seconds: float) -> str:
    if seconds >= 100:
        return duration(seconds)
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def here_sentence(found: Sequence[Foretold], run: Run, steps: float) -> str:
    """Return what an epoch would take where ``run`` was, exchanged as it was.

    Args:
        steps: Of one rank alone, in an epoch.
    """
    first = found[0].doing
    same = [
        one for one in found
        if (one.doing.codec, one.doing.ours, one.doing.stale)
        == (first.codec, first.ours, first.stale)
        and one.doing.ranks & (one.doing.ranks - 1) == 0
    ]  # fmt: skip
    told = ", ".join(
        f"{_span(steps / one.doing.ranks * one.seconds)} on {count(one.doing.ranks, 'rank')}"
        for one in same
    )
    return f"Where run {run.wish.name} was, trained as it was, an epoch takes {told}."
