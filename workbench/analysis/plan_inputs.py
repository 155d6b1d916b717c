"""Find a plan's inputs: a measured run, the options, and the offers of a provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from workbench.analysis.predictions import (
    RUNS_LOOKED_AT,
    SPREAD,
    alike,
    correction_of,
    find_observed_run,
    work_of,
)
from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.cost import Interruptions
from workbench.core.fleet.form import Settings
from workbench.core.fleet.model import FleetWish, Needs, Node, NodeState, Offer
from workbench.core.fleet.offers import fits, why_none
from workbench.core.fleet.provider import provider_choices
from workbench.core.performance.exchange_model import CARRIED
from workbench.core.performance.prediction import Correction
from workbench.core.performance.step_model import Work
from workbench.core.performance.what_if import ObservedRun
from workbench.core.run.model import Run
from workbench.core.run.sweep import MOST_TRIALS
from workbench.errors import InputError, StateError
from workbench.requests import cloud_queries
from workbench.requests.cloud_queries import CloudMarket
from workbench.store import Store

MOST_NODES = 1024
# The zone of the cluster's own hosts.
HERE = "here"
# Default interruptions of one node per hour.
RATE = Interruptions().rate
# Without a known number of examples, an epoch is this many iterations of one rank.
ITERATIONS = 1_000


@dataclass(frozen=True)
class PlanAssumptions:
    """The user's assumptions; the rest is read from the newest measured run.

    Args:
        run: Name or id of the run to plan for.
        step: Seconds of compute of a rank's step.
        gradients: Bytes.
        batch: Examples of a rank's step.
        examples: Of an epoch.
        gpu: Name of the GPU that the step was measured on.
        max_nodes: Nodes at most; None for the usual number.
        sweep: The trials to divide ranks among; None to plan an epoch.
        total: Whether the global batch size is constant.
        plain: Whether gradients are sent as ChainerMN does: uncompressed, after the backward pass.
        interruptions: Per node and hour.
    """

    cluster: str
    run: str = ""
    step: float = 0.0
    gradients: float = 0.0
    batch: int = 0
    examples: int = 0
    gpu: str = ""
    max_nodes: int | None = None
    sweep: int | None = None
    total: bool = False
    plain: bool = False
    interruptions: float = RATE

    @property
    def changes_work(self) -> bool:
        """Whether an option replaces something that was measured."""
        return bool(self.step or self.gradients or self.batch)


def parse_assumptions(given: Mapping[str, Any], cluster: str) -> PlanAssumptions:
    """Return the question for the planner, from options by name; None for one that was left out."""
    names = (
        "run", "step", "gradients", "batch", "examples", "gpu", "max_nodes", "sweep",
        "interruptions",
    )  # fmt: skip
    said = {name: given[name] for name in names if given.get(name) is not None}
    return PlanAssumptions(cluster, total=given["total_batch"], plain=given["plain"], **said)


@dataclass(frozen=True)
class PlanBasis:
    """What a plan is computed from.

    Args:
        run: None if the options say everything.
        nodes: Number of nodes of the run's cluster.
        exact: Whether the examples of an epoch are known.
    """

    run: Run | None
    observed: ObservedRun | None
    work: Work
    examples: float
    exact: bool
    nodes: tuple[Node, ...]
    correction: Correction

    @property
    def trial_examples(self) -> float:
        """Examples of all epochs of the run; of one epoch without a run."""
        fact, seen = self.run.fact if self.run else None, self.observed
        if fact is None or seen is None:
            return self.examples
        epochs = fact.epochs_total or fact.epoch
        if self.exact and epochs:
            return self.examples * epochs
        return (fact.iterations_total or fact.iteration) * seen.batch * len(seen.ranks)

    @property
    def outside(self) -> float:
        """Seconds of the run outside its steps: to start, and between the last one and its end."""
        fact, seen = self.run.fact if self.run else None, self.observed
        if fact is None or seen is None or not fact.ended or fact.attempt > 1:
            return 0.0
        steps = fact.iteration * fmean(one.total for one in seen.ranks)
        return max(0.0, fact.ended - fact.started - steps)


def find_plan_basis(store: Store, asked: PlanAssumptions) -> PlanBasis:
    """Return the inputs of a plan, before any offers are requested.

    Raises:
        InputError: An option is not valid.
        StateError: Nothing was measured, and the options do not replace it.
        Unknown: No run has that name.
    """
    _check(asked)
    run, observed = _find_measured_run(store, asked)
    work = _work(asked, observed)
    examples = asked.examples or (_examples(run, observed) if run and observed else 0.0)
    return PlanBasis(
        run,
        observed,
        work,
        examples or ITERATIONS * work.batch,
        bool(examples),
        tuple(
            node for node in store.fleets.nodes(asked.cluster) if node.state is not NodeState.GONE
        ),
        correction_of(alike(store, run), ours=not asked.plain) if run else Correction(),
    )


def find_plan_market(
    store: Store,
    cluster: str,
    needs: Needs,
    place: str,
    region: str,
    settings: Settings = (),
    *,
    is_sweep: bool = False,
) -> CloudMarket:
    """Return the offers to plan with: a provider's, or more of the cluster's own hosts.

    Args:
        place: Name of the provider; empty for the cluster's own.
        settings: Of the provider's own.
        is_sweep: Whether trials may stay within a host, for which no link is needed.

    Raises:
        InputError: The provider has no offers, or none that fits, or other settings.
        CloudError: The provider does not answer, or denies access.
    """
    wish = store.cluster_wish(cluster)
    there = FleetWish(place) if place else wish.fleet if wish else FleetWish()
    if there.place.lists_hosts and wish is not None:
        mine = _build_own_offer(store, wish, is_sweep)
        return CloudMarket("", (_limit(mine, len(there.hosts)) if is_sweep else mine,))
    if is_sweep and not place and wish is not None and not there.place.has_nodes:
        slots = wish.ranks or store.cluster_fact(cluster).ranks or 1
        return CloudMarket("", (_limit(Offer("this machine", HERE, 0.0, 2 * slots, 0.0), 1),))
    if not there.place.is_charged:
        raise InputError(
            "No provider is given",
            f"add {provider_choices(lambda place: place.is_charged)}.",
        )
    where = region or (wish.fleet.region if wish and wish.fleet.provider == there.provider else "")
    own = there.place.read_settings(settings)
    asked = FleetWish(there.provider, needs=needs, region=where, settings=own)
    market = cloud_queries.query_market(asked, 0.0)
    fitting = tuple(offer for offer in market.offers if fits(needs, offer))
    if not fitting:
        others = cloud_queries.query_market(replace(asked, needs=Needs()), 0.0)
        raise InputError(why_none(replace(asked, region=market.region), others.offers))
    return replace(market, offers=fitting, unit=there.place.unit)


def _build_own_offer(store: Store, wish: ClusterWish, is_sweep: bool) -> Offer:
    """Return an offer like the cluster's hosts, with their measured bandwidth."""
    surveys = (one.survey for one in store.surveys.of_cluster(wish.name))
    link = next((found for one in surveys if (found := one.link())), None)
    if link is None and (network := store.surveys.network(wish.name)):
        link = network.link()
    if link is None and not is_sweep:
        raise StateError(
            f"The links of cluster {wish.name!r} have not been measured yet",
            "measure them with `workbench bandwidth`, or plan with --ec2 or --rehearsal.",
        )
    slots = max((host.slots for host in wish.fleet.hosts), default=1) or 1
    return Offer(
        "your hosts", HERE, 0.0, vcpus=2 * slots, memory=0.0,
        network=8e-9 * link.bandwidth / CARRIED if link else 0.0,
    )  # fmt: skip


def _limit(offer: Offer, nodes: int) -> Offer:
    return replace(offer, quota=nodes * offer.vcpus)


def _check(asked: PlanAssumptions) -> None:
    for name in ("step", "gradients", "batch", "examples", "interruptions"):
        if getattr(asked, name) < 0:
            raise InputError(f"--{name} must not be negative, as {getattr(asked, name):g} is.")
    if asked.sweep is not None and not 1 <= asked.sweep <= MOST_TRIALS:
        raise InputError(f"--sweep must be from 1 to {MOST_TRIALS:,} trials, not {asked.sweep}.")
    if asked.max_nodes is not None and not 1 <= asked.max_nodes <= MOST_NODES:
        raise InputError(
            f"--max-nodes must be from 1 to {MOST_NODES} nodes, not {asked.max_nodes}."
        )


def _find_measured_run(
    store: Store, asked: PlanAssumptions
) -> tuple[Run | None, ObservedRun | None]:
    """Return the run to plan for, and its measurements."""
    if asked.run:
        run = store.run(asked.run)
        if (observed := find_observed_run(store, run)) is None:
            raise StateError(
                f"Run {run.wish.name!r} has no measured step",
                "name another run, or give --step SECONDS, --gradients BYTES and --batch EXAMPLES.",
            )
        return run, observed
    if asked.step and asked.gradients and asked.batch:
        return None, None
    for run in store.runs(asked.cluster, limit=RUNS_LOOKED_AT):
        if observed := find_observed_run(store, run):
            return run, observed
    raise StateError(
        f"Cluster {asked.cluster!r} has no measured run yet. Train for a minute on one node "
        "(`workbench run`) and plan again, or give --step SECONDS, --gradients BYTES and --batch "
        "EXAMPLES of one rank's step."
    )


def _work(asked: PlanAssumptions, observed: ObservedRun | None) -> Work:
    work = work_of(observed) if observed else Work(0.0, 0.0, spread=SPREAD)
    work = replace(
        work,
        compute=asked.step or work.compute,
        nbytes=asked.gradients or work.nbytes,
        batch=asked.batch or work.batch,
    )
    if not work.nbytes:
        raise StateError(
            "The run exchanged no gradients, so their size is unknown",
            "give it, for example --gradients 98MB.",
        )
    return work


def _examples(run: Run, observed: ObservedRun) -> float:
    """Return the examples of an epoch; 0 when the run did not report them."""
    fact = run.fact
    if fact.iterations_total and fact.epochs_total:
        iterations = fact.iterations_total / fact.epochs_total
    elif fact.iteration and fact.epoch:
        iterations = fact.iteration / fact.epoch
    else:
        return 0.0
    return iterations * observed.batch * len(observed.ranks)
