from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.waiting import until
from workbench.cli import main
from workbench.core.cluster.model import ClusterFact, ClusterState, ClusterWish
from workbench.core.fleet.model import Node, NodeState
from workbench.core.run.model import Run, RunState
from workbench.core.run.rank_protocol import Batch, Chunk, Sample
from workbench.core.world.world import RankFact
from workbench.store import Store
from workbench.store.paths import cluster_directory

DEADLINE_SECONDS = 20.0


class Actor(threading.Thread):
    """Plays the supervisor of one cluster: holds its lock, answers wishes with facts."""

    def __init__(self, cluster: str) -> None:
        super().__init__(daemon=True)
        self.cluster = cluster
        self.script: Callable[[Run], None] | None = None
        self.fails = ""
        self.deaf = False
        self._leave = threading.Event()
        self._played: set[str] = set()
        self._sent: Counter[tuple[str, int]] = Counter()
        self.take_up()

    def run(self) -> None:
        with Store() as self.store:
            try:
                while not self._leave.wait(0.01):
                    self._answer()
            except BaseException:  # no process shall wait for a run whose player is gone
                for run in self.store.list_unfinished(self.cluster):
                    self.end_run(run, RunState.LOST)
                raise

    def leave(self) -> None:
        self._leave.set()
        self.join(DEADLINE_SECONDS)
        self.let_go()

    def take_up(self) -> None:
        """Hold the lock, so that no command starts a real supervisor."""
        self._lock = (cluster_directory(self.cluster) / "supervisor.lock").open("a+b")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def let_go(self) -> None:
        """Drop the lock, as a supervisor does that ends."""
        self._lock.close()

    def report(self, run: Run, rank: int, values: dict[str, list[float]], text: str = "") -> None:
        """Keep values, one for each iteration from 1, and a piece of output."""
        samples = tuple(
            Sample(name, iteration, time.time(), value)
            for name, series in values.items()
            for iteration, value in enumerate(series, 1)
        )
        chunks = (Chunk("stdout", time.time(), text),) if text else ()
        self._sent[run.id, rank] += 1
        batch = Batch(run.execution, rank, self._sent[run.id, rank], samples, chunks)
        self.store.reports.add_batches([batch])

    def start_run(self, run: Run, **changes: object) -> None:
        now = time.time()
        facts = {"state": RunState.RUNNING, "ranks": 2, "started": now, "generation": 1}
        self.store.put_run_fact(run.id, **{**facts, **changes})

    def end_run(self, run: Run, state: RunState = RunState.FINISHED, **changes: object) -> None:
        self.store.put_run_fact(run.id, state=state, ended=time.time(), **changes)

    def finish(self, run: Run) -> None:
        """Play a run that goes well."""
        self.start_run(run)
        for rank in range(2):
            text = f"hello\nI am rank {rank}\n"
            self.report(run, rank, {"main/loss": [4.0, 2.0, 1.0]}, text)
        self.end_run(run, iteration=3, iterations_total=3)

    def fail(self, run: Run) -> None:
        """Play a run whose rank 1 raises."""
        self.start_run(run)
        error = 'Traceback (most recent call last):\n  File "train.py", line 3\nValueError: no'
        self.end_run(run, RunState.FAILED, failed_rank=1, failed_host="here", error=error)

    def interrupt(self, run: Run) -> None:
        """Interrupt the command at iteration 7, and end the run when it is asked to stop."""
        self.start_run(run, iteration=7)
        os.kill(os.getpid(), signal.SIGINT)
        self.obey(run)

    def obey(self, run: Run) -> None:
        """Play a run that is active until it is asked to stop."""
        self.start_run(run, iteration=7)
        until(lambda: self.store.run(run.id).wish.stop)
        self.end_run(run, RunState.STOPPED)

    def _answer(self) -> None:
        wish, fact = self.store.cluster_wish(self.cluster), self.store.cluster_fact(self.cluster)
        if wish is None or self.deaf:
            return
        if self.fails and wish.up:
            self._put(ClusterState.FAILED, 0, self.fails)
        elif wish.up and wish.fleet.provider != "local":
            self._provide(wish, fact)
        elif wish.up and fact.ranks != wish.ranks:
            self._put(ClusterState.READY, wish.ranks)
        elif not wish.up and fact.state is not ClusterState.DOWN:
            for run in self.store.list_unfinished(self.cluster):
                self.end_run(run, RunState.STOPPED)
            gone = [replace(n, state=NodeState.GONE) for n in self.store.fleets.nodes(self.cluster)]
            self.store.fleets.put_nodes(self.cluster, gone)
            self._put(ClusterState.DOWN, 0)
            self.let_go()
        for run in self.store.list_unfinished(self.cluster):
            if self.script and run.id not in self._played:
                self._played.add(run.id)
                self.script(run)

    def _provide(self, wish: ClusterWish, fact: ClusterFact) -> None:
        """Let as many nodes be joined as are asked for, at 20 cents an hour."""
        addresses = [host.address for host in wish.fleet.hosts] or [f"r-{n}" for n in range(9)]
        there = addresses[: wish.fleet.nodes]
        known = {node.id for node in self.store.fleets.nodes(self.cluster)}
        if set(there) == known and fact.state is not ClusterState.DOWN:
            return
        for id_ in {*known, *there}:
            state = NodeState.JOINED if id_ in there else NodeState.GONE
            self.store.fleets.put_nodes(
                self.cluster,
                [Node(id_, state, id_, 2, "gpu.1", "here-1a", 0.2, 0.05, time.time() - 900)],
            )
        self._put(ClusterState.READY if there else ClusterState.PAUSED, 2 * len(there))

    def _put(self, state: ClusterState, ranks: int, message: str = "") -> None:
        if ranks:
            self.store.put_ranks(
                self.cluster,
                [RankFact(1, rank, "here", 4000 + rank, rank) for rank in range(ranks)],
            )
        self.store.put_cluster_fact(
            ClusterFact(self.cluster, state, ranks, 1, message, 1, "", time.time())
        )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the command a data directory of its own, and a folder to be in."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with Store() as store:
        yield store


@pytest.fixture
def cluster() -> str:
    """Name the cluster that the actor plays."""
    return "default"


@pytest.fixture
def actor(home: Path, cluster: str) -> Iterator[Actor]:
    actor = Actor(cluster)
    actor.start()
    yield actor
    actor.leave()


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text("print('hello')\n")
    return str(path)


@pytest.fixture
def workbench(home: Path) -> Callable[..., Result]:
    """Call the command in this process."""

    def call(*arguments: str) -> Result:
        result = CliRunner().invoke(main, arguments, prog_name="workbench")
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call
