"""Take the connections of the agents that dial in, each verified before anything is run there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any

import asyncssh

from workbench.cloud.hosts.ssh_process import LOOP
from workbench.cloud.slurm.job_agent import ABOUT, ALIVE_COUNT, ALIVE_SECONDS, ANY, AgentNode
from workbench.core.messages import decode
from workbench.errors import MachineError

# A stranger that dials and says nothing is dropped after so long.
LOGIN_SECONDS = 20.0
SHORT_SECONDS = 20.0
log = logging.getLogger("workbench.supervisor")

Connection = asyncssh.SSHClientConnection


class Dials:
    """Listens for agents, and keeps the connections that no session has taken yet.

    Args:
        private: The cluster's private key, which the agents accept.
        host_key: The public half of the key that they show; no other host is talked to.
    """

    def __init__(self, private: str, host_key: str) -> None:
        self._options: dict[str, Any] = {
            "known_hosts": ([asyncssh.import_public_key(host_key)], [], []),
            "client_keys": [asyncssh.import_private_key(private)],
            "username": "workbench",
            "config": None,
            "agent_path": None,
            "login_timeout": LOGIN_SECONDS,
            "keepalive_interval": ALIVE_SECONDS,
            "keepalive_count_max": ALIVE_COUNT,
        }
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], tuple[AgentNode, Connection]] = {}
        self._listener: asyncssh.SSHAcceptor | None = None

    def __repr__(self) -> str:
        return f"<Dials: {len(self._waiting)} wait>"

    def listen(self, ports: Callable[[], list[int]]) -> int:
        """Listen at the first free port, and return it; the second call only returns it.

        Args:
            ports: Those to try; 0 is any.

        Raises:
            MachineError: None of them is free.
        """
        with self._lock:
            for port in ports() if self._listener is None else ():
                with contextlib.suppress(OSError):
                    self._listener = LOOP.wait(self._listen(port), SHORT_SECONDS)
                    break
            if self._listener is None:
                raise MachineError(
                    "No port of this machine is free for the nodes of Slurm to dial",
                    "widen the site's SrunPortRange, or end what uses its ports.",
                )
            return int(self._listener.get_port())

    def nodes(self) -> tuple[AgentNode, ...]:
        """Return the nodes whose agents wait for a session."""
        with self._lock:
            self._waiting = {k: w for k, w in self._waiting.items() if not w[1].is_closed()}
            return tuple(node for node, _ in self._waiting.values())

    def take(self, job: str, name: str) -> tuple[AgentNode, Connection] | None:
        """Return a waiting connection, which is the caller's from then on; None without one."""
        with self._lock:
            found = self._waiting.pop((job, name), None)
        return found if found and not found[1].is_closed() else None

    def close(self) -> None:
        """Listen no longer."""
        if self._listener is not None:
            LOOP.get().call_soon_threadsafe(self._listener.close)

    # -- in the sessions' thread

    async def _listen(self, port: int) -> asyncssh.SSHAcceptor:
        return await asyncssh.listen_reverse(
            ANY, port, acceptor=self._accept, reuse_address=True, **self._options
        )

    async def _accept(self, connection: Connection) -> None:
        """Ask a verified agent who it is, and keep its connection for a session."""
        try:
            asked = connection.run(f'printf %s "${ABOUT}"', check=True)
            said = await asyncio.wait_for(asked, SHORT_SECONDS)
            node = decode(AgentNode, str(said.stdout))
        except (OSError, asyncssh.Error, TimeoutError, MachineError) as error:
            log.info("A node that dialled in did not say who it is: %s", error)
            connection.abort()
            return
        with self._lock:
            before = self._waiting.pop((node.job, node.name), None)
            self._waiting[node.job, node.name] = node, connection
        if before:
            before[1].abort()
