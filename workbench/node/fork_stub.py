"""Stand for a rank that the node's fork server forks: ``python -I -S fork_stub.py SOCKET COMMAND``.

mpiexec starts it. It hands its environment and its open files over, passes signals on, and ends as
the rank ends. Where no rank is forked, it becomes the command itself. It imports nothing large.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself would double the start
    from collections.abc import Iterable

ANSWER_SECONDS = 30.0
LIMITS = 16  # <asm-generic/resource.h>
RANK = b"R"
FORKED, REFUSED, ENDED = b"F", b"N", b"E"
MOST_DESCRIPTORS = 200
MOST_NBYTES = 1 << 22
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


def connect(path: str) -> socket.socket:
    """Connect to a fork server, however long the path of its socket is."""
    folder, name = os.path.split(path)
    directory = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        found = socket.socket(socket.AF_UNIX)
        try:
            found.connect(f"/proc/self/fd/{directory}/{name}")
        except OSError:
            found.close()
            raise
    finally:
        os.close(directory)
    return found


def pack(fields: list[bytes]) -> bytes:
    """Return fields as one message, with its length before it."""
    body = b"".join(len(one).to_bytes(4, "big") + one for one in fields)
    return len(body).to_bytes(4, "big") + body


def unpack(body: bytes) -> list[bytes]:
    """Return the fields of a message without its length."""
    fields = []
    while body:
        size = int.from_bytes(body[:4], "big")
        fields.append(body[4 : 4 + size])
        body = body[4 + size :]
    return fields


def identity() -> str:
    """Return this process's users, groups and namespaces."""
    spaces = [os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES]
    return repr([os.getresuid(), os.getresgid(), sorted(os.getgroups()), spaces])


def control_groups() -> str:
    """Return this process's control groups; empty where the kernel has none."""
    try:
        with open("/proc/self/cgroup", encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def all_limits() -> list[tuple[int, int]]:
    """Return every resource limit of this process."""
    return [resource.getrlimit(number) for number in range(LIMITS)]


def open_files() -> list[int]:
    """Return the open files that a program started from here would have."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.get_inheritable(int(name)):
                found.append(int(name))
        except OSError:
            continue
    return sorted(found)


def own_request(command: list[str]) -> list[bytes]:
    """Return the fields that describe this process."""
    mask = os.umask(0)
    os.umask(mask)
    with open("/proc/self/oom_score_adj", encoding="ascii") as file:
        oom = file.read().strip()
    numbers = [os.getppid(), os.getpriority(os.PRIO_PROCESS, 0), mask, int(oom)]
    return [
        b"\0".join(os.fsencode(word) for word in command),
        b"\0".join(name + b"=" + value for name, value in os.environb.items()),
        os.fsencode(os.getcwd()),
        identity().encode(),
        control_groups().encode(),
        _line(numbers),
        _line(value for pair in all_limits() for value in pair),
        _line(sorted(os.sched_getaffinity(0))),
        _line(n for n in signal.valid_signals() if _is_ignored(n)),
        _line(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        _line(open_files()),
    ]


def _line(numbers: Iterable[int]) -> bytes:
    return b" ".join(b"%d" % number for number in numbers)


def _is_ignored(number: int) -> bool:
    # Python itself has these two ignored.
    return number not in (signal.SIGPIPE, signal.SIGXFSZ) and (
        signal.getsignal(number) is signal.SIG_IGN
    )


def main() -> None:
    """Have the rank forked, or become it."""
    path, *command = sys.argv[1:]
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        server = connect(path)
        server.settimeout(ANSWER_SECONDS)
        fields = own_request(command)
        files = [int(number) for number in fields[-1].split()]
        if len(files) > MOST_DESCRIPTORS:
            raise OSError
        # The rank may begin before signals can be passed on to it; they wait until then.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        socket.send_fds(server, [RANK], files)
        server.sendall(pack(fields))
        answer, received, _, _ = socket.recv_fds(server, 1, 1)
    except (OSError, ValueError):
        answer, received = b"", []
    if answer != FORKED or not received:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.execv(command[0], command)
    _stand_for(received[0], server, files)


def _stand_for(rank: int, server: socket.socket, files: list[int]) -> None:
    """Pass signals on to the rank until it ends, then end as it did.

    Args:
        rank: A pidfd.
    """

    def pass_on(number: int, _: object) -> None:
        with contextlib.suppress(OSError):  # it has ended
            signal.pidfd_send_signal(rank, number)

    for one in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        with contextlib.suppress(OSError):  # of the C library's own
            signal.signal(one, pass_on)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # MPICH's proxy waits for the end of a socket, which only the rank may hold open.
    for number in files:
        if number > 2:
            os.close(number)
    server.settimeout(None)
    try:
        answer = server.recv(64)
    except OSError:
        answer = b""
    if answer[:1] != ENDED:
        _wait(rank)
        os.write(2, b"The fork server has ended, so the exit status of its rank is unknown.\n")
        os._exit(1)
    _end_as(int(answer[1:]))


def _wait(rank: int) -> None:
    import select

    poll = select.poll()
    poll.register(rank, select.POLLIN)
    poll.poll()


def _end_as(status: int) -> None:
    if not os.WIFSIGNALED(status):
        os._exit(os.waitstatus_to_exitcode(status))
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


if __name__ == "__main__":
    main()
