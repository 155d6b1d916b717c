"""A real IPython shell, what it sends to a page, and a stand-in that plays facts into a store."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from workbench.core.cluster.model import DEFAULT_CLUSTER, ClusterFact, ClusterState
from workbench.core.run.model import Run, RunState
from workbench.core.run.rank_protocol import Batch, Chunk, Sample
from workbench.core.world.world import RankFact
from workbench.requests.supervisor import LOCK_NAME
from workbench.store import Store
from workbench.store.paths import cluster_directory


@dataclass
class Message:
    """One message to the page: a display, or text."""

    kind: str
    data: dict[str, Any]
    place: str = ""


@dataclass
class Sent:
    """What the shell has sent to its page since the test began."""

    messages: list[Message] = field(default_factory=list)

    def publish(self, data, metadata=None, *, transient=None, update=False, **_: Any) -> None:
        kind = "update" if update else "display"
        place = (transient or {}).get("display_id", "")
        self.messages.append(Message(kind, dict(data), place))

    def final(self, kind: str) -> list[Any]:
        """Return what the saved notebook holds of one MIME type, from top to bottom."""
        places: dict[str, dict[str, Any]] = {}
        for position, message in enumerate(self.messages):
            places[message.place or str(position)] = message.data
        return [data[kind] for data in places.values() if kind in data]

    @property
    def html(self) -> str:
        return "\n".join(self.final("text/html"))

    @property
    def text(self) -> str:
        return "\n".join(self.final("text/plain"))


class StandIn(threading.Thread):
    """Plays what a supervisor would write, by the contract of the store; there are no engines."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.play: Callable[[StandIn, Run], None] = StandIn.train
        self.iterations = 20
        self.ranks = 2
        self.pace = 0.01
        self.failing: str = ""
        self.quit = threading.Event()
        self.store = Store()
        self._sequences: dict[tuple[str, int], int] = {}
        self._lock = (cluster_directory(DEFAULT_CLUSTER) / LOCK_NAME).open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def run(self) -> None:
        while not self.quit.wait(0.01):
            wish = self.store.cluster_wish(DEFAULT_CLUSTER)
            self.cluster(wish)
            if not self.store.cluster_fact(DEFAULT_CLUSTER).ranks:
                continue
            for run in self.store.list_unfinished(DEFAULT_CLUSTER)[:1]:
                self.play(self, run)

    def cluster(self, wish) -> None:
        fact = self.store.cluster_fact(DEFAULT_CLUSTER)
        state = ClusterState.READY if wish and wish.up else ClusterState.DOWN
        ranks = wish.ranks if wish and wish.up else 0
        if self.failing:
            state, ranks = ClusterState.FAILED, 0
        if (state, ranks) != (fact.state, fact.ranks):
            generation = fact.generation + 1
            self.store.put_cluster_fact(
                ClusterFact(
                    DEFAULT_CLUSTER, state, ranks, generation, self.failing, 1, "", time.time()
                )
            )
            facts = [RankFact(generation, rank, "here", 100 + rank, rank) for rank in range(ranks)]
            if facts:
                self.store.put_ranks(DEFAULT_CLUSTER, facts)

    def begin(self, run: Run) -> int:
        ranks = run.wish.options.ranks or self.store.cluster_fact(DEFAULT_CLUSTER).ranks
        self.store.put_run_fact(
            run.id, state=RunState.RUNNING, ranks=ranks, started=time.time(),
            iterations_total=self.iterations,
        )  # fmt: skip
        return ranks

    def report(self, run: Run, rank: int, text: str = "", iteration: int = 0, **values) -> None:
        key = (run.id, rank)
        self._sequences[key] = self._sequences.get(key, 0) + 1
        now = time.time()
        samples = tuple(
            Sample(name.replace("__", "/"), iteration, now, value) for name, value in values.items()
        )
        chunks = (Chunk("stdout", now, text),) if text else ()
        self.store.reports.add_batches([Batch(run.id, rank, self._sequences[key], samples, chunks)])

    def end(self, run: Run, state: RunState, **changes: object) -> None:
        self.store.put_run_fact(run.id, state=state, ended=time.time(), **changes)

    def train(self, run: Run) -> None:
        """A short training: losses fall, each rank says its iterations."""
        ranks = self.begin(run)
        for i in range(1, self.iterations + 1):
            if self.quit.wait(self.pace):
                return
            for rank in range(ranks):
                self.report(
                    run, rank, f"iteration {i}\n", i,
                    main__loss=1 / i + rank / 100, main__accuracy=1 - 1 / i,
                )  # fmt: skip
            self.store.put_run_fact(run.id, iteration=i)
            if self.store.run(run.id).wish.stop:
                return self.end(run, RunState.STOPPED)
        self.end(run, RunState.FINISHED)

    def close(self) -> None:
        self.quit.set()
        self.join(5)
        self._lock.close()
        self.store.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with Store() as store:
        yield store


@pytest.fixture
def stand_in(home: Path) -> Iterator[StandIn]:
    stand_in = StandIn()
    stand_in.start()
    yield stand_in
    stand_in.close()


@pytest.fixture
def shell(home: Path) -> Iterator[InteractiveShell]:
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "workbench")
    yield shell
    shell.run_line_magic("unload_ext", "workbench")
    InteractiveShell.clear_instance()


@pytest.fixture
def sent(shell: InteractiveShell) -> Sent:
    sent = Sent()
    shell.display_pub.publish = sent.publish
    return sent


@pytest.fixture
def run_cell(shell: InteractiveShell) -> Callable[[str], Any]:
    """Run a cell as a person does, and raise what it raised."""

    def run(source: str) -> Any:
        result = shell.run_cell(source)
        result.raise_error()
        return result.result

    return run
