"""The connection of a rank to the supervisor: sends batches and pulses, receives commands.

Its thread works while the main thread is busy, even if that is blocked in MPI. A rank that has been
disconnected for too long ends itself, with the MPI processes that started it.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil
import zmq
from msgspec.structs import replace

from workbench.core.node.forking import STUB_VARIABLE
from workbench.core.run.rank_protocol import (
    Acknowledge,
    AskPulse,
    Command,
    ContinueAs,
    Hello,
    Interrupt,
    Pulse,
    SaveSoon,
    StopAt,
    decode_command,
    encode,
)
from workbench.core.run_id import NO_RUN
from workbench.core.world.world import DAEMONS, WORLD_VARIABLE
from workbench.engine.reporting.run_log import RunLog
from workbench.errors import ProtocolError

# Users watch rank 0; the other ranks' points may come a moment later, with one of its own.
FLUSH_SECONDS = 0.08
FLUSH_OTHERS_SECONDS = 2 * FLUSH_SECONDS
PULSE_SECONDS = 1.0
EARLY = 0.05  # seconds: else every second pulse comes after its batch, and wakes the supervisor
IDLE_SECONDS = 0.5
TAKING_SECONDS = 0.05
MOST_UNSENT = 200
_BELL = "inproc://bell"
PATIENCE_VARIABLE = "WORKBENCH_PATIENCE"
_BEAT_MILLISECONDS = 5_000
_SILENCE_MILLISECONDS = 15_000


@dataclass(frozen=True)
class Address:
    """The supervisor's address.

    Args:
        endpoint: A ZeroMQ endpoint.
        server_key: Its CURVE public key; only ranks know it.
    """

    endpoint: str
    server_key: bytes


class Channel:
    """A rank's connection to the supervisor.

    Args:
        pulse: Returns the present activity of the rank in its run.
        stop_at: Called with the boundary at which the run must stop, and whether it is to be the
            end of an epoch from there on.
        interrupt: Called from the channel's thread to free the main thread.
        save: Called when a snapshot is wanted.
        open_edge: Called with the execution that the rank becomes one of.
        gather: Called in each cycle, to collect captured output.
        died: Called with its traceback if the thread fails: the rank cannot continue without it.
    """

    def __init__(
        self,
        address: Address,
        generation: int,
        rank: int,
        *,
        pulse: Callable[[str], Pulse],
        stop_at: Callable[[int, bool], None],
        interrupt: Callable[[], None],
        save: Callable[[], None] = lambda: None,
        open_edge: Callable[[str], None] = lambda execution: None,
        gather: Callable[[], None] = lambda: None,
        died: Callable[[str], None] = lambda trace: None,
    ) -> None:
        self._address = address
        self._generation = generation
        self._rank = rank
        self._pulse = pulse
        self._stop_at = stop_at
        self._interrupt = interrupt
        self._save = save
        self._open_edge = open_edge
        self._gather = gather
        self._died = died
        self._left: set[str] = set()
        self._placed: set[str] = set()
        self._logs: dict[str, RunLog] = {}
        self._cancelled: set[str] = set()
        self._closing = threading.Event()
        self._context = zmq.Context()
        self._bell: zmq.Socket[bytes] = self._context.socket(zmq.PAIR)
        self._bell.bind(_BELL)
        self._thread = threading.Thread(target=self._work, name="workbench-channel", daemon=True)

    def open(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread and the connection."""
        self._closing.set()
        self.ring()
        self._thread.join(2)
        if not self._thread.is_alive():  # else its sockets are in use
            self._bell.close(linger=0)
            self._context.term()

    def carry(self, log: RunLog) -> None:
        """Send a run's log; the first batch, though empty, reports that it began."""
        self._logs[log.run] = log
        self.ring()

    def is_cancelled(self, run: str) -> bool:
        """Return whether the supervisor cancelled the run before it began here."""
        return run in self._cancelled

    def ring(self) -> None:
        """Wake the thread; for the main thread alone."""
        with contextlib.suppress(zmq.Again):
            self._bell.send(b"", zmq.DONTWAIT)

    def _work(self) -> None:
        try:
            self._serve()
        except BaseException as error:  # noqa: BLE001  # the thread's outermost edge
            if not self._closing.is_set():
                self._died("".join(traceback.format_exception(error)))

    def _serve(self) -> None:
        with self._context.socket(zmq.DEALER) as socket, self._context.socket(zmq.PAIR) as bell:
            bell.connect(_BELL)
            contact = self._connect(socket)
            poller = zmq.Poller()
            poller.register(socket, zmq.POLLIN)
            poller.register(bell, zmq.POLLIN)
            _post(socket, encode(Hello(self._generation, self._rank)))
            next_pulse = 0.0
            while not self._closing.is_set():
                ready = dict(poller.poll(math.ceil(self._pause(time.monotonic()) * 1000)))
                if bell in ready:
                    bell.recv()
                asked = socket in ready and self._obey(socket)
                now = time.monotonic()
                is_reconnected = contact.look(now)
                with self._guard(*self._logs.values()):
                    self._gather()
                is_due = asked or now >= next_pulse - self._slack(now)
                next_pulse = now + PULSE_SECONDS if is_due else next_pulse
                for log in [*self._logs.values()]:
                    if is_reconnected:
                        log.outbox.resend()
                    with self._guard(log):
                        self._flush(socket, log, now)
                        self._send_pulse(socket, log, is_due=is_due)
                    if log.settled:
                        log.discard()
                        del self._logs[log.run]
                        self._left.discard(log.run)
                        self._placed.discard(log.run)
            contact.close()

    def _slack(self, now: float) -> float:
        """Return how much too early a pulse may be: with a batch, where these are as rare."""
        pauses = (log.pause(0.0, now) for log in self._logs.values())
        return EARLY if all(pause >= PULSE_SECONDS for pause in pauses) else 0.0

    def _pause(self, now: float) -> float:
        """Return the seconds until there may be something to send.

        They end at multiples of a period, so that the ranks of a machine send at the same moment,
        and wake the supervisor once: it needs the cores on which they train.
        """
        logs = [*self._logs.values()]
        if any(log.is_behind for log in logs):
            return 0.0
        prompt = FLUSH_OTHERS_SECONDS if self._rank else FLUSH_SECONDS
        period = min((log.pause(prompt, now) for log in logs), default=IDLE_SECONDS)
        return period - now % period

    @contextlib.contextmanager
    def _guard(self, *logs: RunLog) -> Iterator[None]:
        """Report an error with one batch in its run, and continue without the batch."""
        try:
            yield
        except zmq.ZMQError:
            raise
        except Exception as error:  # noqa: BLE001  # this thread also receives commands
            for log in logs:
                log.refuse(error)

    def _connect(self, socket: zmq.Socket[bytes]) -> SupervisorTimeout:
        public, secret = zmq.curve_keypair()
        socket.curve_publickey, socket.curve_secretkey = public, secret
        socket.curve_serverkey = self._address.server_key
        socket.routing_id = f"{self._generation}.{self._rank}".encode()
        socket.linger = 0
        socket.sndhwm = MOST_UNSENT
        contact = SupervisorTimeout(socket, patience() or math.inf, leave_for_good)
        socket.connect(self._address.endpoint)
        return contact

    def _flush(self, socket: zmq.Socket[bytes], log: RunLog, now: float) -> None:
        """Encode collected data, for a limited time; commands must be received meanwhile."""
        if log.is_due(now):
            log.looked = now
            while log.take() is not None and log.is_behind:
                if time.monotonic() - now > TAKING_SECONDS:
                    break
        log.outbox.resend_after_silence(now)
        while (line := log.outbox.due()) is not None and _post(socket, line):
            log.outbox.note_sent(now)

    def _send_pulse(self, socket: zmq.Socket[bytes], log: RunLog, *, is_due: bool) -> None:
        """Send a pulse if one is due, or when the rank begins or leaves the run."""
        has_left = log.ending is not None
        leaves_now = has_left and log.run not in self._left and not log.closed
        if is_due or leaves_now or log.run not in self._placed:
            self._placed.add(log.run)
            _post(socket, encode(replace(self._pulse(log.run), left=has_left)))
        if leaves_now:
            self._left.add(log.run)

    def _obey(self, socket: zmq.Socket[bytes]) -> bool:
        """Execute the commands that have come; true if one of them requests a pulse."""
        asked = False
        while socket.poll(0):
            try:
                command = decode_command(socket.recv())
            except ProtocolError:
                continue  # from a supervisor of another version
            asked = isinstance(command, AskPulse) or asked
            log = self._logs.get(command.run)
            if log is None and isinstance(command, Interrupt):
                self._cancelled.add(command.run)
            elif log is None and isinstance(command, AskPulse):
                self._answer_idle(socket, command.run)
            if log is not None:
                self._carry_out(socket, command, log)
        return asked

    def _answer_idle(self, socket: zmq.Socket[bytes], run: str) -> None:
        """Say that this rank could begin a run, but has not; or what it executes beside runs."""
        pulse = self._pulse(run)
        if pulse.idle or run == NO_RUN:
            _post(socket, encode(pulse))

    def _carry_out(self, socket: zmq.Socket[bytes], command: Command, log: RunLog) -> None:
        if isinstance(command, Acknowledge):
            log.acknowledge(command.sequence)
            log.is_watched = command.watched
            if command.resend:
                log.outbox.resend()
        elif log.ending is not None:
            return  # the rank has left, and may be in its next run already
        elif isinstance(command, StopAt):
            self._stop_at(command.boundary, command.epoch)
        elif isinstance(command, SaveSoon):
            self._save()
        elif isinstance(command, Interrupt):
            self._interrupt()
        elif isinstance(command, ContinueAs):
            self._open_edge(command.into)


def _post(socket: zmq.Socket[bytes], line: bytes) -> bool:
    # A full queue means that the supervisor is absent; the log resends unacknowledged batches.
    try:
        socket.send(line, zmq.DONTWAIT)
    except zmq.Again:
        return False
    return True


class SupervisorTimeout:
    """Watches a connection for the return of an absent supervisor.

    Args:
        patience: Seconds that it may be absent; infinite for no limit.
        give_up: Called once it was absent for longer.
    """

    def __init__(
        self, socket: zmq.Socket[bytes], patience: float, give_up: Callable[[], None]
    ) -> None:
        if math.isfinite(patience):
            # A tunnel accepts bytes long after its other end has closed: only an answer counts.
            socket.heartbeat_ivl = _BEAT_MILLISECONDS
            socket.heartbeat_timeout = _SILENCE_MILLISECONDS
        self._socket = socket
        self._events = socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        )
        self._patience = patience
        self._give_up = give_up
        self._away_since: float | None = time.monotonic()

    def look(self, now: float) -> bool:
        """Read the connection's events; true if it was made since the last call."""
        is_reconnected = False
        while self._events.poll(0):
            event = int.from_bytes(self._events.recv_multipart()[0][:2], "little")
            connected = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            if connected:
                self._away_since, is_reconnected = None, True
            elif self._away_since is None:
                self._away_since = now
        if self._away_since is not None and now - self._away_since > self._patience:
            self._give_up()
        return is_reconnected

    def close(self) -> None:
        """Stop watching; call it before the connection's own socket is closed."""
        self._socket.disable_monitor()
        self._events.close(linger=0)


def patience() -> float:
    """Return the seconds that this rank waits for its supervisor; 0 for no limit."""
    return float(os.environ.get(PATIENCE_VARIABLE) or 0)


def leave_for_good() -> None:
    """End the MPI processes above this one, the processes that ranks started, and this one."""
    if mark := os.environ.get(WORLD_VARIABLE):
        subprocess.Popen(
            [sys.executable, "-m", "workbench.cluster.leftovers", mark],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    with contextlib.suppress(psutil.Error):
        stub = os.environ.get(STUB_VARIABLE, "").partition(" ")[0]  # mpiexec's, of a forked rank
        for process in psutil.Process(int(stub) if stub else None).parents():
            if process.name() in DAEMONS:
                process.kill()
    os.kill(os.getpid(), signal.SIGKILL)
