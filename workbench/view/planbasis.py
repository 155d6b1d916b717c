"""Find what a plan goes by: a run that was measured, what was said, and a market."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from workbench.core.change import Observed
from workbench.core.cluster import ClusterWish
from workbench.core.exchange import CARRIED
from workbench.core.fleet import FleetWish, Needs, Node, NodeState, Offer, Place
from workbench.core.frontier import Interruptions
from workbench.core.learning import Correction
from workbench.core.offers import why_none
from workbench.core.run import Run
from workbench.core.step import Work
from workbench.errors import InputError, StateError
from workbench.store import Store
from workbench.store.asking import Market, ask_offers
from workbench.view.foretold import (
    RUNS_LOOKED_AT,
    SPREAD,
    alike,
    correction_of,
    observed_run,
    work_of,
)
from workbench.view.nodes import PRICED

MOST_NODES = 1024
# Of one node in an hour, where nobody says how often it is taken back.
RATE = Interruptions().rate
# Where nobody tells how many examples an epoch has, it is as many iterations of one rank.
ITERATIONS = 1_000


@dataclass(frozen=True)
class Asked:
    """What a person said; the rest is read from the newest run that was measured.

    Args:
        run: Name or id of the run to go by.
        step: Seconds of compute of a rank's step.
        gradients: Bytes.
        batch: Examples of a rank's step.
        examples: Of an epoch.
        gpu: Name of the GPU that the step was measured on.
        most: Nodes at most.
        total: Whether the batch of all ranks together stays as it is.
        plain: Whether gradients go as ChainerMN sends them: as they are, after the backward pass.
        interruptions: Of one node, in an hour.
    """

    cluster: str
    run: str = ""
    step: float = 0.0
    gradients: float = 0.0
    batch: int = 0
    examples: int = 0
    gpu: str = ""
    most: int = 64
    total: bool = False
    plain: bool = False
    interruptions: float = RATE


@dataclass(frozen=True)
class Basis:
    """What the plan goes by.

    Args:
        run: None where all was said.
        nodes: That the run's cluster has.
        exact: Whether the examples of an epoch are known.
    """

    run: Run | None
    observed: Observed | None
    work: Work
    examples: float
    exact: bool
    nodes: tuple[Node, ...]
    correction: Correction


def basis_of(store: Store, asked: Asked) -> Basis:
    """Return what a plan would go by, before anybody is asked for offers.

    Raises:
        InputError: Something that was said will not do.
        StateError: Nothing was measured, and too little was said in its place.
        Unknown: No run has that name.
    """
    _check(asked)
    run, observed = _measured(store, asked)
    work = _work(asked, observed)
    examples = asked.examples or (_examples(run, observed) if run and observed else 0.0)
    return Basis(
        run,
        observed,
        work,
        examples or ITERATIONS * work.batch,
        bool(examples),
        tuple(node for node in store.nodes(asked.cluster) if node.state is not NodeState.GONE),
        correction_of(alike(store, run), ours=not asked.plain) if run else Correction(),
    )


def market_of(store: Store, cluster: str, needs: Needs, place: Place | None, region: str) -> Market:
    """Return what to plan with: what a place offers, or more of the cluster's own hosts.

    Args:
        place: None for where the cluster's nodes come from.

    Raises:
        InputError: Nobody lends there, or nothing that fits.
        CloudRefused: The place does not answer, or not to us.
    """
    wish = store.cluster_wish(cluster)
    there = place or (wish.fleet.place if wish else Place.LOCAL)
    if there is Place.HOSTS and wish is not None:
        return Market("", (_own(store, wish),))
    if there not in PRICED:
        raise InputError(
            "Say whose offers to plan with: --ec2, or --rehearse for pretended ones, which need "
            "no account and no network."
        )
    where = region or (wish.fleet.region if wish and wish.fleet.place is there else "")
    market = ask_offers(there, needs, where, 0.0)
    if not market.offers:
        others = ask_offers(there, Needs(), where, 0.0)
        raise InputError(
            why_none(FleetWish(there, needs=needs, region=market.region), others.offers)
        )
    return market


def _own(store: Store, wish: ClusterWish) -> Offer:
    """Return a host like those that a cluster has, by what was measured between them."""
    surveys = (one.survey for one in store.surveys(wish.name))
    link = next((found for one in surveys if (found := one.link())), None)
    if link is None:
        raise StateError(
            f"What is between the hosts of cluster {wish.name!r} was not measured yet; "
            "%dist_bandwidth does it, or plan with --ec2 or --rehearse."
        )
    slots = max((host.slots for host in wish.fleet.hosts), default=1) or 1
    return Offer(
        "your hosts", "here", 0.0, vcpus=2 * slots, memory=0.0,
        network=8e-9 * link.bandwidth / CARRIED,
    )  # fmt: skip


def _check(asked: Asked) -> None:
    for name in ("step", "gradients", "batch", "examples", "interruptions"):
        if getattr(asked, name) < 0:
            raise InputError(f"--{name} must not be negative, as {getattr(asked, name):g} is.")
    if not 1 <= asked.most <= MOST_NODES:
        raise InputError(f"--most must be from 1 to {MOST_NODES} nodes, not {asked.most}.")


def _measured(store: Store, asked: Asked) -> tuple[Run | None, Observed | None]:
    """Return the run to go by, and what was measured of it."""
    if asked.run:
        run = store.run(asked.run)
        if (observed := observed_run(store, run)) is None:
            raise StateError(
                f"Of run {run.wish.name!r} no step was measured; name another, or say "
                "--step SECONDS, --gradients BYTES and --batch EXAMPLES."
            )
        return run, observed
    if asked.step and asked.gradients and asked.batch:
        return None, None
    for run in store.runs(asked.cluster, limit=RUNS_LOOKED_AT):
        if observed := observed_run(store, run):
            return run, observed
    raise StateError(
        f"No run of cluster {asked.cluster!r} was measured yet. Train a while on one node "
        "(%%dist_train, or `workbench run`; a minute is enough) and plan again, or say "
        "--step SECONDS, --gradients BYTES and --batch EXAMPLES of one rank's step."
    )


def _work(asked: Asked, observed: Observed | None) -> Work:
    work = work_of(observed) if observed else Work(0.0, 0.0, spread=SPREAD)
    work = replace(
        work,
        compute=asked.step or work.compute,
        nbytes=asked.gradients or work.nbytes,
        batch=asked.batch or work.batch,
    )
    if not work.nbytes:
        raise StateError(
            "The run exchanged no gradients, so what more nodes would have to is unknown; "
            "say how many bytes they are, as in --gradients 98MB."
        )
    return work


def _examples(run: Run, observed: Observed) -> float:
    """Return the examples of an epoch, as far as the run told; 0 when it did not."""
    fact = run.fact
    if fact.iterations_total and fact.epochs_total:
        iterations = fact.iterations_total / fact.epochs_total
    elif fact.iteration and fact.epoch:
        iterations = fact.iteration / fact.epoch
    else:
        return 0.0
    return iterations * observed.batch * len(observed.ranks)


def nbytes_of(text: str) -> float:
    """Return a number of bytes from a text like ``98MB`` or ``25.6e6``.

    Raises:
        InputError: It is none.
    """
    found = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)\s*([kMG]i?)?B?", text.strip())
    if found is None or found[1].count(".") > 1 or found[1] == ".":
        raise InputError(f"{text!r} is not a number of bytes; write one such as 98MB.")
    base = 1024 if (unit := found[2] or "").endswith("i") else 1000
    return float(found[1]) * float(base ** " kMG".index(unit[:1] or " "))
