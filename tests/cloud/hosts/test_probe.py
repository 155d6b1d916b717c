"""Facts of real hosts are collected for the findings."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cloud.conftest import log_in
from tests.rehearsal.hosts import HOME, Hosts
from workbench.cloud.hosts.probe import examine_hosts, facts_here, measure_links
from workbench.core.node.host_findings import HostReport, judge_host
from workbench.core.world.remote import Session
from workbench.errors import MachineError

pytestmark = pytest.mark.root


@pytest.fixture
def own(possible: None) -> Iterator[Hosts]:
    """Three hosts that a test may spoil."""
    with Hosts(3) as hosts:
        yield hosts


@pytest.fixture
def sessions(own: Hosts) -> Iterator[dict[str, Session]]:
    found = {host.address: log_in(own, number) for number, host in enumerate(own)}
    yield dict(found)
    for session in found.values():
        session.close()


def bad(reports: tuple[HostReport, ...]) -> dict[str, list[str]]:
    here = facts_here()
    return {
        report.address: [f.check for f in judge_host(report, here, reports) if f.ok is False]
        for report in reports
    }


def test_hosts_with_the_same_environment_have_nothing_wrong(own, sessions):
    reports = examine_hosts(sessions)

    assert bad(reports) == {host.address: [] for host in own}
    assert [report.facts.host for report in reports] == ["node1", "node2", "node3"]
    assert [report.reached for report in reports] == [2, 2, 2]
    assert all(report.forks and report.forks[0] > 100 for report in reports)
    assert all(abs(report.skew) < 0.5 for report in reports)


def test_a_firewall_and_an_environment_that_only_a_login_has_are_found(own, sessions):
    first, second, third = own
    first.run("ip", "route", "add", "unreachable", third.address)
    second.run("sh", "-c", f"echo 'export LD_LIBRARY_PATH=/opt/nccl/lib' > {HOME}/.bash_profile")
    second.run("ip", "link", "add", "docker0", "type", "bridge")
    second.run("ip", "addr", "add", "172.17.0.1/16", "dev", "docker0")
    second.run("ip", "link", "set", "docker0", "up")

    reports = examine_hosts(sessions, forks=False)

    assert bad(reports) == {
        first.address: ["firewall"],
        second.address: ["ssh environment"],
        third.address: ["firewall"],
    }
    assert ("docker0", "172.17.0.1") in reports[1].facts.interfaces


def test_a_host_without_our_environment_and_one_without_a_session_are_reported(own, sessions):
    first, _, third = own
    first.run("mount", "-t", "tmpfs", "none", sys.prefix)
    lost = sessions.pop(third.address)
    lost.close()

    refused = MachineError("it refuses connections", "start sshd.")

    reports = examine_hosts(sessions, {third.address: refused}, forks=False)

    found = bad(reports)
    assert found[first.address] == ["environment"]
    assert found[third.address] == ["ssh"]
    assert "not found" in reports[0].silence


def test_nothing_listens_once_the_hosts_were_looked_at(own, sessions):
    examine_hosts(sessions, forks=False)

    for host in own:
        listening = host.run("python3", "-c", "print(open('/proc/net/tcp').read())").splitlines()
        assert len([line for line in listening if " 0A " in line]) == 1  # sshd's


def test_links_are_measured_both_ways_and_one_that_is_closed_is_left_out(own, sessions):
    for host, mbits in zip(own, (400, 400, 80), strict=True):
        host.shape(mbits)
    names = [host.address for host in own]

    found = measure_links(sessions, {name: name for name in names})

    ends = {(a, b) for a in ("node1", "node2", "node3") for b in ("node1", "node2", "node3")}
    assert found.keys() == {(a, b) for a, b in ends if a != b}
    # What TCP carries of a cable's rate is the most; busy cores take from it.
    assert 24e6 < found["node1", "node2"][1] < 50e6
    for ends in (("node1", "node3"), ("node3", "node1")):
        assert 5e6 < found[ends][1] < 10e6
    assert all(0 < latency < 0.1 for latency, _ in found.values())

    own[0].run("ip", "route", "add", "unreachable", names[2])

    assert ("node1", "node3") not in measure_links(sessions, dict(zip(names, names, strict=True)))


def test_this_machine_says_what_it_is():
    facts = facts_here()

    assert facts.host == subprocess.getoutput("hostname")
    assert facts.executable == sys.executable
