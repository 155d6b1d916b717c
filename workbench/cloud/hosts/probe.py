"""Probe hosts that a user lists, and examine them as one cluster, for ``core`` to judge."""

from __future__ import annotations

import contextlib
import json
import math
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from workbench.cloud.hosts.ssh import SshSession, first_key, open_session
from workbench.core.messages import Count, decode
from workbench.core.node.agent_protocol import NodeFacts, read_facts
from workbench.core.node.findings import Finding
from workbench.core.node.host_findings import HostProbe, HostReport, judge_host
from workbench.core.performance.bandwidth import tournament
from workbench.core.quote import one_line
from workbench.core.world.known_hosts import fingerprint
from workbench.core.world.remote import RemoteProcess, Session, python_of
from workbench.core.world.world import Host
from workbench.errors import KeyUnknown, MachineError, WorkbenchError

FACTS_SECONDS = 60.0
PROBE_SECONDS = 20.0
CLOCK = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?", re.ASCII)
MOST_PORT = 65_535
FACTS = ("-m", "workbench.node.description")
FORKS = ("-m", "workbench.cluster.doctor", "--forks")
# The user's own shell with all its start-up files; it may print more, so the answer is marked.
LOGIN = (
    'exec "${SHELL:-/bin/sh}" -l -i -c '
    '\'echo "workbench-login $PATH"; echo "workbench-libraries $LD_LIBRARY_PATH"\''
)
# What listens, tries and measures there; all of it uses the same module of ours.
NETWORK = ("-m", "workbench.node.link_probe")
LISTENS = re.compile(r"([0-9]{1,5}) (\S{1,255})", re.ASCII)
# All pairs of so few hosts are measured in three rounds; of more, the neighbours in a ring.
ALL_PAIRS = 4

Item = TypeVar("Item")
Answer = TypeVar("Answer")

AT_ONCE = 32


def contact_all(
    hosts: Sequence[Host],
    trusted: Sequence[str],
    count_slots: Callable[[Session], int] | None = None,
) -> tuple[HostProbe, ...]:
    """Return the probe of each host, in order.

    Args:
        trusted: Exact lines of known_hosts, beside the user's own.
        count_slots: Returns the ranks that a host carries, or raises ``MachineError``; by default
            its own Python says that, if the user did not.
    """
    return tuple(at_once(hosts, lambda host: _contact(host, trusted, count_slots)))


def examine(hosts: Sequence[Host], trusted: Sequence[str]) -> tuple[Finding, ...]:
    """Return the problems that keep the hosts from forming one cluster; each names its host."""
    with contextlib.ExitStack() as stack:
        sessions: dict[str, Session] = {}
        errors: dict[str, WorkbenchError] = {}
        answers = at_once(hosts, lambda host: _open(host, trusted))
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


def _contact(
    host: Host, trusted: Sequence[str], count_slots: Callable[[Session], int] | None
) -> HostProbe:
    contact = HostProbe(host.address)
    if is_here(host.address):
        return _here(host, contact)
    try:
        with contextlib.closing(open_session(host, trusted)) as session:
            line = session.key_line
            found = count_slots(session) if count_slots else host.slots or _slots(session)
            return replace(
                contact,
                line=line,
                fingerprint=fingerprint(line),
                known=True,
                slots=host.slots or found,
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


def facts_here() -> NodeFacts:
    """Return the facts of this machine, as nodes report theirs.

    Raises:
        MachineError: It reports none.
    """
    done = subprocess.run(
        [sys.executable, *FACTS],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    facts = read_facts(done.stdout)
    if facts is None:
        raise MachineError(
            f"{sys.executable} -m workbench.node.description reports nothing "
            f"({_last(done.stderr)})",
            "reinstall workbench into this environment.",
        )
    return facts


def examine_hosts(
    sessions: Mapping[str, Session],
    errors: Mapping[str, WorkbenchError] | None = None,
    *,
    forks: bool = True,
) -> tuple[HostReport, ...]:
    """Return a report for each host.

    Args:
        sessions: By the address that the hosts use for each other.
        errors: Why a host has no session, for those without one.
        forks: Whether to try the imports of ranks there, which takes seconds.
    """
    reports = at_once(
        list(sessions), lambda address: _look(address, sessions[address], forks=forks)
    )
    able = {r.address: sessions[r.address] for r in reports if r.facts is not None}
    reached = try_connections(able, {address: [address] for address in able})
    return (
        *(_with_connections(report, reached.get(report.address, {})) for report in reports),
        *(_report_unseen(address, error) for address, error in (errors or {}).items()),
    )


def _report_unseen(address: str, error: WorkbenchError) -> HostReport:
    return HostReport(address, error=error.what, remedy=error.remedy)


def _look(address: str, session: Session, *, forks: bool) -> HostReport:
    try:
        began = time.time()
        clock = session.run(["date", "+%s.%N"], seconds=PROBE_SECONDS).output
        between = (began + time.time()) / 2
        result = session.run([python_of(session), *FACTS], seconds=FACTS_SECONDS)
    except MachineError as error:
        return _report_unseen(address, error)
    return HostReport(
        address,
        facts=read_facts(result.output),
        silence=_last(result.errors),
        login=_login(session),
        skew=float(clock) - between if CLOCK.fullmatch(clock.strip()) else 0.0,
        forks=_forks(session) if forks else None,
    )


def _forks(session: Session) -> tuple[int, tuple[str, ...], str] | None:
    """Return what `judge_forks` judges; None if the host does not say."""
    try:
        done = session.run([python_of(session), *FORKS], seconds=FACTS_SECONDS)
        found = decode(tuple[Count, tuple[str, ...], str], done.output)
    except MachineError:
        return None
    modules, late, error = found
    return modules, tuple(map(one_line, late)), one_line(error)


def _login(session: Session) -> tuple[str, str] | None:
    try:
        output = session.run(["sh", "-c", LOGIN], seconds=PROBE_SECONDS).output
    except MachineError:
        return None
    marked = [line for line in output.splitlines() if line.startswith("workbench-") and " " in line]
    found = dict(line.split(" ", 1) for line in marked)
    if "workbench-login" not in found:
        return None
    return found["workbench-login"], found.get("workbench-libraries", "")


def try_connections(
    sessions: Mapping[str, Session], addresses: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, str]]:
    """Try TCP connections between each pair of hosts; an empty reason means success.

    Args:
        addresses: Where each host is to be reached.

    Returns:
        By host, the reasons by address of the others.
    """
    if len(sessions) < 2:
        return {}
    with _listening(sessions) as places:
        targets = {
            name: [
                (address, port)
                for other, (port, _) in places.items()
                if other != name
                for address in addresses[other]
            ]
            for name in sessions
        }
        answers = at_once(list(sessions), lambda name: _connect(sessions[name], targets[name]))
    return dict(zip(sessions, answers, strict=True))


def measure_links(
    sessions: Mapping[str, Session], addresses: Mapping[str, str]
) -> dict[tuple[str, str], tuple[float, float]]:
    """Measure the network between hosts, in about a second or two.

    Args:
        addresses: By which each host is reached by the others.

    Returns:
        Seconds one way and bytes per second, by the host names of source and target.
    """
    found: dict[tuple[str, str], tuple[float, float]] = {}
    names = [*sessions]
    rounds = tournament(len(names))
    if len(names) > ALL_PAIRS:
        ring = tuple((place, (place + 1) % len(names)) for place in range(len(names)))
        # No host is in two pairs of a round; with an odd number of them, the last link is left.
        rounds = (ring[:-1:2], ring[1::2], ring[-1:] if len(ring) % 2 else ())
    with _listening(sessions) as places:

        def measure(pair: tuple[int, int]) -> None:
            here, there = names[pair[0]], names[pair[1]]
            port, target = places[there]
            if link := _measure(sessions[here], addresses[there], port):
                ends, (latency, out, back) = (places[here][1], target), link
                found[ends], found[ends[::-1]] = (latency, out), (latency, back)

        for pairs in rounds:
            at_once(pairs, measure)
    return found


@contextlib.contextmanager
def _listening(sessions: Mapping[str, Session]) -> Iterator[dict[str, tuple[int, str]]]:
    """Have all hosts listen; give the port and the host name of each.

    The port is 0, which is unreachable, where a host does not listen.
    """
    listeners = {
        name: session.start([python_of(session), *NETWORK, "listen"])
        for name, session in sessions.items()
    }
    try:
        yield {name: _place(listener) for name, listener in listeners.items()}
    finally:
        for listener in listeners.values():
            listener.end()


def _connect(session: Session, targets: Sequence[tuple[str, int]]) -> dict[str, str]:
    try:
        reasons = _ask(session, "try", targets)
    except MachineError as error:
        return {address: str(error) for address, _ in targets}
    return {address: one_line(str(reasons.get(address, "no answer"))) for address, _ in targets}


def _measure(session: Session, address: str, port: int) -> tuple[float, float, float] | None:
    """Return seconds one way, and bytes per second there and back; None if that is unknown."""
    with contextlib.suppress(MachineError, ValueError, TypeError):
        latency, out, back = map(float, _ask(session, "measure", [(address, port)])[address])
        if all(0 < one < math.inf for one in (latency, out, back)):
            return latency, out, back
    return None


def _ask(session: Session, what: str, targets: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """Return what a host finds of others.

    Raises:
        MachineError: It does not say.
    """
    result = session.run(
        [python_of(session), *NETWORK, what],
        input=json.dumps(targets),
        seconds=PROBE_SECONDS + 3.0 * len(targets),
    )
    return decode(dict, result.output)


def _place(listener: RemoteProcess) -> tuple[int, str]:
    deadline = time.monotonic() + PROBE_SECONDS
    while time.monotonic() < deadline and listener.status is None:
        for line in listener.lines():
            if (said := LISTENS.fullmatch(line)) and int(said[1]) <= MOST_PORT:
                return int(said[1]), said[2]
        time.sleep(0.02)
    return 0, ""


def _with_connections(report: HostReport, found: Mapping[str, str]) -> HostReport:
    lost = tuple((address, reason) for address, reason in found.items() if reason)
    return replace(report, unreachable=lost, reached=len(found) - len(lost))


def _last(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def at_once(items: Sequence[Item], do: Callable[[Item], Answer]) -> list[Answer]:
    """Do the same for each host or pair of hosts, on threads, and return the answers."""
    with ThreadPoolExecutor(max(1, min(AT_ONCE, len(items)))) as pool:
        return list(pool.map(do, items))
