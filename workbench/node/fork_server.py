"""Import what every rank of this node needs, once, and fork the ranks that mpiexec starts.

Run as ``python -m workbench.node.fork_server FOLDER NAME…``: a name is a module, or
``module:function`` to call. It has one thread, starts neither MPI nor CUDA, and ends when its
keeper is gone and no rank is left.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import resource
import runpy
import select
import signal
import socket
import struct
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from workbench.core.node.forking import (
    END,
    KEEP,
    PAD_VARIABLE,
    RANK_ENDED,
    SOCKET,
    ForkContext,
    RankRequest,
    refusal,
)
from workbench.node import fork_stub
from workbench.node.fork_adoption import adopt
from workbench.node.fork_stub import ENDED, FORKED, RANK, REFUSED
from workbench.node.preloading import LateImports, PreloadStamp, hazard, preload

REQUEST_SECONDS = 2.0
KEEPER_SECONDS = 5.0
IDLE_SECONDS = 1.0
TRIAL = 0  # in place of a rank's process id
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True)
class Program:
    """The module that a forked rank has to run."""

    arguments: tuple[str, ...]


class ForkServer:
    """Answers the stubs of one node.

    Args:
        folder: Of its socket; only the owner may enter it.
        listener: The socket, which listens already.
        environment: Of this process, before it imported anything for ranks.
        later: What it imports once it has forked a rank and nothing asks it.
    """

    def __init__(
        self,
        folder: Path,
        listener: socket.socket,
        environment: Mapping[str, str],
        later: Sequence[str] = (),
    ) -> None:
        self._path = folder / SOCKET
        self._listener: socket.socket | None = listener
        self._stamp = PreloadStamp()
        self._environment = environment
        self._late = LateImports(later, self._close_own)
        self._surroundings = _surroundings()
        self._keepers: dict[int, socket.socket] = {}
        self._stubs: dict[int, socket.socket] = {}  # by the rank's process id
        self._handles: dict[int, int] = {}  # likewise: pidfds
        self._began = time.monotonic()
        self._was_kept = self._has_forked = False
        self._ending = False
        self._poll = select.poll()
        self._turns: dict[int, Callable[[], Program | None]] = {}
        self._listen_to(listener.fileno(), self._answer)

    def serve(self) -> Program | None:
        """Work until the end; in a forked rank, return its program."""
        _freeze()
        while not self._is_over():
            events = self._poll.poll(IDLE_SECONDS * 1000)
            if not events and self._has_forked and not self._ending:
                self._late.look(self._stubs)
                self._import_later()
            for number, _ in events:
                turn = self._turns.get(number)
                program = turn() if turn else None
                if program is not None:
                    return program
        self._retire()
        self._late.cancel()
        return None

    def _is_over(self) -> bool:
        if self._stubs or (self._keepers and not self._ending):
            return False
        return self._ending or self._was_kept or time.monotonic() - self._began > KEEPER_SECONDS

    def _listen_to(self, number: int, turn: Callable[[], Program | None]) -> None:
        self._turns[number] = turn
        self._poll.register(number, select.POLLIN)

    def _leave(self, number: int) -> None:
        if self._turns.pop(number, None) is not None:
            self._poll.unregister(number)

    def _import_later(self) -> None:
        """Begin to import what waits for that."""
        trial = self._late.begin()
        if trial < 0:
            return

        def end() -> None:
            self._leave(trial)
            os.close(self._handles.pop(TRIAL))
            if self._ending:
                return self._late.cancel()
            if why := self._late.end():
                self._tell(why)
            self._stamp.extend()
            _freeze()
            return self._import_later()

        self._handles[TRIAL] = trial
        self._listen_to(trial, end)

    def _retire(self) -> None:
        """Take no more requests, so that another fork server can take this one's place."""
        if self._listener is not None:
            self._leave(self._listener.fileno())
            self._listener.close()
            self._listener = None
            self._path.unlink(missing_ok=True)

    def _answer(self) -> Program | None:
        if self._listener is None:
            return None
        connection, _ = self._listener.accept()
        connection.settimeout(REQUEST_SECONDS)
        files: list[int] = []
        try:
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            stub, user, _ = _CREDENTIALS.unpack(peer)
            if user != os.geteuid():
                raise OSError(f"user {user} may not ask")
            kind, files, _, _ = socket.recv_fds(connection, 1, fork_stub.MOST_DESCRIPTORS)
            if kind == KEEP:
                self._be_kept_by(connection)
            elif kind == RANK:
                return self._fork(connection, stub, files)
            else:
                connection.close()
        except (OSError, ValueError) as error:
            self._tell(f"A request failed: {error}.")
            connection.close()
        finally:
            for file in files:
                os.close(file)
        return None

    def _be_kept_by(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        number = connection.fileno()
        self._keepers[number] = connection
        self._was_kept = True

        def hear() -> None:
            try:
                data = connection.recv(64)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if END in data:
                self._ending = True
            if not data:
                self._leave(number)
                del self._keepers[number]
                connection.close()

        self._listen_to(number, hear)

    def _fork(self, connection: socket.socket, stub: int, files: list[int]) -> Program | None:
        request = _read_request(connection)
        if len(files) != len(request.descriptors):
            raise ValueError("not all of its files have come")
        if why := self._why_not(request):
            self._tell(f"Rank of process {stub} starts by itself: {why}.")
            connection.sendall(REFUSED)
            connection.close()
            return None
        rank = os.fork()
        if rank == 0:
            return self._become(request, stub, files, connection)
        self._has_forked = True
        handle = os.pidfd_open(rank)
        self._stubs[rank], self._handles[rank] = connection, handle
        connection.setblocking(False)

        def reap() -> None:
            _, status = os.waitpid(rank, 0)
            self._leave(handle)
            os.close(self._handles.pop(rank))
            self._report(f"{RANK_ENDED} {rank} {status}")
            self._let_go(rank, ENDED + b"%d" % status)

        def stub_is_gone() -> None:
            with contextlib.suppress(BlockingIOError, ConnectionError, ProcessLookupError):
                # It sends nothing, so this is its end: it was killed, or starts the rank itself.
                if not connection.recv(1):
                    self._leave(connection.fileno())
                    signal.pidfd_send_signal(handle, signal.SIGKILL)

        self._listen_to(handle, reap)
        self._listen_to(connection.fileno(), stub_is_gone)
        return None

    def _let_go(self, rank: int, last: bytes) -> None:
        connection = self._stubs.pop(rank)
        self._leave(connection.fileno())
        try:
            connection.sendall(last)
        except OSError:
            pass  # the stub is gone as well
        finally:
            connection.close()

    def _why_not(self, request: RankRequest) -> str:
        if changed := self._stamp.change():
            self._retire()
            self._ending = True
            return f"{changed} was changed since it was imported"
        return hazard() or refusal(
            request,
            sys.executable,
            self._environment,
            self._surroundings,
            is_privileged=os.geteuid() == 0,
        )

    def _become(
        self, request: RankRequest, stub: int, files: list[int], connection: socket.socket
    ) -> Program:
        """Adopt all that the stub has; report to it whether that succeeded."""
        answer = connection.detach()
        self._close_own()
        try:
            answer = adopt(request, self._find_added(), stub, files, answer)
            files.clear()  # they are closed
            own = os.pidfd_open(os.getpid())
            with socket.socket(fileno=answer) as open_connection:
                socket.send_fds(open_connection, [FORKED], [own])
            os.close(own)
        except Exception:  # noqa: BLE001  # the outermost edge of a process that is no rank yet
            traceback.print_exc()
            with contextlib.suppress(OSError):
                os.write(answer, REFUSED)
            os._exit(1)
        return Program(request.arguments)

    def _find_added(self) -> dict[str, str]:
        """Return the variables that imports have set."""
        return {
            name: value
            for name, value in os.environ.items()
            if name not in self._environment and not name.startswith(PAD_VARIABLE)
        }

    def _close_own(self) -> None:
        """Close what a rank must not have, so that no object closes such a number again."""
        for one in filter(None, [self._listener, *self._keepers.values(), *self._stubs.values()]):
            one.close()
        for handle in self._handles.values():
            os.close(handle)

    def _tell(self, sentence: str) -> None:
        """Tell all keepers, and the log."""
        print(sentence, file=sys.stderr, flush=True)
        self._report(sentence)

    def _report(self, line: str) -> None:
        for connection in self._keepers.values():
            with contextlib.suppress(OSError):  # its end is noticed by reading
                connection.sendall(line.encode(errors="replace") + b"\n")


def _freeze() -> None:
    """Have collections in the ranks leave shared memory alone."""
    gc.collect()
    gc.freeze()


def _surroundings() -> ForkContext:
    return ForkContext(
        fork_stub.identity(),
        fork_stub.control_groups(),
        os.getpriority(os.PRIO_PROCESS, 0),
        _hard([hard for _, hard in fork_stub.all_limits()]),
    )


def _hard(limits: Sequence[int]) -> tuple[float, ...]:
    return tuple(float("inf") if one == resource.RLIM_INFINITY else float(one) for one in limits)


def _read_request(connection: socket.socket) -> RankRequest:
    """Return what a stub asks for.

    Raises:
        OSError: It did not come.
        ValueError: It is invalid.
    """
    size = int.from_bytes(_read(connection, 4), "big")
    if size > fork_stub.MOST_NBYTES:
        raise ValueError(f"it has {size} bytes")
    command, variables, folder, identity, groups, *lines = fork_stub.unpack(_read(connection, size))
    (parent, nice, umask, oom), pairs, cores, ignored, blocked, descriptors = (
        tuple(map(int, line.split())) for line in lines
    )
    limits = tuple(zip(pairs[::2], pairs[1::2], strict=True))
    environment = dict(os.fsdecode(one).partition("=")[::2] for one in variables.split(b"\0"))
    return RankRequest(
        tuple(os.fsdecode(word) for word in command.split(b"\0")),
        environment,
        ForkContext(identity.decode(), groups.decode(), nice, _hard([h for _, h in limits])),
        os.fsdecode(folder),
        umask,
        limits,
        cores,
        oom,
        ignored,
        blocked,
        descriptors,
        parent,
    )


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise OSError("it ended within its request")
        data += piece
    return bytes(data)


def _begin_again(
    options: argparse.Namespace, late: tuple[str, str], listener: socket.socket | None
) -> NoReturn:
    """Start over without a module after whose import it is not safe to fork."""
    print(f"Each rank imports {late[0]} itself: {late[1]}.", file=sys.stderr, flush=True)
    names = [name for name in options.names if name != late[0]]
    command = [sys.executable, "-m", "workbench.node.fork_server", str(options.folder), *names]
    command += ["--pad", options.pad]
    for one in options.later:
        command += ["--later", one]
    if listener is not None:
        listener.set_inheritable(True)
        command += ["--listener", str(listener.fileno())]
    for one in [*options.late, f"{late[0]}: {late[1]}"]:
        command += ["--late", one]
    os.execv(sys.executable, command + ["--check"] * options.check)


def main() -> None:
    """Serve, or run the program of the rank that this process became."""
    parser = argparse.ArgumentParser(prog="python -m workbench.node.fork_server")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--later", action="append", default=[], help="imported while it is idle")
    parser.add_argument("--late", action="append", default=[], help="imported by each rank")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--listener", type=int, help="descriptor of the socket")
    what.add_argument("--check", action="store_true", help="only say what is imported")
    parser.add_argument("--pad", default="", help="fills the memory for the command lines of ranks")
    options = parser.parse_args()
    listener = None
    if not options.check:
        listener = socket.socket(fileno=options.listener)
        listener.set_inheritable(False)
    environment = {n: v for n, v in os.environ.items() if not n.startswith(PAD_VARIABLE)}
    late = preload(options.names)
    if late[0]:
        _begin_again(options, late, listener)
    if listener is None:
        print(json.dumps({"modules": len(sys.modules), "late": options.late}))
        return
    program = ForkServer(options.folder, listener, environment, options.later).serve()
    if program is not None:
        _run(program)


def _run(program: Program) -> None:
    _, _, module, *rest = program.arguments
    sys.argv = [module, *rest]
    # It was imported for it; on a rank that is lost, the warning would be its last words.
    warnings.filterwarnings("ignore", ".* found in sys.modules ", RuntimeWarning, "runpy")
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
