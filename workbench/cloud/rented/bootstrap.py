"""The first login to a node by its generated host key, and later logins by its own.

The node generates its own key, the key is recorded here, and only then the node uses it. If this is
interrupted, the next login verifies the node by the recorded key, or, until the node was seen to
use that one, by its first key. A node whose first key is not on record is never logged in to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from workbench.cloud.hosts.ssh import SshSession, open_session
from workbench.cloud.rented import userdata
from workbench.cloud.rented.ssh_keys import HostKey, KeyRing
from workbench.cloud.rented.userdata import make_host_key, show_host_key
from workbench.core.fleet.model import Machine
from workbench.core.world.known_hosts import known_hosts_line
from workbench.core.world.remote import Session
from workbench.core.world.world import Host
from workbench.errors import MachineError

ROOT = "root"


def greet(machine: Machine, ring: KeyRing, first: str, user: str) -> SshSession:
    """Log in to a machine that is verified by exactly one host key.

    Args:
        first: Public half of the host key in its user data; empty if unknown.

    Raises:
        MachineError: It is unreachable, or has another key.
    """
    known = ring.of(machine.id)
    if known is not None and known.shown:
        return _log_in(machine, known.key, ring, user)
    if known is not None:
        with contextlib.suppress(MachineError):
            return _confirm_key(machine, known, ring, user)
    if not first:
        raise MachineError(
            f"No host key is on record for {machine.id}, so it is not trusted",
            "it will be replaced.",
        )
    with contextlib.closing(_log_in(machine, first, ring, user)) as session:
        made = _as_root(session, make_host_key()).strip()
        own = HostKey(machine.id, machine.address, made)
        ring.note(own)
        _as_root(session, show_host_key())
    return _confirm_key(machine, own, ring, user)


def as_root(session: Session, command: Sequence[str]) -> list[str]:
    """Return the command that runs ``command`` as root on the node."""
    return [*(() if session.host.user == ROOT else ("sudo", "-n")), *command]


def _confirm_key(machine: Machine, own: HostKey, ring: KeyRing, user: str) -> SshSession:
    session = _log_in(machine, own.key, ring, user)
    ring.note(replace(own, shown=True))
    return session


def _log_in(machine: Machine, key: str, ring: KeyRing, user: str) -> SshSession:
    private = ring.private
    if not private:  # without one, ssh would try the user's own keys
        raise MachineError(
            "The cluster's private key is gone, and with it the way to its nodes",
            "delete the cluster (`workbench delete`) and start it again.",
        )
    line = known_hosts_line(machine.reach, key)
    host = Host(machine.reach, machine.slots, user=user, python=userdata.PYTHON)
    return open_session(host, [line], private)


def _as_root(session: Session, script: str) -> str:
    done = session.run(as_root(session, ["sh", "-c", script]))
    if done.status:
        reason = (done.errors.strip() or "no output").splitlines()[-1]
        raise MachineError(
            f"{session.host.address} could not generate its own host key ({reason})",
            "check that its image has OpenSSH.",
        )
    return done.output
