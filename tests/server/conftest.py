"""A Jupyter server with our extension, a store that the tests write, and a page that listens."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_jupyter.jupyter_server import *  # noqa: F403 - its fixtures are found by their names
from tornado.httpclient import HTTPClientError
from tornado.websocket import WebSocketClosedError

from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import Batch, Chunk, Sample
from workbench.requests.run import new_run_id
from workbench.requests.supervisor import LOCK_NAME
from workbench.store import Store
from workbench.store.paths import cluster_directory

ROOT = ("workbench", "api")
COLUMNS = (
    ("x", "<f8"),
    ("index", "<i4"),
    ("low", "<f4"),
    ("median", "<f4"),
    ("high", "<f4"),
    ("mean", "<f4"),
    ("slowest", "<f4"),
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "workbench"))
    return tmp_path / "workbench"


@pytest.fixture(autouse=True)
def awake(home: Path) -> Iterator[None]:
    """Hold the locks of supervisors, so that none is started."""
    locks = [(cluster_directory(name) / LOCK_NAME).open("wb") for name in ("default", "lab")]
    for lock in locks:
        fcntl.flock(lock, fcntl.LOCK_EX)
    yield
    for lock in locks:
        lock.close()


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with Store() as store:
        yield store


@dataclass
class Training:
    """A run that the test writes, as a supervisor would."""

    store: Store
    id: str
    sequences: dict[int, int] = field(default_factory=dict)

    def report(self, iterations: range, ranks: int = 1, **values: Callable[[int], float]) -> None:
        """Write points of every rank."""
        now = time.time()
        values = values or {"loss": lambda i: 1 / (i + 1)}
        for rank in range(ranks):
            samples = tuple(
                Sample(name.replace("__", "/"), i, now, value(i) + rank)
                for i in iterations
                for name, value in values.items()
            )
            self._add(rank, samples=samples)
        self.store.put_run_fact(self.id, iteration=iterations[-1] + 1)

    def write(self, *texts: str, rank: int = 0) -> None:
        """Write output of a rank."""
        self._add(rank, chunks=tuple(Chunk("stdout", time.time(), text) for text in texts))

    def end(self, state: RunState = RunState.FINISHED, **changes: object) -> None:
        self.store.put_run_fact(self.id, state=state, ended=time.time(), **changes)

    def _add(self, rank: int, **contents: Any) -> None:
        self.sequences[rank] = self.sequences.get(rank, 0) + 1
        self.store.reports.add_batches([Batch(self.id, rank, self.sequences[rank], **contents)])


@pytest.fixture
def begin(store: Store) -> Callable[..., Training]:
    """Begin a run."""

    def begin(name: str = "", cluster: str = "default", **fact: object) -> Training:
        now = time.time()
        identity = new_run_id(now)
        store.wish_run(
            RunWish(identity, name or identity, RunKind.CELL, "pass", cluster=cluster, created=now)
        )
        fact = {"state": RunState.RUNNING, "ranks": 1, "started": now, **fact}
        store.put_run_fact(identity, **fact)
        return Training(store, identity)

    return begin


@pytest.fixture
def run(begin: Callable[..., Training]) -> Training:
    """A run that is active."""
    return begin()


@pytest.fixture
def cluster(store: Store) -> str:
    """A cluster that is up with two ranks."""
    store.wish_cluster("default", up=True, ranks=2, oversubscribe=True)
    store.put_cluster_fact(ClusterFact("default", ClusterState.READY, 2, 1, updated=time.time()))
    return "default"


# -- asking


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    return {"ServerApp": {"jpserver_extensions": {"workbench.server": True}}}


@dataclass
class Answer:
    """What a call was answered."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return self.json["message"]


@pytest.fixture
def ask(jp_fetch: Callable[..., Any]) -> Callable[..., Any]:
    """Call the REST interface; a refusal is an answer, too."""

    async def ask(method: str, *path: str, body: object = None, **options: Any) -> Answer:
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        try:
            answer = await jp_fetch(
                *ROOT, *path, method=method, body=body, allow_nonstandard_methods=True, **options
            )
        except HTTPClientError as error:
            answer = error.response
        return Answer(answer.code, answer.body)

    return ask


# -- following


@dataclass
class Frame:
    """A frame of points as a page reads it."""

    feed: str
    version: int
    points: int
    slowest: int
    series: dict[str, dict[str, Any]]
    nbytes: int


def decode_frame(data: bytes) -> Frame:
    """Read a frame as protocol.ts does."""
    length = int.from_bytes(data[:4], "little")
    header = json.loads(data[4 : 4 + length])
    offset = 4 + length
    for series in header["series"]:
        for name, kind in COLUMNS:
            column = np.frombuffer(data, kind, series["count"], offset)
            series[name], offset = column, offset + column.nbytes
    assert offset == len(data)
    series = {series["name"]: series for series in header["series"]}
    return Frame(
        header["feed"], header["version"], header["points"], header["slowest"], series, len(data)
    )


@pytest.fixture
def decode() -> Callable[[bytes], Frame]:
    return decode_frame


class Listener:
    """A page's end of the WebSocket; it draws what it hears."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.feed = ""
        self.version = 0
        self.run: dict[str, Any] = {}
        self.heard: list[str] = []
        self.curves: dict[str, dict[int, tuple[float, ...]]] = {}
        self.output: list[list[Any]] = []

    async def hear(self, seconds: float = 5.0) -> dict[str, Any] | Frame | None:
        """Return the next message, or None once the connection is closed."""
        data = await asyncio.wait_for(self.socket.read_message(), seconds)
        if data is None:
            return None
        if isinstance(data, bytes):
            self.heard.append("frame")
            return self.draw(decode_frame(data))
        message = json.loads(data)
        self.heard.append(message["type"])
        self.feed = message.get("feed", self.feed)
        self.run = message.get("run", self.run)
        return message

    async def hear_a(self, kind: str, seconds: float = 5.0) -> Any:
        """Return the next message of a kind, and take in those before."""
        deadline = time.monotonic() + seconds
        while (message := await self.hear(deadline - time.monotonic())) is not None:
            if self.heard[-1] == kind:
                return message
        raise AssertionError(f"closed with {self.socket.close_code}, heard {self.heard}")

    async def hear_out(self, seconds: float = 10.0) -> tuple[int, str]:
        """Take in all, answer as a page does, and return how the connection was closed."""
        deadline = time.monotonic() + seconds
        while (message := await self.hear(deadline - time.monotonic())) is not None:
            if isinstance(message, Frame):
                self.ack()
            elif message["type"] == "output":
                self.output += message["pieces"]
                self.say(type="output", after=message["after"])
        return self.socket.close_code, self.socket.close_reason

    def draw(self, frame: Frame) -> Frame:
        self.version = frame.version
        for name, series in frame.series.items():
            if series["reset"]:
                self.curves[name] = {}
            columns = zip(*(series[column].tolist() for column, _ in COLUMNS), strict=True)
            self.curves.setdefault(name, {}).update({row[1]: row for row in columns})
        return frame

    def ack(self) -> None:
        self.say(type="ack", version=self.version)

    def say(self, **message: Any) -> None:
        with contextlib.suppress(WebSocketClosedError):
            written = self.socket.write_message(json.dumps(message))
            written.add_done_callback(lambda written: written.exception())


@pytest.fixture
def extension(jp_serverapp):
    (extension,) = jp_serverapp.extension_manager.extension_apps["workbench.server"]
    return extension


@pytest.fixture
def set_pace(extension) -> Callable[..., None]:
    """Change some times of the feeds and pages that begin from now on, in seconds."""

    def set_pace(**seconds: float) -> None:
        extension.feeds.pace = replace(extension.feeds.pace, **seconds)

    return set_pace


@pytest.fixture
def follow(jp_ws_fetch: Callable[..., Any]) -> Callable[..., Any]:
    """Open a page that follows a run, and close it at the end of the block."""

    @asynccontextmanager
    async def follow(
        run: str, headers: dict[str, str] | None = None, **params: Any
    ) -> AsyncIterator[Listener]:
        socket = await jp_ws_fetch(*ROOT, "runs", run, "follow", headers=headers, params=params)
        try:
            yield Listener(socket)
        finally:
            socket.close()

    return follow
