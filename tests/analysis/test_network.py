"""What was measured between nodes is said before a run, and whether its gradients fit through."""

from __future__ import annotations

import pytest

from workbench.analysis.network import network_sentence
from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.performance.bandwidth import BandwidthSurvey, Pair
from workbench.core.run.model import RunState
from workbench.core.world.world import RankFact
from workbench.store import Store

FAST, SLOW = 1.2e10, 12e6


@pytest.fixture
def boxes(supervisor: Store) -> Store:
    """A cluster with a rank on each of two boxes."""
    supervisor.put_cluster_fact(ClusterFact("default", ClusterState.READY, 2, 1))
    ranks = [RankFact(1, rank, f"box{rank + 1}", 1, 1) for rank in range(2)]
    supervisor.put_ranks("default", ranks)
    return supervisor


def keep(store: Store, rate: float, *names: str) -> None:
    pairs = (Pair(names[0], names[1], 150e-6, rate), Pair(names[1], names[0], 150e-6, rate))
    store.surveys.keep_network("default", BandwidthSurvey(1.0, names, pairs))


def test_nothing_is_said_of_what_was_not_measured_or_was_of_other_nodes(boxes) -> None:
    assert network_sentence(boxes, "default") == ""

    keep(boxes, FAST, "box1", "box3")

    assert network_sentence(boxes, "default") == ""


def test_what_was_measured_between_the_nodes_is_said_in_one_sentence(boxes) -> None:
    keep(boxes, 112e6, "box1", "box2")

    said = network_sentence(boxes, "default")

    assert said == "Network box1–box2: 300 µs there and back, 112 MB/s."


@pytest.mark.parametrize(
    ("nbytes", "remedy"),
    [(2e6, "With `--compress fp16` it would take"), (1e9, "With `--compress powersgd`")],
)
def test_a_network_too_slow_for_what_the_last_run_sent_is_named_with_the_remedy(
    boxes, queue, report, nbytes, remedy
) -> None:
    run = queue("fit")
    report(
        run, 0, step__compute=[0.4], step__communication=[0.0], step__data=[0.0],
        step__other=[0.0], exchange__nbytes=[0.0], exchange__gradients=[nbytes],
        exchange__batch=[32.0],
    )  # fmt: skip
    boxes.put_run_fact(run.id, state=RunState.FINISHED, ranks=1, iteration=100)

    keep(boxes, FAST, "box1", "box2")
    assert "slow" not in network_sentence(boxes, "default")
    keep(boxes, SLOW, "box1", "box2")
    said = network_sentence(boxes, "default")

    assert "That is slow for run fit: of a step of" in said
    assert remedy in said
