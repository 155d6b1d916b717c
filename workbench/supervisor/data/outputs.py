"""Collect the output files of runs from their nodes while they are written.

This happens on a separate thread. An agent on each node sends files; logs and points of runs are
added from the store.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workbench.cloud.hosts.local_session import LocalSession
from workbench.cluster.node_agent import agent_of
from workbench.core.node.agent_protocol import (
    PIECE_NBYTES,
    Flush,
    LogAdded,
    OutputBegun,
    OutputOver,
    SendOutputs,
    encode_path,
)
from workbench.core.node.output_files import (
    LOG,
    MOST_FILES,
    MOST_NAMES_NBYTES,
    POINTS,
    LogText,
    key_of,
    point_line,
)
from workbench.core.node.staging import is_bucket, output_folder
from workbench.core.quote import one_line
from workbench.core.run_id import is_run_id
from workbench.core.world.remote import Session
from workbench.core.world.world import Host
from workbench.errors import MachineError, ProtocolError, WorkbenchError
from workbench.node.stream import StreamBroken
from workbench.store import Store
from workbench.store.paths import owners_only, run_directory
from workbench.supervisor.data.output_agent import ContainedFolder, OutputAgent
from workbench.supervisor.data.staging import bucket_environment

log = logging.getLogger("workbench.supervisor")

HERE = ""
"""This machine's key among the addresses of nodes."""
LOG_SECONDS = 60.0
# For what no message tells: a log that is due, an agent to be started again.
LOOK_SECONDS = 0.5
AGAIN_SECONDS = 5.0
FLUSH_SECONDS = 90.0
# How long the output of an unreachable node is awaited after its run.
LOST_SECONDS = 900.0
AT_ONCE = 5_000
# How often an agent that broke the protocol is started again.
TRIES = 3
FILE_NAME = "outputs.json"
Reach = Callable[[Host], Session | None]


@dataclass
class RunOutputs:
    """A run whose output is collected.

    Args:
        folders: The folder of its ranks on each node, by address.
        over: When it ended, by the monotonic clock; 0 while it is active.
        ended: The nodes that have sent everything.
        owners: For each name, the node whose file has it without a prefix; all of these names
            together have ``names_nbytes``.
    """

    run: str
    destination: str
    folders: dict[str, str]
    over: float = 0.0
    ended: set[str] = field(default_factory=set)
    owners: dict[str, str] = field(default_factory=lambda: {LOG: "workbench", POINTS: "workbench"})
    names_nbytes: int = 0
    text: LogText = field(default_factory=LogText)
    pieces: int = 0
    points: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    logged: float = 0.0
    due: float = 0.0
    is_log_sent: bool = False
    trouble: str = ""

    def collect_again(self, folders: Mapping[str, str]) -> None:
        """Collect from these nodes as well: the run continues, perhaps on others than before."""
        self.over, self.is_log_sent = 0.0, False
        # New ones, since another thread goes through the old ones.
        self.folders = {**self.folders, **folders}
        self.ended = self.ended - folders.keys()

    def begin_log(self) -> None:
        """Send the log and the points again from their beginning."""
        self.sizes, self.pieces, self.points = {}, 0, 0
        self.text, self.is_log_sent, self.logged = LogText(), False, 0.0


class Outputs:
    """The outputs of a cluster's runs.

    Args:
        reach: Returns the session with a host; None for this machine.
        folder: The folder of the cluster, in which unfinished runs are listed for a successor.
        here: The session with this machine; else one of its own is opened when it is needed.
        again_seconds: How long to wait before a failed attempt is repeated.
    """

    def __init__(
        self,
        cluster: str,
        reach: Reach,
        folder: Path | None = None,
        again_seconds: float = AGAIN_SECONDS,
        here: LocalSession | None = None,
    ) -> None:
        self._cluster = cluster
        self._reach = reach
        self._path = folder / FILE_NAME if folder else None
        self._again_seconds = again_seconds
        self._lock = threading.Lock()
        self._message = ""
        self._is_open = False
        self._kept: dict[str, RunOutputs] = {}
        self._agents: dict[tuple[str, str], OutputAgent] = {}
        self._due: dict[tuple[str, str], float] = {}
        self._bad: dict[tuple[str, str], list[str]] = {}
        self._received: Counter[str] = Counter()
        self._here = here
        self._own: LocalSession | None = None
        self._flushes = 0
        self._wake = threading.Event()
        self._turned = threading.Condition()  # after each turn
        self._closing = 0.0
        self._thread: threading.Thread | None = None
        self._take_up()

    def __repr__(self) -> str:
        return f"<Outputs of {self._cluster}: {len(self._kept)} runs>"

    def open(self) -> None:
        """Start, once all runs of a predecessor have been passed to ``begin``."""
        self._is_open = True
        if self._kept:
            self._start()

    @property
    def message(self) -> str:
        """One sentence for the user; empty if there is nothing to report."""
        return self._message

    def begin(self, run: str, hosts: Sequence[str], destination: str) -> None:
        """Collect the output of a run.

        Args:
            hosts: Addresses of its nodes.
            destination: A folder, or ``s3://bucket/prefix``.
        """
        if not destination:
            return
        folders = {
            HERE if self._reach(Host(address, 1)) is None else address: place
            for address in dict.fromkeys(hosts)
            for place in [self.place(run, hosts)]
        }
        with self._lock:
            kept = self._kept.setdefault(run, RunOutputs(run, destination, {}))
            kept.collect_again(folders)
            self._write_down()
        self._start()

    def place(self, run: str, hosts: Sequence[str]) -> str:
        """Return the folder that the ranks of a run write to."""
        if kept := self._kept.get(run):
            return next(iter(kept.folders.values()))
        if all(self._reach(Host(address, 1)) is None for address in hosts):
            return str(run_directory(run) / "output")
        return output_folder(self._cluster, run)

    def end(self, run: str) -> None:
        """Send the rest of a run's output."""
        kept = self._kept.get(run)
        if kept is not None and not kept.over:
            kept.over = time.monotonic()
        self._wake.set()

    def flush(self, session: Session, seconds: float = FLUSH_SECONDS) -> None:
        """Wait until a node has sent everything, at most for a while; from any thread."""
        deadline = time.monotonic() + seconds
        agents = [a for a in [*self._agents.values()] if a.session is session and not a.is_gone]
        self._await(lambda: not any(map(self._owes_log, agents)), deadline)
        with self._lock:
            self._flushes += 1
            number = self._flushes
        for agent in agents:
            agent.asked = number
            agent.call.post(Flush(number))

        def left() -> list[OutputAgent]:
            return [one for one in agents if one.flushed < number and not one.is_gone]

        self._await(lambda: not left(), deadline)
        if waiting := left():
            log.warning("output is left on %s: %s", session.host.address, waiting[0].trouble)

    def take_received(self) -> dict[str, int]:
        """Return the bytes received from each other node since the last call, by address."""
        with self._lock:
            received, self._received = self._received, Counter()
        return {address: nbytes for address, nbytes in received.items() if address and nbytes}

    def close(self, seconds: float = FLUSH_SECONDS) -> None:
        """End when all output has been collected, or after a while."""
        if self._thread is not None:
            self._closing = time.monotonic() + seconds
            self._wake.set()
            self._thread.join()
        for kept in self._kept.values():
            log.warning("output of run %s was not all sent to %s", kept.run, kept.destination)
        if self._own is not None:
            self._own.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _await(self, is_so: Callable[[], bool], deadline: float) -> None:
        """Wait until the thread has made something so, at most until a moment."""
        with self._turned:
            self._turned.wait_for(is_so, max(0.0, deadline - time.monotonic()))

    def _owes_log(self, agent: OutputAgent) -> bool:
        return any(
            kept.over and not kept.is_log_sent and self._writer(kept) == agent.address
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
                except Exception as error:  # without this thread no output is collected
                    log.exception("outputs failed")
                    self._message = f"Output waits: {one_line(repr(error))}; see the log."
                    self._wake.wait(self._again_seconds)
                    is_busy = False
                with self._turned:
                    self._turned.notify_all()
                if not is_busy:
                    self._wake.wait(LOOK_SECONDS)
                    self._wake.clear()

    def _is_done(self) -> bool:
        if not self._closing:
            return False
        waiting = [k for k in [*self._kept.values()] if HERE in k.folders and k.over]
        return not waiting or time.monotonic() > self._closing

    def _turn(self, store: Store, now: float) -> bool:
        """Do what is due; return false if nothing was."""
        for kept in [*self._kept.values()]:
            agents = self._agents_of(kept, now)
            self._add_log(kept, agents, store, now)
            if kept.over and kept.is_log_sent:
                for agent in agents:
                    if kept.run not in agent.over:
                        agent.over.add(kept.run)
                        agent.call.post(OutputOver(kept.run))
            self._settle(kept, now)
        heard = [self._hear(key, agent) for key, agent in [*self._agents.items()]]
        self._message = self._describe()
        return any(heard)

    def _describe(self) -> str:
        for agent in self._agents.values():
            if agent.trouble:
                return f"Output waits on {self._name(agent)}: {agent.trouble}."
        for (address, _), (*before, why) in self._bad.items():
            name = address or socket.gethostname()
            if len(before) + 1 < TRIES:
                return f"Output waits on {name}: {why}; its agent is restarted."
            return (
                f"Output of {name} is no longer collected: {why}, {TRIES} times; see what runs "
                "there. Its files are kept there."
            )
        for kept in [*self._kept.values()]:
            if kept.trouble:
                return f"Output waits: {kept.trouble}."
        over = next((kept for kept in [*self._kept.values()] if kept.over), None)
        if over is None:
            return ""
        return f"Output of run {over.run} is on its way to {over.destination}."

    def _settle(self, kept: RunOutputs, now: float) -> None:
        """Drop a run when all of its output is collected, or the rest is lost."""
        where = kept.destination
        missing = {a for a in kept.folders.keys() - kept.ended if not self._is_given_up(a, where)}
        is_late = kept.over and now - kept.over > LOST_SECONDS
        if is_late and missing and not any((a, where) in self._agents for a in missing):
            log.warning("output of run %s is lost with %s", kept.run, ", ".join(sorted(missing)))
            missing = set()
        is_log_sent = kept.is_log_sent or (
            is_bucket(where) and not missing
        )  # no node can add the log
        if kept.over and is_log_sent and not missing:
            with self._lock:
                del self._kept[kept.run]
                self._write_down()
            for key in [*self._bad]:
                if not any(key[0] in kept.folders for kept in self._kept.values()):
                    del self._bad[key]

    def _is_given_up(self, address: str, destination: str) -> bool:
        return len(self._bad.get((address, destination), ())) >= TRIES

    def _agents_of(self, kept: RunOutputs, now: float) -> list[OutputAgent]:
        found = []
        for address, folder in kept.folders.items():
            if address in kept.ended or self._is_given_up(address, kept.destination):
                continue
            try:
                agent = self._agent(address, kept.destination, now)
            except MachineError as error:  # it is tried again, and the other nodes meanwhile
                log.warning("output on %s: %s", address, error)
                continue
            if agent is None:
                continue
            found.append(agent)
            if kept.run not in agent.runs:
                agent.runs.add(kept.run)
                agent.call.post(OutputBegun(kept.run, encode_path(folder)))
        return found

    def _agent(self, address: str, destination: str, now: float) -> OutputAgent | None:
        key = (address, destination)
        if key in self._agents or now < self._due.get(key, 0.0):
            return self._agents.get(key)
        self._due[key] = now + self._again_seconds
        session = self._session(address)
        if session is None or not session.is_open:
            return None
        url = f"{destination.rstrip('/')}/{self._cluster}" if is_bucket(destination) else ""
        environment = bucket_environment(session) if url else ()
        call = agent_of(session).call(SendOutputs(url, environment))

        def place_of(run: str, path: str) -> tuple[ContainedFolder, str]:
            return self._top(destination, run), self._key_of(run, path, agent)

        agent = OutputAgent(address, session, call, destination, None if url else place_of)
        call.on_news = self._wake.set
        self._agents[key] = agent
        return agent

    def _session(self, address: str) -> Session | None:
        if address != HERE:
            return self._reach(Host(address, 1))
        if self._here is None:
            self._here = self._own = LocalSession(Host("localhost", 1), Path.home())
        return self._here

    def _drop(self, key: tuple[str, str]) -> None:
        agent = self._agents.pop(key)
        agent.drop()
        for kept in self._kept.values():
            if agent.address == self._writer(kept):
                kept.begin_log()  # the next agent has nothing of it

    def _hear(self, key: tuple[str, str], agent: OutputAgent) -> bool:
        try:
            is_busy, ended = agent.hear(lambda run, path: self._key_of(run, path, agent))
        except (ProtocolError, StreamBroken) as error:
            return self._give_notice(key, str(error))
        except MachineError as error:  # it ended, or its node is gone
            log.info("output on %s: %s", self._name(agent), error)
            self._drop(key)
            return False
        except Exception as error:  # what one node sends must keep no other from being heard
            log.exception("output on %s", self._name(agent))
            return self._give_notice(key, one_line(repr(error)))
        finally:
            self._count(agent)
        for run in ended:
            if run in self._kept:
                self._kept[run].ended.add(agent.address)
        return is_busy

    def _give_notice(self, key: tuple[str, str], why: str) -> bool:
        """Drop an agent that cannot be understood; another is started, but not forever."""
        log.warning("output on %s: %s", self._name(self._agents[key]), why)
        self._drop(key)
        self._bad.setdefault(key, []).append(why)
        self._due[key] = time.monotonic() + self._again_seconds
        return False

    def _count(self, agent: OutputAgent) -> None:
        with self._lock:
            self._received[agent.address] += agent.nbytes
        agent.nbytes = 0

    def _name(self, agent: OutputAgent) -> str:
        return agent.address or socket.gethostname()

    def _key_of(self, run: str, path: str, agent: OutputAgent) -> str:
        """Return the key of a node's file, and record which node it belongs to."""
        kept = self._kept.get(run)
        if kept is None:
            raise ProtocolError(f"it named run {run}, whose output has been sent")
        if len(kept.owners) > MOST_FILES or kept.names_nbytes > MOST_NAMES_NBYTES:
            most = f"{MOST_FILES:,} files, or {MOST_NAMES_NBYTES >> 20} MB of their names"
            raise ProtocolError(f"it named more than {most}, of run {run}")
        before = len(kept.owners)
        key = key_of(path, self._name(agent), kept.owners)
        kept.names_nbytes += len(key) if len(kept.owners) > before else 0
        return key

    def _top(self, destination: str, run: str) -> ContainedFolder:
        return ContainedFolder(Path(destination) / self._cluster, run)

    # -- the log and the points

    def _writer(self, kept: RunOutputs) -> str | None:
        """Return the node that adds the log to the run; None if it is written here."""
        if not is_bucket(kept.destination):
            return None
        sound = (a for a in kept.folders if not self._is_given_up(a, kept.destination))
        return next(sound, None)

    def _add_log(
        self, kept: RunOutputs, agents: Sequence[OutputAgent], store: Store, now: float
    ) -> None:
        """Add new output and points of the ranks periodically, and all of them at the end."""
        if (
            kept.is_log_sent
            or now < kept.due
            or (now - kept.logged < LOG_SECONDS and not kept.over)
        ):
            return
        writer = next((a for a in agents if a.address == self._writer(kept)), None)
        if writer is None and is_bucket(kept.destination):
            return
        kept.logged = now
        try:
            self._add_news(kept, writer, store)
        except OSError as error:
            kept.trouble = f"{error.filename} cannot be written ({error.strerror})"
            log.warning("%s", kept.trouble)
            kept.begin_log()
            kept.due = now + self._again_seconds

    def _add_news(self, kept: RunOutputs, writer: OutputAgent | None, store: Store) -> None:
        if not (kept.over or kept.sizes):
            self._add(kept, writer, LOG, "")
        while rows := store.reports.output(kept.run, kept.pieces, AT_ONCE):
            kept.pieces = rows[-1].sequence
            self._add(kept, writer, LOG, kept.text.feed((row.rank, row.text) for row in rows))
        if kept.over:
            self._add(kept, writer, LOG, kept.text.rest())
        while points := store.reports.points(kept.run, kept.points, AT_ONCE):
            kept.points = points[-1].sequence
            text = "".join(point_line(p.rank, p.iteration, p.time, p.name, p.value) for p in points)
            self._add(kept, writer, POINTS, text)
        kept.is_log_sent, kept.trouble = bool(kept.over), ""

    def _add(self, kept: RunOutputs, writer: OutputAgent | None, name: str, text: str) -> None:
        offset = kept.sizes.get(name, 0)
        if not text and offset:
            return
        data = text.encode(errors="replace")
        if writer is not None:
            for start in range(0, max(1, len(data)), PIECE_NBYTES):
                piece = data[start : start + PIECE_NBYTES]
                writer.call.post(LogAdded(kept.run, name, offset + start, piece))
        else:
            self._top(kept.destination, kept.run).write(name, offset, data)
        kept.sizes[name] = offset + len(data)

    # -- for a successor

    def _take_up(self) -> None:
        if self._path is None:
            return
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
            for run, (destination, folders) in json.loads(self._path.read_text()).items():
                if not is_run_id(run):
                    continue
                self._kept[run] = RunOutputs(run, destination, folders, over=time.monotonic())

    def _write_down(self) -> None:
        if self._path is None:
            return
        rows = {kept.run: [kept.destination, kept.folders] for kept in self._kept.values()}
        temporary = self._path.with_suffix(".new")
        with open(temporary, "w", encoding="utf-8", opener=owners_only) as file:
            json.dump(rows, file)
        os.replace(temporary, self._path)
