"""No node has all of a model that is divided; the disks of lost nodes are lost with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rehearsal.hosts import Hosts
from tests.rehearsal.listed_hosts import hosts_and_store
from tests.waiting import until
from workbench.core.run.model import RunKind, RunState
from workbench.core.run.run_options import RunOptions
from workbench.requests.run import ask_run
from workbench.store import Store
from workbench.store.paths import snapshot_directory

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.root, pytest.mark.mpi, pytest.mark.torch, pytest.mark.weekly,
    pytest.mark.timeout(400),
]  # fmt: skip

NAME = "divided"
TRAINING = Path(__file__).parent / "programs" / "divided_training.py"
EPOCHS, STEPS = 40, 120


hosts, store = hosts_and_store(NAME, 4, nodes=4)


def begin(store: Store) -> str:
    """Start a training without a durable place; return the run once it has saved a snapshot."""
    run = ask_run(
        store,
        kind=RunKind.CELL,
        source=TRAINING.read_text(encoding="utf-8"),
        cluster=NAME,
        options=RunOptions(environment=(("EPOCHS", str(EPOCHS)), ("SECONDS", "0.2"))),
    ).id
    here = snapshot_directory(run)
    here.parent.mkdir(parents=True, exist_ok=True)
    here.touch()  # in the way of copies
    until(
        lambda: store.attempts.newest_snapshot(run) >= 0,
        what="a snapshot",
        said=lambda: store.run(run),
    )
    return run


def finish(store: Store, run: str) -> dict[int, float]:
    """Return the losses of a run that finishes on the nodes that are left."""
    until(lambda: store.run(run).fact.state.ended, what="the end", said=lambda: store.run(run).fact)
    fact = store.run(run).fact
    assert fact.state is RunState.FINISHED, fact
    points = [one for one in store.reports.points(run) if one.name == "whole" and one.rank == 0]
    assert len(points) == STEPS
    return {one.iteration: one.value for one in points}


def expected(tmp_path: Path) -> dict[int, float]:
    """Return the losses of the same training on one rank of no cluster."""
    lines = "import os, workbench\nworkbench.report = lambda whole: print(whole)\n"
    script = tmp_path / "alone.py"
    script.write_text(lines + TRAINING.read_text(encoding="utf-8"), encoding="utf-8")
    place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    done = subprocess.run(
        [sys.executable, script],
        env=os.environ | place | {"EPOCHS": str(EPOCHS), "SECONDS": "0"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )
    return dict(enumerate(map(float, done.stdout.split()), 1))


def test_a_run_continues_from_the_neighbours_copy_of_a_part(
    hosts: Hosts, store: Store, tmp_path: Path
) -> None:
    run = begin(store)

    hosts.stop(hosts[1])

    found = finish(store, run)
    fact = store.run(run).fact
    assert (fact.attempt, fact.ranks) == (2, 3), fact
    assert fact.resumed_at > 0
    assert found == pytest.approx(expected(tmp_path), rel=1e-9)


@pytest.mark.parametrize(("lost", "has_a_copy"), [((0, 2), True), ((1, 2), False)])
def test_two_nodes_may_be_lost_that_have_no_part_in_common(
    hosts: Hosts, store: Store, lost: tuple[int, int], has_a_copy: bool
) -> None:
    run = begin(store)

    for host in [hosts[at] for at in lost]:
        hosts.stop(host)

    def continues() -> bool:
        fact = store.run(run).fact
        return (fact.ranks == 2 and fact.resumed_at > 0) or fact.state.ended

    until(continues, what="the next attempt", said=lambda: store.run(run).fact)
    fact = store.run(run).fact
    assert (fact.resumed_at > 0) is has_a_copy, fact
    # These hosts may come back with their disks, so the run does not begin again by itself.
    assert ("No complete snapshot of this run is on its nodes" in fact.failure) is not has_a_copy
