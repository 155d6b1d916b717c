"""Probe the listed hosts: which host key each shows, and whether login works."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from workbench.cloud.hosts.check import examine_hosts, facts_here
from workbench.cloud.hosts.ssh import SshSession, first_key, open_session
from workbench.core.node.agent_protocol import read_facts
from workbench.core.node.findings import Finding
from workbench.core.node.host_findings import HostProbe, judge_host
from workbench.core.world.known_hosts import fingerprint
from workbench.core.world.remote import Session, python_of
from workbench.core.world.world import Host
from workbench.errors import KeyUnknown, MachineError, WorkbenchError

FACTS = ("-m", "workbench.node.description")
AT_ONCE = 32


def contact_all(hosts: Sequence[Host], trusted: Sequence[str]) -> tuple[HostProbe, ...]:
    """Return the probe of each host, in order.

    Args:
        trusted: Exact lines of known_hosts, beside the user's own.
    """
    with ThreadPoolExecutor(max(1, min(AT_ONCE, len(hosts)))) as pool:
        return tuple(pool.map(lambda host: _contact(host, trusted), hosts))


def examine(hosts: Sequence[Host], trusted: Sequence[str]) -> tuple[Finding, ...]:
    """Return the problems that keep the hosts from forming one cluster; each names its host."""
    with contextlib.ExitStack() as stack:
        sessions: dict[str, Session] = {}
        errors: dict[str, WorkbenchError] = {}
        with ThreadPoolExecutor(max(1, min(AT_ONCE, len(hosts)))) as pool:
            answers = pool.map(lambda host: _open(host, trusted), hosts)
            for host, opened in zip(hosts, answers, strict=True):
                if isinstance(opened, SshSession):
                    sessions[host.address] = stack.enter_context(contextlib.closing(opened))
                else:
                    errors[host.address] = opened
        reports = examine_hosts(sessions, errors)
        here = facts_here()
    return tuple(
        replace(finding, host=report.address)
        for report in sorted(reports, key=lambda r: [h.address for h in hosts].index(r.address))
        for finding in judge_host(report, here, reports)
    )


def is_here(address: str) -> bool:
    """Return whether ``address`` belongs to this machine."""
    try:
        found = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, where in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(where)
    except OSError:
        return False
    return True


def _contact(host: Host, trusted: Sequence[str]) -> HostProbe:
    contact = HostProbe(host.address)
    if is_here(host.address):
        return _here(host, contact)
    try:
        with contextlib.closing(open_session(host, trusted)) as session:
            line = session.key_line
            return replace(
                contact,
                line=line,
                fingerprint=fingerprint(line),
                known=True,
                slots=host.slots or _slots(session),
            )
    except KeyUnknown:
        return _stranger(host, contact)
    except WorkbenchError as error:
        return replace(contact, error=str(error))


def _stranger(host: Host, contact: HostProbe) -> HostProbe:
    try:
        line, shown = first_key(host)
    except WorkbenchError as error:
        return replace(contact, error=str(error))
    return replace(contact, line=line, fingerprint=shown)


def _here(host: Host, contact: HostProbe) -> HostProbe:
    """Accept this machine without a login."""
    try:
        line, shown = first_key(host, 3.0)
    except WorkbenchError:  # without sshd it can still be the only host, or the head
        line = shown = ""
    slots = host.slots or facts_here().slots
    return replace(contact, line=line, fingerprint=shown, known=True, slots=slots)


def _slots(session: Session) -> int:
    try:
        output = session.run([python_of(session), *FACTS], seconds=30.0).output
    except MachineError:
        return 0
    facts = read_facts(output)
    return facts.slots if facts else 0


def _open(host: Host, trusted: Sequence[str]) -> SshSession | WorkbenchError:
    try:
        return open_session(host, trusted)
    except WorkbenchError as error:
        return error
