"""Carry batches and pulses from a rank to the supervisor, and commands back, from a thread.

The thread works while the main thread is busy, also while it is blocked in MPI.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import zmq

from workbench.core.report import (
    Acknowledge,
    AskPulse,
    Command,
    Hello,
    Interrupt,
    Pulse,
    StopAt,
    decode,
    encode,
)
from workbench.engine.contact import Contact, leave_for_good, patience
from workbench.engine.log import RunLog

# Rank 0 is what a person watches; the others' points may come a moment later.
FLUSH_SECONDS = 0.08
FLUSH_OTHERS_SECONDS = 0.24
PULSE_SECONDS = 1.0
IDLE_SECONDS = 0.5
RESEND_SECONDS = 2.0
MOST_UNSENT = 1_000
_BELL = "inproc://bell"


@dataclass(frozen=True)
class Address:
    """Where the supervisor listens.

    Args:
        endpoint: A ZeroMQ endpoint.
        server_key: Its CURVE public key, known only to those that may connect.
    """

    endpoint: str
    server_key: bytes


class Channel:
    """A rank's connection to the supervisor.

    Args:
        pulse: Says what the rank is doing in the run that is on.
        stop_at: Called with the boundary at which the run shall be left.
        interrupt: Called to free the main thread, from the channel's thread.
    """

    def __init__(
        self,
        address: Address,
        generation: int,
        rank: int,
        *,
        pulse: Callable[[str], Pulse],
        stop_at: Callable[[int], None],
        interrupt: Callable[[], None],
    ) -> None:
        self._address = address
        self._generation = generation
        self._rank = rank
        self._pulse = pulse
        self._stop_at = stop_at
        self._interrupt = interrupt
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
        """End the thread, and with it the connection."""
        self._closing.set()
        self.ring()
        self._thread.join(2)
        if not self._thread.is_alive():  # else its sockets are in use
            self._bell.close(linger=0)
            self._context.term()

    def carry(self, log: RunLog) -> None:
        """Take charge of a run's log; the first batch, though empty, says that it began."""
        self._logs[log.run] = log
        self.ring()

    def is_cancelled(self, run: str) -> bool:
        """Whether the supervisor called the run off before it began here."""
        return run in self._cancelled

    def ring(self) -> None:
        """Have the thread look now; for the main thread alone."""
        with contextlib.suppress(zmq.Again):
            self._bell.send(b"", zmq.DONTWAIT)

    def _work(self) -> None:
        with self._context.socket(zmq.DEALER) as socket, self._context.socket(zmq.PAIR) as bell:
            bell.connect(_BELL)
            contact = self._connect(socket)
            poller = zmq.Poller()
            poller.register(socket, zmq.POLLIN)
            poller.register(bell, zmq.POLLIN)
            socket.send(encode(Hello(self._generation, self._rank)))
            next_pulse = last_send = 0.0
            flush = FLUSH_OTHERS_SECONDS if self._rank else FLUSH_SECONDS
            while not self._closing.is_set():
                active = bool(self._logs)
                wait = flush if active else IDLE_SECONDS
                ready = dict(poller.poll(int(wait * 1000)))
                if bell in ready:
                    bell.recv()
                asked = socket in ready and self._obey(socket)
                now = time.monotonic()
                if contact is not None:
                    contact.look(now)
                for log in [*self._logs.values()]:
                    last_send = self._flush(socket, log, now, last_send)
                    if asked or (now >= next_pulse and not log.closed):
                        _post(socket, encode(self._pulse(log.run)))
                        next_pulse = now + PULSE_SECONDS
                    if log.settled:
                        del self._logs[log.run]
            if contact is not None:
                contact.close()

    def _connect(self, socket: zmq.Socket[bytes]) -> Contact | None:
        public, secret = zmq.curve_keypair()
        socket.curve_publickey, socket.curve_secretkey = public, secret
        socket.curve_serverkey = self._address.server_key
        socket.routing_id = f"{self._generation}.{self._rank}".encode()
        socket.linger = 0
        socket.sndhwm = MOST_UNSENT
        seconds = patience()
        contact = Contact(socket, seconds, leave_for_good) if seconds else None
        socket.connect(self._address.endpoint)
        return contact

    def _flush(self, socket: zmq.Socket[bytes], log: RunLog, now: float, last: float) -> float:
        line = log.take()
        if line is not None:
            _post(socket, line)
            return now
        # A supervisor that was away, or a message that was lost: send again what it lacks.
        if log.acknowledged < log.sequence and now - last > RESEND_SECONDS:
            for line in log.unacknowledged():
                _post(socket, line)
            return now
        return last

    def _obey(self, socket: zmq.Socket[bytes]) -> bool:
        """Carry out all commands that have come; true if one of them asks for a pulse."""
        asked = False
        while socket.poll(0):
            command = decode(socket.recv())
            asked = isinstance(command, AskPulse) or asked
            log = self._logs.get(getattr(command, "run", ""))
            if log is None and isinstance(command, Interrupt):
                self._cancelled.add(command.run)
            if log is not None:
                self._carry_out(socket, command, log)  # type: ignore[arg-type]  # commands only
        return asked

    def _carry_out(self, socket: zmq.Socket[bytes], command: Command, log: RunLog) -> None:
        if isinstance(command, Acknowledge):
            log.acknowledge(command.sequence)
            if command.resend:
                for line in log.unacknowledged():
                    _post(socket, line)
        elif log.ending is not None:
            return  # the rank has left, and may be in its next run already
        elif isinstance(command, StopAt):
            self._stop_at(command.boundary)
        elif isinstance(command, Interrupt):
            self._interrupt()


def _post(socket: zmq.Socket[bytes], line: bytes) -> None:
    # A full queue means that the supervisor is away; the log sends again what was not confirmed.
    with contextlib.suppress(zmq.Again):
        socket.send(line, zmq.DONTWAIT)
