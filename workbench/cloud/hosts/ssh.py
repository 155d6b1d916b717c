"""Log in to nodes by ssh, with host keys on record or confirmed by the user.

One thread of this process runs all sessions; callers wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import socket
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, NoReturn

import asyncssh
from asyncssh.encryption import get_default_encryption_algs

from workbench.cloud.hosts.silence import WATCH
from workbench.cloud.hosts.ssh_process import LOOP, START, Answer, SshProcess
from workbench.core.world.known_hosts import (
    ALIVE_COUNT,
    SSH_PORT,
    fingerprint,
    known_hosts,
    known_hosts_line,
    known_hosts_name,
)
from workbench.core.world.remote import Completed
from workbench.core.world.world import Host
from workbench.errors import HostLost, InputError, KeyUnknown, MachineError

CONNECT_SECONDS = 15.0
# After two missed keep-alives, 9 s, a host that is frozen, or that is the only one, counts as gone.
ALIVE_SECONDS = 3.0
END_SECONDS = 2.0
CALL_SECONDS = 20.0
# Unread output beyond this makes the node's process wait, as a full pipe would.
UNREAD_NBYTES = 8 << 20
PUT = (
    "umask 077; mkdir -p -- {folder} && part=$(mktemp {folder}/.part.XXXXXX) || exit 1; "
    'trap \'rm -f -- "$part"\' EXIT; cat > "$part" && '
    '[ "$(wc -c < "$part")" -eq {nbytes} ] && chmod {mode:o} "$part" && '
    'mv -f -- "$part" {path}'
)
logging.getLogger("asyncssh").setLevel(logging.WARNING)


class SshSession:
    """A verified ssh session; see ``core.world.remote.Session``. Made by `open_session`.

    Args:
        is_here: Whether the node is this machine, so that its ports are ours already.
    """

    def __init__(
        self, host: Host, connection: asyncssh.SSHClientConnection, *, is_here: bool = False
    ) -> None:
        self._host = host
        self._connection = connection
        self._processes: set[SshProcess] = set()
        self._brought: dict[int, asyncssh.SSHListener] = {}
        self._probed = 0
        self._is_lost = False
        self._is_here = is_here
        self._probe()

    def __repr__(self) -> str:
        return f"<SshSession {self._host.address}, {'open' if self.is_open else 'lost'}>"

    @property
    def host(self) -> Host:
        """The node."""
        return self._host

    @property
    def is_open(self) -> bool:
        """Whether it is open; a lost session does not recover."""
        if self._probed and WATCH.is_lost(self._probed):
            self._give_up()
        return not (self._is_lost or self._connection.is_closed())

    @property
    def is_silent(self) -> bool:
        """Whether the node has sent nothing for longer than usual."""
        return not self.is_open or WATCH.is_silent(self._probed)

    @property
    def key_line(self) -> str:
        """The exact known_hosts line that trusts the host's present key."""
        key = self._connection.get_server_host_key()
        port = self._connection.get_extra_info("peername")[1]
        assert key is not None
        return known_hosts_line(self._host.address, key.export_public_key().decode(), port)

    def run(self, command: Sequence[str], *, input: str = "", seconds: float = 60.0) -> Completed:
        """Run a command and wait for its end.

        Raises:
            MachineError: The session is lost, or the command took longer than ``seconds``.
        """
        began = time.monotonic()
        process = self._start(command, unread_nbytes=0, seconds=seconds)
        if input:
            process.write(input.encode())
        process.close_input()
        if not process.ended.wait(max(0.0, seconds - (time.monotonic() - began))):
            process.end(force=True)
            raise MachineError(
                f"{command[0]} on {self._host.address} did not end within {seconds:g} s",
                "check the load of that machine.",
            )
        if process.trouble:
            raise MachineError(
                f"{command[0]} on {self._host.address} sent an invalid answer ({process.trouble})",
                "check which program runs there.",
            )
        if process.status == -1 and not self.is_open:
            raise self._lost()
        assert process.status is not None
        return Completed(process.status, process.output(), process.errors)

    def start(self, command: Sequence[str]) -> SshProcess:
        """Start a command, and return it without waiting for its end.

        Raises:
            MachineError: The session is lost.
        """
        return self._start(command, UNREAD_NBYTES, CALL_SECONDS)

    def put(self, data: bytes, path: str, mode: int = 0o600) -> None:
        """Write a file atomically; missing folders are created, for the owner alone.

        Raises:
            MachineError: The file cannot be written, or the session is lost.
        """
        folder = path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
        script = PUT.format(
            folder=shlex.quote(folder), path=shlex.quote(path), nbytes=len(data), mode=mode
        )
        process = self._start(["sh", "-c", script], 0, CALL_SECONDS)
        process.write(data)
        process.close_input()
        seconds = CALL_SECONDS + len(data) / 1e6
        if not process.ended.wait(seconds):
            process.end(force=True)
        if process.status != 0:
            if not self.is_open:
                raise self._lost()
            reason = process.errors.strip().rpartition("\n")[2] or f"not within {seconds:.0f} s"
            raise MachineError(
                f"{path} cannot be written on {self._host.address} ({reason})",
                "check the folder's permissions and the free space on its disk.",
            )

    def bring(self, ports: Sequence[int]) -> None:
        """Forward ports of the node's loopback to the same ports of this machine.

        Raises:
            MachineError: A port is in use on the node.
        """
        for port in ports:
            if port not in self._brought and not self._is_here:
                self._brought[port] = self._wait(self._bring(port), CALL_SECONDS)

    def close(self) -> None:
        """Close it, and end the processes that were started through it."""
        self._unprobe()
        for force in (False, True):
            living = [*self._processes]
            for process in living:
                process.end(force=force)
            deadline = time.monotonic() + END_SECONDS
            for process in living:
                process.ended.wait(max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(TimeoutError, asyncssh.Error, OSError):
            LOOP.wait(self._close(), 2 * END_SECONDS)

    # -- in the sessions' thread

    def forget(self, process: SshProcess) -> None:
        """Drop a process that has ended."""
        self._processes.discard(process)

    async def execute(self, command: str) -> None:
        """Run a command for the session itself."""
        await self._connection.run(command, check=False)

    async def _open_process(self, process: SshProcess, command: Sequence[str]) -> None:
        self._processes.add(process)
        try:
            await process.open(self._connection, shlex.join(["sh", "-c", START, "sh", *command]))
        except BaseException:
            self._processes.discard(process)
            raise

    async def _bring(self, port: int) -> asyncssh.SSHListener:
        try:
            # An address of the loopback: sshd accepts connections from the node itself alone.
            return await self._connection.forward_remote_port("127.0.0.1", port, "127.0.0.1", port)
        except asyncssh.ChannelListenError as error:
            raise MachineError(
                f"Port {port} of {self._host.address}'s own loopback cannot be used",
                "end the process that uses it, and check that its sshd has AllowTcpForwarding yes.",
            ) from error

    async def _close(self) -> None:
        self._connection.close()
        try:
            await asyncio.wait_for(self._connection.wait_closed(), END_SECONDS)
        except TimeoutError:
            self._connection.abort()

    # -- in the caller's thread

    def _probe(self) -> None:
        """Watch the connection for silence; one through another host has no socket of its own."""
        connection = self._connection.get_extra_info("socket")
        if connection is not None and not self._connection.is_closed():
            with contextlib.suppress(OSError):
                self._probed = WATCH.add(connection, self._send_nothing)

    def _unprobe(self) -> None:
        WATCH.remove(self._probed)
        self._probed = 0

    def _send_nothing(self) -> None:
        """Send what the node's sshd drops, and its kernel acknowledges; waits for nothing."""
        LOOP.get().call_soon_threadsafe(self._debug)

    def _debug(self) -> None:
        if not self._connection.is_closed():
            self._connection.send_debug("")

    def _give_up(self) -> None:
        """Drop the connection to a node that has fallen silent; it could still hang for long."""
        self._is_lost = True
        self._unprobe()
        LOOP.get().call_soon_threadsafe(self._connection.abort)

    def _start(self, command: Sequence[str], unread_nbytes: int, seconds: float) -> SshProcess:
        process = SshProcess(self, unread_nbytes)
        self._wait(self._open_process(process, command), seconds)
        return process

    def _wait(self, work: Coroutine[Any, Any, Answer], seconds: float) -> Answer:
        """Wait for ``work``, and map its errors."""
        try:
            return LOOP.wait(work, seconds)
        except asyncssh.ChannelOpenError as error:
            if not self.is_open:
                raise self._lost() from error
            raise MachineError(
                f"{self._host.address} refused another ssh channel ({error.reason})",
                "raise MaxSessions in its sshd_config.",
            ) from error
        except (TimeoutError, asyncssh.Error, OSError) as error:
            raise self._lost() from error

    def _lost(self) -> HostLost:
        return HostLost(
            f"The ssh session with {self._host.address} is lost",
            "check whether that machine is up and reachable.",
        )


def open_session(
    host: Host, trusted: Sequence[str] = (), key: str = "", seconds: float = CONNECT_SECONDS
) -> SshSession:
    """Log in to ``host``, whose key must be known.

    Args:
        trusted: Exact lines of known_hosts.
        key: A private key, as text. With it, the user's own configuration, keys, agent and
            known_hosts are ignored.

    Raises:
        InputError: The name is unknown, or a line of ``trusted`` is not exact.
        KeyUnknown: Its key is not confirmed yet.
        MachineError: It cannot be reached, shows another key, or refuses the login.
    """
    text = known_hosts(trusted)
    try:
        connection = LOOP.wait(_connect(host, text, key, seconds), seconds + END_SECONDS)
    except (TimeoutError, asyncssh.Error, OSError) as error:
        _refuse(host, error, seconds)
    return SshSession(host, connection)


def first_key(host: Host, seconds: float = CONNECT_SECONDS) -> tuple[str, str]:
    """Fetch the host key of ``host``, without logging in.

    Returns:
        The known_hosts line that would trust it, and the fingerprint for the user to compare.

    Raises:
        InputError: The name is unknown.
        MachineError: It cannot be reached.
    """
    try:
        line = LOOP.wait(_first_key(host, seconds), seconds + END_SECONDS)
    except (TimeoutError, asyncssh.Error, OSError) as error:
        _refuse(host, error, seconds)
    return line, fingerprint(line)


def new_key() -> tuple[str, str]:
    """Generate a key; return its private half in OpenSSH's format, and its public half."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    return key.export_private_key().decode(), key.export_public_key().decode().strip()


def public_half(private: str) -> str:
    """Return the public half of a private key.

    Raises:
        MachineError: It is not a valid key.
    """
    return _import_key(private).export_public_key().decode().strip()


async def _first_key(host: Host, seconds: float) -> str:
    options = await _options(host, "")
    key = await asyncio.wait_for(
        asyncssh.get_server_host_key(host.address, options=options), seconds
    )
    if key is None:
        raise asyncssh.KeyExchangeFailed("no host key was shown")
    name = options.host_key_alias or options.host
    return known_hosts_line(name, key.export_public_key().decode(), options.port)


async def _connect(
    host: Host, trusted: str, key: str, seconds: float
) -> asyncssh.SSHClientConnection:
    options = await _options(host, key)
    known = _Known(trusted + ("" if key else _texts(options.known_hosts)))
    try:
        return await asyncio.wait_for(
            asyncssh.connect(host.address, options=options, known_hosts=known.match), seconds
        )
    except asyncssh.HostKeyNotVerifiable as error:
        raise _wrong_key(options, known) from error
    except (asyncssh.KeyExchangeFailed, asyncssh.ConnectionLost, ConnectionResetError) as error:
        # A host without a key of the known kind disconnects before it shows one.
        if known.names_it and await _shows_another(host, known, seconds):
            raise _wrong_key(options, known) from error
        raise
    except asyncssh.PermissionDenied as error:
        raise MachineError(
            f"{host.address} refuses the login of {options.username}",
            f"try `ssh {options.username}@{host.address} true`, and put your public key into "
            "~/.ssh/authorized_keys there, or name the user as user@address.",
        ) from error


async def _options(host: Host, key: str) -> asyncssh.SSHClientConnectionOptions:
    """Return the login options: the user's own configuration, or ``key`` alone."""
    given: dict[str, Any] = {}
    if host.port:
        given["port"] = host.port
    if host.user:
        given["username"] = host.user
    if key:
        given |= {"client_keys": [_import_key(key)], "agent_path": None}
    options: asyncssh.SSHClientConnectionOptions
    options = await asyncssh.SSHClientConnectionOptions.construct(
        host=host.address,
        config=None if key else (),
        password_auth=False,
        kbdint_auth=False,
        gss_host=None,
        x509_trusted_certs=None,
        agent_forwarding=False,
        keepalive_interval=ALIVE_SECONDS,
        keepalive_count_max=ALIVE_COUNT,
        **given,
    )
    if [*options.encryption_algs] == get_default_encryption_algs():  # the user chose no others
        faster = sorted(options.encryption_algs, key=lambda name: b"-gcm" not in name)
        options = await asyncssh.SSHClientConnectionOptions.construct(
            options, encryption_algs=[name.decode() for name in faster]
        )
    return options


def _import_key(key: str) -> asyncssh.SSHKey:
    try:
        return asyncssh.import_private_key(key)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise MachineError(
            f"The cluster's private key cannot be read ({error})",
            "delete the cluster and make it again.",
        ) from error


async def _shows_another(host: Host, known: _Known, seconds: float) -> bool:
    shown = (await _first_key(host, seconds)).partition(" ")[2]
    return shown not in known.keys


class _Known:
    """The trusted keys, and whether they include the host that was reached."""

    def __init__(self, text: str) -> None:
        self._known = asyncssh.import_known_hosts(text)
        self.names_it = False
        self.keys: set[str] = set()

    def match(self, host: str, address: str, port: int | None) -> Any:
        """Return the trusted keys of a host; called by asyncssh."""
        found = self._known.match(host, address, port)
        self.names_it = any(found)
        self.keys = {" ".join(key.export_public_key().decode().split()[:2]) for key in found[0]}
        return found


def _texts(files: Any) -> str:
    """Return the content of the user's known_hosts files, as configured."""
    paths = files or ["~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts"]
    texts = []
    for path in paths:
        with contextlib.suppress(OSError):
            text = Path(path).expanduser().read_text(encoding="utf-8", errors="replace")
            texts.append(text if text.endswith("\n") else f"{text}\n")
    return "".join(texts)


def _wrong_key(options: asyncssh.SSHClientConnectionOptions, known: _Known) -> MachineError:
    name = known_hosts_name(options.host_key_alias or options.host, options.port)
    if known.names_it:
        return MachineError(
            f"{name} shows another host key than the known one, so no login was attempted",
            "if it was reinstalled, compare the new key's fingerprint on the machine itself, then "
            f"remove the old one (ssh-keygen -R '{name}', and its line in the cluster's own "
            "known_hosts); otherwise another machine answers at this address.",
        )
    return KeyUnknown(
        f"The host key of {name} is not known, so no login was attempted",
        "compare the fingerprint that it shows with `ssh-keygen -lf "
        "/etc/ssh/ssh_host_ed25519_key.pub` on the machine itself, and confirm it.",
    )


def _refuse(host: Host, error: Exception, seconds: float) -> NoReturn:
    """Raise the error for a host that was not reached."""
    where = known_hosts_name(host.address, host.port or SSH_PORT)
    if isinstance(error, socket.gaierror):
        raise InputError(
            f"The name {host.address} is not known here", "correct it, or give its address."
        ) from error
    if isinstance(error, ConnectionRefusedError):
        raise MachineError(
            f"{where} refuses connections", "start sshd there, or give its port as address:port."
        ) from error
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        raise MachineError(
            f"{where} did not answer within {seconds:g} s",
            "check that it is up, and that no firewall blocks this machine from its port "
            f"{host.port or SSH_PORT}.",
        ) from error
    reason = getattr(error, "reason", "") or getattr(error, "strerror", "") or str(error)
    raise MachineError(
        f"{where} cannot be reached by ssh ({reason})", f"try `ssh {host.address} true`."
    ) from error
