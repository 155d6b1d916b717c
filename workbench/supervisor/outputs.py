"""Have what runs leave on their nodes come to where it is kept, as it comes.

It is done on a thread of its own. An agent on each node sends files; runs' logs
and points are added from the store.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.cloud.local import LocalSession
from workbench.core.outputs import (
    ADD,
    CLAIM,
    ENDED,
    FILE,
    FLUSH,
    FLUSHED,
    KEPT,
    KEY,
    LOG,
    OVER,
    PIECE,
    POINTS,
    RUN,
    TAKEN,
    TROUBLE,
    WHOLE,
    LogText,
    key_of,
    point_line,
)
from workbench.core.parcels import line, read_line
from workbench.core.session import RemoteProcess, Session
from workbench.core.staging import is_bucket, output_folder
from workbench.core.world import Host
from workbench.errors import WorkbenchError
from workbench.store import Store
from workbench.store.home import run_directory
from workbench.supervisor.receiving import Receiving
from workbench.supervisor.staging import bucket_environment

log = logging.getLogger("workbench.supervisor")

HERE = ""
"""Stands for this machine among the addresses of nodes."""
LOG_SECONDS = 60.0
LOOK_SECONDS = 0.1
AGAIN_SECONDS = 5.0
FLUSH_SECONDS = 90.0
# What a node that is out of reach has is waited for so long after its run.
LOST_SECONDS = 900.0
AT_ONCE = 5_000
FILE_NAME = "outputs.json"
AGENT = (sys.executable, "-m", "workbench.node.output")
Reach = Callable[[Host], Session | None]


@dataclass
class Kept:
    """A run whose output is to be kept.

    Args:
        folders: Where its ranks write on each node, by address.
        over: Seconds, by the monotonic clock, at which it ended; 0 while it goes on.
        ended: The nodes that have sent all.
        owners: Which node has each name plain.
    """

    run: str
    destination: str
    folders: dict[str, str]
    over: float = 0.0
    ended: set[str] = field(default_factory=set)
    owners: dict[str, str] = field(default_factory=lambda: {LOG: "workbench", POINTS: "workbench"})
    text: LogText = field(default_factory=LogText)
    pieces: int = 0
    points: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    told: float = 0.0
    due: float = 0.0
    is_told: bool = False
    trouble: str = ""

    def begin_log(self) -> None:
        """Have log and points told anew, from their beginning."""
        self.sizes, self.pieces, self.points = {}, 0, 0
        self.text, self.is_told, self.told = LogText(), False, 0.0


@dataclass
class Agent:
    """The agent on one node, as this side knows it."""

    address: str
    session: Session
    process: RemoteProcess
    destination: str
    receiving: Receiving | None = None
    runs: set[str] = field(default_factory=set)
    over: set[str] = field(default_factory=set)
    trouble: str = ""
    flushed: int = 0

    def say(self, kind: str, *values: Any) -> None:
        """Say something to it."""
        self.process.write(line(kind, *values))

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, or nobody reaches it."""
        return self.process.status is not None or not self.session.is_open


class Outputs:
    """The outputs of a cluster's runs.

    Args:
        reach: Looks the session with a host up; None for this machine.
        folder: Of the cluster: what is under way is written down there for a successor, if any.
    """

    def __init__(self, cluster: str, reach: Reach, folder: Path | None = None) -> None:
        self._cluster = cluster
        self._reach = reach
        self._path = folder / FILE_NAME if folder else None
        self._lock = threading.Lock()
        self._message = ""
        self._is_open = False
        self._kept: dict[str, Kept] = {}
        self._agents: dict[tuple[str, str], Agent] = {}
        self._due: dict[tuple[str, str], float] = {}
        self._here: LocalSession | None = None
        self._flushes = 0
        self._wake = threading.Event()
        self._closing = 0.0
        self._thread: threading.Thread | None = None
        self._take_up()

    def __repr__(self) -> str:
        return f"<Outputs of {self._cluster}: {len(self._kept)} runs>"

    def open(self) -> None:
        """Begin, once all runs that a predecessor left running have been begun here."""
        self._is_open = True
        if self._kept:
            self._start()

    @property
    def message(self) -> str:
        """One sentence for the reader; empty when there is nothing to say."""
        return self._message

    def begin(self, run: str, hosts: Sequence[str], destination: str) -> None:
        """Keep what a run leaves.

        Args:
            hosts: Addresses of its nodes.
            destination: A folder, or ``s3://bucket/prefix``.
        """
        if not destination or self._goes_on(run):
            return
        folders = {
            HERE if self._reach(Host(address, 1)) is None else address: place
            for address in dict.fromkeys(hosts)
            for place in [self.place(run, hosts)]
        }
        with self._lock:
            self._kept[run] = Kept(run, destination, folders)
            self._write_down()
        self._start()

    def place(self, run: str, hosts: Sequence[str]) -> str:
        """Return where the ranks of a run write."""
        if kept := self._kept.get(run):
            return next(iter(kept.folders.values()))
        if all(self._reach(Host(address, 1)) is None for address in hosts):
            return str(run_directory(run) / "output")
        return output_folder(self._cluster, run)

    def end(self, run: str) -> None:
        """Send all the rest of a run."""
        kept = self._kept.get(run)
        if kept is not None and not kept.over:
            kept.over = time.monotonic()
        self._wake.set()

    def flush(self, session: Session, seconds: float = FLUSH_SECONDS) -> None:
        """Return when a node has sent all that it has, or after a while; from any thread."""
        deadline = time.monotonic() + seconds
        agents = [a for a in [*self._agents.values()] if a.session is session and not a.is_gone]
        for agent in agents:
            while self._owes_log(agent) and time.monotonic() < deadline:
                time.sleep(LOOK_SECONDS / 2)
        with self._lock:
            self._flushes += 1
            number = self._flushes
        for agent in agents:
            agent.say(FLUSH, number)
        while agents and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS / 2)
            agents = [agent for agent in agents if agent.flushed < number and not agent.is_gone]
        if agents:
            log.warning("output stays on %s: %s", session.host.address, agents[0].trouble)

    def close(self, seconds: float = FLUSH_SECONDS) -> None:
        """End, when all that can come has come, or after a while."""
        if self._thread is not None:
            self._closing = time.monotonic() + seconds
            self._wake.set()
            self._thread.join()
        for kept in self._kept.values():
            log.warning("output of run %s was not all sent to %s", kept.run, kept.destination)
        if self._here is not None:
            self._here.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _goes_on(self, run: str) -> bool:
        """Whether a predecessor began with a run; where it is, only that one could tell."""
        kept = self._kept.get(run)
        if kept is not None:
            kept.over = 0.0
        return kept is not None

    def _owes_log(self, agent: Agent) -> bool:
        return any(
            kept.over and not kept.is_told and self._writer(kept) == agent.address
            for kept in [*self._kept.values()]
        )

    def _start(self) -> None:
        if self._is_open and self._thread is None:
            self._thread = threading.Thread(target=self._work, name="outputs", daemon=True)
            self._thread.start()
        self._wake.set()

    # -- on its thread

    def _work(self) -> None:
        with Store() as store:
            while not self._is_done():
                try:
                    is_busy = self._turn(store, time.monotonic())
                except WorkbenchError as error:
                    log.warning("outputs: %s", error)
                    is_busy = False
                if not is_busy:
                    self._wake.wait(LOOK_SECONDS)
                    self._wake.clear()

    def _is_done(self) -> bool:
        if not self._closing:
            return False
        waiting = [k for k in [*self._kept.values()] if HERE in k.folders and k.over]
        return not waiting or time.monotonic() > self._closing

    def _turn(self, store: Store, now: float) -> bool:
        """Do what there is to do; false when that was nothing."""
        for key, agent in [*self._agents.items()]:
            if agent.is_gone:
                self._drop(key)
        for kept in [*self._kept.values()]:
            agents = self._agents_of(kept, now)
            self._tell_log(kept, agents, store, now)
            if kept.over and kept.is_told:
                for agent in agents:
                    if kept.run not in agent.over:
                        agent.over.add(kept.run)
                        agent.say(OVER, kept.run)
            self._settle(kept, now)
        heard = [self._hear(agent) for agent in self._agents.values()]
        self._message = self._said()
        return any(heard)

    def _said(self) -> str:
        for agent in self._agents.values():
            if agent.trouble:
                return f"Output waits on {self._name(agent)}: {agent.trouble}."
        for kept in [*self._kept.values()]:
            if kept.trouble:
                return f"Output waits: {kept.trouble}."
        over = next((kept for kept in [*self._kept.values()] if kept.over), None)
        if over is None:
            return ""
        return f"Output of run {over.run} is on its way to {over.destination}."

    def _settle(self, kept: Kept, now: float) -> None:
        """Forget a run when all of it has come, or nobody can send the rest."""
        missing = kept.folders.keys() - kept.ended
        is_late = kept.over and now - kept.over > LOST_SECONDS
        if is_late and missing and not any((a, kept.destination) in self._agents for a in missing):
            log.warning("output of run %s is lost with %s", kept.run, ", ".join(sorted(missing)))
            missing = set()
        if kept.over and kept.is_told and not missing:
            with self._lock:
                del self._kept[kept.run]
                self._write_down()

    def _agents_of(self, kept: Kept, now: float) -> list[Agent]:
        found = []
        for address, folder in kept.folders.items():
            if address in kept.ended:
                continue
            agent = self._agent(address, kept.destination, now)
            if agent is None:
                continue
            found.append(agent)
            if kept.run not in agent.runs:
                agent.runs.add(kept.run)
                agent.say(RUN, kept.run, folder)
        return found

    def _agent(self, address: str, destination: str, now: float) -> Agent | None:
        key = (address, destination)
        if key in self._agents or now < self._due.get(key, 0.0):
            return self._agents.get(key)
        self._due[key] = now + AGAIN_SECONDS
        session = self._session(address)
        if session is None or not session.is_open:
            return None
        words = [*AGENT]
        if is_bucket(destination):
            url = f"{destination.rstrip('/')}/{self._cluster}"
            words = [*bucket_environment(session), *AGENT, url]
        agent = Agent(address, session, session.start(words), destination)
        if not is_bucket(destination):
            agent.receiving = Receiving(
                lambda run, path: self._place_of(run, path, agent),
                lambda nbytes: agent.say(TAKEN, nbytes),
                lambda run, path, why: agent.say(KEPT, run, path, why),
            )
        self._agents[key] = agent
        return agent

    def _session(self, address: str) -> Session | None:
        if address != HERE:
            return self._reach(Host(address, 1))
        if self._here is None:
            self._here = LocalSession(Host("localhost", 1), Path.home())
        return self._here

    def _drop(self, key: tuple[str, str]) -> None:
        agent = self._agents.pop(key)
        if agent.receiving is not None:
            agent.receiving.drop()
        with contextlib.suppress(WorkbenchError):
            agent.process.end()
        for kept in self._kept.values():
            if agent.address == self._writer(kept):
                kept.begin_log()  # the next one has none of it

    def _hear(self, agent: Agent) -> bool:
        lines = agent.process.lines()
        for text in lines:
            if answer := read_line(text):
                self._take(agent, *answer)
        return bool(lines)

    def _take(self, agent: Agent, kind: str, values: list[Any]) -> None:
        if kind == CLAIM:
            run, path = values
            if run in self._kept:
                key = key_of(path, self._name(agent), self._kept[run].owners)
                agent.say(KEY, run, path, key)
        elif kind == TROUBLE:
            agent.trouble = values[0]
            if values[0]:
                log.warning("output on %s: %s", self._name(agent), values[0])
        elif kind == ENDED:
            agent.runs.discard(values[0])
            agent.over.discard(values[0])
            if values[0] in self._kept:
                self._kept[values[0]].ended.add(agent.address)
        elif kind == FLUSHED:
            agent.flushed = values[0]
        elif agent.receiving is not None and kind == FILE:
            agent.receiving.begin(*values)
        elif agent.receiving is not None and kind == PIECE:
            agent.receiving.add(*values)
        elif agent.receiving is not None and kind == WHOLE:
            agent.receiving.end(*values)

    def _name(self, agent: Agent) -> str:
        return agent.address or socket.gethostname()

    def _place_of(self, run: str, path: str, agent: Agent) -> Path:
        """Return where a file of a node goes here."""
        kept = self._kept.get(run)
        owners = kept.owners if kept else {}
        return self._top(agent.destination, run) / key_of(path, self._name(agent), owners)

    def _top(self, destination: str, run: str) -> Path:
        return Path(destination) / self._cluster / run

    # -- the log and the points

    def _writer(self, kept: Kept) -> str | None:
        """Return the node that adds the log to the run; None where it is written here."""
        return next(iter(kept.folders)) if is_bucket(kept.destination) else None

    def _tell_log(self, kept: Kept, agents: Sequence[Agent], store: Store, now: float) -> None:
        """Add what the ranks printed and reported, now and then, and all of it at the end."""
        if kept.is_told or now < kept.due or (now - kept.told < LOG_SECONDS and not kept.over):
            return
        writer = next((a for a in agents if a.address == self._writer(kept)), None)
        if writer is None and is_bucket(kept.destination):
            return
        kept.told = now
        try:
            self._add_news(kept, writer, store)
        except OSError as error:
            kept.trouble = f"{error.filename} cannot be written ({error.strerror})"
            log.warning("%s", kept.trouble)
            kept.begin_log()
            kept.due = now + AGAIN_SECONDS

    def _add_news(self, kept: Kept, writer: Agent | None, store: Store) -> None:
        if not (kept.over or kept.sizes):
            self._add(kept, writer, LOG, "")
        while rows := store.output(kept.run, kept.pieces, AT_ONCE):
            kept.pieces = rows[-1].sequence
            self._add(kept, writer, LOG, kept.text.feed((row.rank, row.text) for row in rows))
        if kept.over:
            self._add(kept, writer, LOG, kept.text.rest())
        while points := store.points(kept.run, kept.points, AT_ONCE):
            kept.points = points[-1].sequence
            text = "".join(point_line(p.rank, p.iteration, p.time, p.name, p.value) for p in points)
            self._add(kept, writer, POINTS, text)
        kept.is_told, kept.trouble = bool(kept.over), ""

    def _add(self, kept: Kept, writer: Agent | None, name: str, text: str) -> None:
        offset = kept.sizes.get(name, 0)
        if not text and offset:
            return
        data = text.encode(errors="replace")
        if writer is not None:
            writer.say(ADD, kept.run, name, offset, text)
        else:
            top = self._top(kept.destination, kept.run)
            top.mkdir(parents=True, exist_ok=True)
            with (top / name).open("r+b" if offset else "wb") as file:
                file.seek(offset)
                file.write(data)
        kept.sizes[name] = offset + len(data)

    # -- for a successor

    def _take_up(self) -> None:
        if self._path is None:
            return
        with contextlib.suppress(OSError, ValueError):
            for run, (destination, folders) in json.loads(self._path.read_text()).items():
                self._kept[run] = Kept(run, destination, folders, over=time.monotonic())

    def _write_down(self) -> None:
        if self._path is None:
            return
        rows = {kept.run: [kept.destination, kept.folders] for kept in self._kept.values()}
        temporary = self._path.with_suffix(".new")
        temporary.write_text(json.dumps(rows), encoding="utf-8")
        os.replace(temporary, self._path)
