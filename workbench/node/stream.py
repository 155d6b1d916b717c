"""One side of the stream between a supervisor and a node's agent: many calls over one pipe.

Both sides use this module; ``core.node.frames`` says what travels. Bytes are taken from whichever
thread reads them, and no thread polls: a call wakes the one that waits for it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from workbench.core.node.agent_protocol import AgentMessage, AgentRequest, encode_message
from workbench.core.node.frames import CREDIT_BODY, Frame, FrameKind, FrameReader, encode_frame
from workbench.core.quote import one_line
from workbench.errors import MachineError, ProtocolError, WorkbenchError

log = logging.getLogger("workbench.supervisor")

# Bytes on their way that the other side has not taken yet.
WINDOW_NBYTES = 4 << 20
# The other side gets new credit after so many; far less than a window.
CREDIT_NBYTES = 64 << 10
# Small messages travel together.
TOGETHER_NBYTES = 256 << 10
# What a message without bytes counts for.
MESSAGE_NBYTES = 64
# What one call keeps unread; the other side may not be trusted.
MOST_UNREAD_NBYTES = 16 << 20
FAILURE_NBYTES = 4_000


class Cancelled(Exception):
    """The other side needs no answer to this call any more."""


class StreamLost(MachineError):
    """The other side is gone; the call has no answer."""


class StreamBroken(StreamLost):
    """The other side sent what is not a message, so it is heard no longer."""


class StreamSilent(StreamLost):
    """The other side did not answer in time."""


class Call:
    """One request and all that belongs to it; made by ``Stream``.

    Attributes:
        window: How many bytes may be on their way.
        taken: How many bytes the other side has taken.
        reply: The other side's reply, once there is one; it may be none even then.
        on_news: Called after something has come, on the thread that reads the stream.
    """

    def __init__(self, stream: Stream, number: int) -> None:
        self.window = WINDOW_NBYTES
        self.taken = 0
        self.reply: Any = None
        self.on_news: Callable[[], None] = lambda: None
        self._stream, self._number = stream, number
        self._changed = threading.Condition()
        self._unread: deque[tuple[Any, int]] = deque()
        self._unread_nbytes = 0
        self._sent = self._received = self._credited = 0
        self._error: Exception | None = None
        self._is_over = False

    def __repr__(self) -> str:
        return f"<Call {self._number}: {'over' if self._is_over else 'open'}>"

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return self._is_over

    @property
    def failure(self) -> str:
        """Why the call failed; empty unless it did."""
        return str(self._error) if self._error is not None else ""

    def post(self, message: AgentMessage) -> None:
        """Send a message at once; it waits for no credit."""
        self._stream.send(FrameKind.MESSAGE, self._number, encode_message(message))

    def send(self, message: AgentMessage, seconds: float | None = None) -> None:
        """Send bytes, as soon as the other side has taken enough of those before.

        Small ones are kept back until there are more, or ``flush`` is called.

        Raises:
            Cancelled: The other side has cancelled the call.
            MachineError: The call has failed, or waited longer than ``seconds``.
        """
        body = encode_message(message)
        if not self._has_room(len(body)):
            self.flush()
            self._wait(lambda: self._has_room(len(body)), seconds)
        self._check()
        self._sent += len(body)
        self._stream.send(FrameKind.BYTES, self._number, body, is_last=False)

    def flush(self) -> None:
        """Send what ``send`` has kept back."""
        self._stream.flush()

    def take(self) -> list[Any]:
        """Return the messages that have come, without waiting.

        Raises:
            Cancelled: The other side has cancelled the call.
            MachineError: The call has failed, and all that came before is taken.
        """
        with self._changed:
            found, nbytes = [one for one, _ in self._unread], sum(n for _, n in self._unread)
            self._unread.clear()
            self._unread_nbytes = 0
        self._credit(nbytes)
        if not found:
            self._check()
        return found

    def receive(self, seconds: float | None = None) -> list[Any]:
        """Wait for messages and return them; none once the other side has replied.

        Raises:
            Cancelled: The other side has cancelled the call.
            MachineError: The call has failed, or nothing came within ``seconds``.
        """
        self._wait(lambda: bool(self._unread), seconds)
        return self.take()

    def messages(self, seconds: float | None = None) -> Iterator[Any]:
        """Yield the messages as they come, until the other side has replied.

        Raises:
            Cancelled: The other side has cancelled the call.
            MachineError: The call has failed, or nothing came within ``seconds``.
        """
        while True:
            self._wait(lambda: bool(self._unread), seconds)
            with self._changed:
                if not self._unread:
                    break
                message, nbytes = self._unread.popleft()
                self._unread_nbytes -= nbytes or MESSAGE_NBYTES
            yield message
            self._credit(nbytes)  # only now is it kept: what was not would come again after a break
        self._check()

    def wait(self, seconds: float) -> bool:
        """Wait until something has come; return false if nothing did."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._unread) or self._is_over, seconds)

    def result(self, seconds: float | None = None) -> Any:
        """Wait for the reply, and return it; messages are dropped.

        Raises:
            MachineError: The call has failed, or took longer than ``seconds``.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while not self._is_over:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            self.receive(left)
        if self._error is not None:
            raise self._error
        return self.reply

    def cancel(self) -> None:
        """Tell the other side to stop, and wait no longer for it; from any thread."""
        if not self._is_over:
            self._stream.send(FrameKind.CANCEL, self._number)
            self.end(Cancelled())

    # -- used by the stream

    def hear(self, message: Any, nbytes: int) -> None:
        """Keep a message that has come.

        Args:
            nbytes: How much of the window it takes; 0 for one that needs no credit.
        """
        with self._changed:
            self._unread.append((message, nbytes))
            self._unread_nbytes += nbytes or MESSAGE_NBYTES
            is_too_much = self._unread_nbytes > MOST_UNREAD_NBYTES
            self._changed.notify_all()
        if is_too_much:
            raise ProtocolError(f"it sent more than {MOST_UNREAD_NBYTES >> 20} MB before it waited")
        self.on_news()

    def note_credit(self, taken: int) -> None:
        """Note how much the other side has taken."""
        with self._changed:
            self.taken = max(self.taken, min(taken, self._sent))
            self._changed.notify_all()
        self.on_news()

    def end(self, error: Exception | None = None, reply: Any = None) -> None:
        """Note that nothing more comes."""
        with self._changed:
            if self._is_over:
                return
            self._is_over, self._error, self.reply = True, error, reply
            if isinstance(error, Cancelled):
                self._unread.clear()  # it is wanted no longer
            self._changed.notify_all()
        self._stream.forget(self._number)
        self.on_news()

    # -- inside

    def _has_room(self, nbytes: int) -> bool:
        # A message may be larger than a small window, and the last credit may be due later.
        return self._sent - self.taken + nbytes <= max(self.window, nbytes + CREDIT_NBYTES)

    def _check(self) -> None:
        if self._is_over and not self._unread and self._error is not None:
            raise self._error

    def _wait(self, is_due: Callable[[], bool], seconds: float | None) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: is_due() or self._is_over, seconds):
                raise StreamSilent(f"it did not answer within {seconds:.2g} s")

    def _credit(self, nbytes: int) -> None:
        self._received += nbytes
        if self._received - self._credited >= CREDIT_NBYTES and not self._is_over:
            self._credited = self._received
            body = CREDIT_BODY.pack(self._received)
            self._stream.send(FrameKind.CREDIT, self._number, body)


class Bell:
    """A descriptor that can be read once a call has news, for waiting on several things."""

    def __init__(self, call: Call) -> None:
        self.descriptor, self._end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._call = call
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> Bell:
        self._call.on_news = self._ring
        self._ring()  # something may have come before
        return self

    def __exit__(self, *_: object) -> None:
        self._call.on_news = lambda: None
        with self._lock:
            self._is_closed = True
            os.close(self.descriptor)
            os.close(self._end)

    def take(self) -> list[Any]:
        """Return the call's news, see ``Call.take``, and be silent until there are more."""
        os.read(self.descriptor, 1 << 12)
        return self._call.take()

    def _ring(self) -> None:
        with self._lock, contextlib.suppress(BlockingIOError):  # it rings already
            if not self._is_closed:
                os.write(self._end, b".")


Serve = Callable[[Call, Any], Any]
"""Answers a request on a thread of its own: returns the reply, or raises an error of ours."""


class Stream:
    """One side of the stream.

    Args:
        write: Writes bytes to the other side; on any thread, one at a time.
        decode: Decodes the messages of the other side.
        greeting: What the other side writes first.
        serve: Returns what answers a request; None on the side that only asks.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        decode: Callable[[bytes], Any],
        greeting: bytes = b"",
        serve: Callable[[bytes], tuple[Any, Serve]] | None = None,
    ) -> None:
        self._write, self._decode, self._serve = write, decode, serve
        self._reader = FrameReader(greeting)
        # The thread that reads takes only the first: it must never wait for one that writes.
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._kept_back = bytearray()
        self._calls: dict[int, Call] = {}
        self._number = 0
        self._lost: StreamLost | None = None
        self._threads: set[threading.Thread] = set()

    def __repr__(self) -> str:
        return f"<Stream: {len(self._calls)} calls>"

    @property
    def lost(self) -> str:
        """Why nothing more comes; empty while it is open."""
        return str(self._lost) if self._lost is not None else ""

    def call(self, request: AgentRequest) -> Call:
        """Open a call.

        Raises:
            StreamLost: The other side is gone.
        """
        with self._lock:
            if self._lost is not None:
                raise self._lost
            self._number += 1
            call = self._calls[self._number] = Call(self, self._number)
            number = self._number
        self.send(FrameKind.REQUEST, number, encode_message(request))
        return call

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the other side.

        Raises:
            ProtocolError: They are not messages; nothing that comes later can be understood.
        """
        for frame in self._reader.feed(data):
            self._take(frame)

    def close(self, lost: StreamLost) -> None:
        """End all calls: the other side is gone, or cannot be understood."""
        with self._lock:
            self._lost = self._lost or lost
            calls = [*self._calls.values()]
        for call in calls:
            call.end(Cancelled() if self._serve else self._lost)

    def join(self, seconds: float) -> None:
        """Wait for the answers that are being given, at most for a while."""
        deadline = time.monotonic() + seconds
        for thread in [*self._threads]:
            thread.join(max(0.0, deadline - time.monotonic()))

    # -- used by calls

    def send(self, kind: FrameKind, call: int, body: bytes = b"", *, is_last: bool = True) -> None:
        """Send a frame, at once if it is the last of several."""
        with self._write_lock:
            self._kept_back += encode_frame(kind, call, body)
            if is_last or len(self._kept_back) >= TOGETHER_NBYTES:
                self._write_out()

    def flush(self) -> None:
        """Send what was kept back."""
        with self._write_lock:
            self._write_out()

    def forget(self, call: int) -> None:
        """Drop a call that is over."""
        with self._lock:
            self._calls.pop(call, None)

    # -- inside

    def _write_out(self) -> None:
        if self._kept_back:
            data, self._kept_back = bytes(self._kept_back), bytearray()
            self._write(data)

    def _take(self, frame: Frame) -> None:
        if frame.kind is FrameKind.REQUEST:
            self._begin(frame)
            return
        call = self._calls.get(frame.call)
        if call is None:
            return  # it was cancelled, or has failed
        match frame.kind:
            case FrameKind.MESSAGE:
                call.hear(self._decode(frame.body), 0)
            case FrameKind.BYTES:
                call.hear(self._decode(frame.body), len(frame.body))
            case FrameKind.CREDIT:
                if len(frame.body) != CREDIT_BODY.size:
                    raise ProtocolError("it sent a credit that is not a number")
                call.note_credit(*CREDIT_BODY.unpack(frame.body))
            case FrameKind.REPLY:
                call.end(reply=self._decode(frame.body) if frame.body else None)
            case FrameKind.FAILURE:
                call.end(MachineError(one_line(frame.body.decode(errors="replace")).rstrip(".")))
            case FrameKind.CANCEL:
                call.end(Cancelled())

    # -- on the side that answers

    def _begin(self, frame: Frame) -> None:
        if self._serve is None:
            raise ProtocolError("it sent a request, which only this machine may")
        call = Call(self, frame.call)
        try:
            request, serve = self._serve(frame.body)
        except WorkbenchError as error:
            request, serve = None, _refusal(error)
        with self._lock:
            self._calls[frame.call] = call
        name = type(request).__name__
        thread = threading.Thread(
            target=self._answer, args=(call, frame.call, request, serve), name=name, daemon=True
        )
        self._threads.add(thread)
        thread.start()

    def _answer(self, call: Call, number: int, request: Any, serve: Serve) -> None:
        kind, body = FrameKind.REPLY, b""
        try:
            reply = serve(call, request)
            body = encode_message(reply) if reply is not None else b""
        except Cancelled:
            pass  # then nothing more is sent: the call is over
        except WorkbenchError as error:
            kind, body = FrameKind.FAILURE, _failure(str(error))
        except OSError as error:
            where = error.filename or type(request).__name__
            kind, body = FrameKind.FAILURE, _failure(f"{where}: {error.strerror}")
        except Exception as error:  # one request must not end the others
            log.exception("%s failed", type(request).__name__)
            kind, body = FrameKind.FAILURE, _failure(repr(error))
        if not call.is_over:
            with contextlib.suppress(OSError):
                self.send(kind, number, body)
            call.end()
        self._threads.discard(threading.current_thread())


def _refusal(error: WorkbenchError) -> Serve:
    def refuse(call: Call, request: Any) -> None:
        raise error

    return refuse


def _failure(why: str) -> bytes:
    return why.encode(errors="replace")[:FAILURE_NBYTES]
