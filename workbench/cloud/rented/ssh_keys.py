"""Store the ssh keys of a cluster, in files that their owner alone may read."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from workbench.cloud.hosts.ssh import new_key, public_half
from workbench.core.messages import decode
from workbench.core.world.known_hosts import known_hosts_line
from workbench.errors import MachineError
from workbench.store.paths import HOST_KEYS_NAME, KEY_NAME, write_private

log = logging.getLogger("workbench.supervisor")


@dataclass(frozen=True)
class HostKey:
    """The host key that a node generated for itself.

    Args:
        id: Of the machine.
        address: By which the other nodes reach it.
        key: Kind and public half.
        shown: Whether the node was seen to use it; until then it may still use its first one.
        port: Of the ssh server there; 0 for the usual one.
    """

    id: str
    address: str
    key: str
    shown: bool = False
    port: int = 0


class KeyRing:
    """The private key for one cluster's nodes, and the host keys that its nodes generated.

    Args:
        folder: The folder of the cluster.
    """

    def __init__(self, folder: Path) -> None:
        self._key = folder / KEY_NAME
        self._host_keys = folder / HOST_KEYS_NAME
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<KeyRing {self._key.parent}>"

    @property
    def private(self) -> str:
        """The private key; empty before there is one."""
        return _text(self._key)

    @property
    def public(self) -> str:
        """The public key; both keys are generated when it is first needed."""
        with self._lock:
            if not self.private:
                write_private(self._key, new_key()[0])
        return public_half(self.private)

    def of(self, id_: str) -> HostKey | None:
        """Return the host key that a machine generated; None if none is recorded."""
        return self._read().get(id_)

    def note(self, key: HostKey) -> None:
        """Record a machine's host key; an earlier machine at its address is dropped."""
        with self._lock:
            others = (one for one in self._read().values() if one.address != key.address)
            self._keep({one.id: one for one in (*others, key)})

    def lines(self) -> tuple[str, ...]:
        """Return the ``known_hosts`` lines by which the nodes verify each other."""
        return tuple(
            known_hosts_line(one.address, one.key, one.port) for one in self._read().values()
        )

    def discard(self) -> None:
        """Delete all keys of a cluster that is gone."""
        with self._lock:
            for path in (self._key, self._host_keys):
                path.unlink(missing_ok=True)

    def _read(self) -> dict[str, HostKey]:
        text = _text(self._host_keys)
        try:
            keys = decode(tuple[HostKey, ...], text) if text else ()
        except MachineError as error:
            # Nodes whose keys are unknown are replaced; raising would end the supervisor.
            log.error("%s holds no host keys: %s", self._host_keys, error)
            keys = ()
        return {one.id: one for one in keys}

    def _keep(self, keys: dict[str, HostKey]) -> None:
        write_private(self._host_keys, json.dumps([asdict(key) for key in keys.values()], indent=1))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise MachineError(
            f"{path} cannot be read ({error.strerror})", "correct its permissions."
        ) from error
