"""Invalid output of a hostile node ends its own session's command, and nothing else."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator

import asyncssh
import pytest

from tests.waiting import until
from workbench.cloud.hosts.ssh import SshSession, new_key, open_session, public_half
from workbench.cloud.hosts.ssh_process import LOOP, PID_MARK
from workbench.core.world.known_hosts import known_hosts_line
from workbench.core.world.world import Host
from workbench.errors import MachineError

HELLO = PID_MARK + b"4242\n"
Says = Callable[[asyncssh.SSHServerProcess], Awaitable[None]]


async def serve(says: Says, key: str) -> asyncssh.SSHAcceptor:
    """Listen on loopback as a node that answers each command by ``says``."""

    async def answer(process: asyncssh.SSHServerProcess) -> None:
        with contextlib.suppress(asyncssh.Error, OSError):
            await says(process)
            await process.stdin.read()
        process.exit(0)

    return await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[asyncssh.import_private_key(key)],
        authorized_client_keys=asyncssh.import_authorized_keys(public_half(key)),
        process_factory=answer,
        encoding=None,
    )


@contextlib.contextmanager
def node(says: Says) -> Iterator[SshSession]:
    key, public = new_key()
    server = LOOP.wait(serve(says, key), 10.0)
    host = Host("127.0.0.1", 1, "person", port=server.get_port())
    line = known_hosts_line("127.0.0.1", public, host.port)
    try:
        with contextlib.closing(open_session(host, [line], key)) as session:
            yield session
    finally:
        LOOP.get().call_soon_threadsafe(server.close)


def flood(beginning: bytes, piece: bytes, times: int) -> Says:
    async def says(process: asyncssh.SSHServerProcess) -> None:
        process.stdout.write(beginning)
        for _ in range(times):
            process.stdout.write(piece)
            await process.stdout.drain()

    return says


@pytest.mark.parametrize(
    ("beginning", "times", "said"),
    [
        (PID_MARK + b"me\n", 0, "'me'"),
        (PID_MARK + b"-1\n", 0, "'-1'"),
        (b"", 100, "before its process id"),
        (HELLO, 1000, "more than 16 MB"),
    ],
    ids=["a word for a number", "a negative number", "a greeting without end", "100 MB"],
)
def test_a_command_that_ends_says_so_much_and_no_more(beginning, times, said):
    with node(flood(beginning, b"x" * 100_000, times)) as session:
        began = time.monotonic()

        with pytest.raises(MachineError, match=said):
            session.run(["true"], seconds=30.0)

        assert time.monotonic() - began < 15.0
        assert session.is_open


def test_a_line_without_end_ends_the_command():
    with node(flood(HELLO, b"x" * 100_000, 1000)) as session:
        process = session.start(["an-agent"])

        until(lambda: process.status is not None, what="the command's end")

        assert process.errors == "more than 1 MB of output without a line break"
        assert process.lines() == []
        assert session.is_open


def test_a_stream_without_end_waits_until_it_is_read():
    with node(flood(HELLO, b"noise\n" * 10_000, 1000)) as session:
        process = session.start(["an-agent"])

        nbytes = until(
            lambda: len(process.output()) > 8_000_000 and len(process.output()), what="noise"
        )

        assert nbytes < 10_000_000
        assert process.status is None
        assert len(process.lines()) > 1_000
