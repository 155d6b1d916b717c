"""The simulated hosts of this machine are separate, and leave nothing behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.rehearsal.hosts import (
    AVAILABLE,
    CONGESTION_CONTROL,
    END_SECONDS,
    PLACE,
    Hosts,
    remove_leftovers,
)
from tests.waiting import until

pytestmark = pytest.mark.root

KILLED = """
import os, sys
from tests.rehearsal.hosts import Hosts
hosts = Hosts(1).__enter__()
print(hosts.name, hosts[0].pid, flush=True)
sys.stdin.read()
"""


CONTROLLED = """
import socket, sys
with socket.create_connection((sys.argv[1], 22)) as link:
    used = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
print(used.rstrip(bytes(1)).decode(), end="")
"""


def ssh(hosts: Hosts, number: int, *command: str) -> subprocess.CompletedProcess[str]:
    known = hosts.folder / "known"
    known.write_text("".join(f"{host.known_hosts}\n" for host in hosts))
    options = ["-F", "none", "-i", hosts.folder / "key", "-o", f"UserKnownHostsFile={known}"]
    strict = ["-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes"]
    target = f"root@{hosts[number].address}"
    return subprocess.run(
        ["ssh", *options, *strict, target, *command],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_each_host_is_reached_by_ssh_and_has_its_own_name(possible):
    with Hosts(3) as hosts:
        names = [ssh(hosts, number, "hostname").stdout.strip() for number in range(3)]

    assert names == ["node1", "node2", "node3"]


def test_a_host_sees_its_own_processes_and_files_and_our_python(possible):
    with Hosts(2) as hosts:
        (first, second) = hosts
        first.run("touch", "/tmp/mine", "/etc/mine")

        assert first.run("sh", "-c", "echo $$").strip() != str(first.pid)
        assert len(first.run("ps", "-e", "-o", "pid=").split()) < 8
        assert "mine" in first.run("ls", "/tmp")
        assert "mine" not in second.run("ls", "/tmp", "/etc")
        assert not Path("/etc/mine").exists()
        code = "import workbench; print(workbench.__file__)"
        assert "workbench" in second.run(sys.executable, "-c", code)


def test_hosts_reach_each_other_by_name_and_nothing_else(possible):
    with Hosts(2) as hosts:
        hosts[0].run("bash", "-c", "read -N 4 < /dev/tcp/node2/22")

        routes = hosts[0].run("ip", "route")

    assert "default" not in routes


def test_connections_use_the_congestion_control_of_nodes_whatever_this_machines_is(possible):
    """BBR halts each connection for 0.2 s every ten seconds: such a figure is no node's."""
    if CONGESTION_CONTROL not in AVAILABLE.read_text():
        pytest.skip(f"this kernel has no {CONGESTION_CONTROL}")
    with Hosts(2) as hosts:
        ask = [sys.executable, "-c", CONTROLLED]
        between = hosts[0].run(*ask, hosts[1].address)
        there = subprocess.run([*ask, hosts[0].address], capture_output=True, text=True, check=True)

    assert [between, there.stdout] == [CONGESTION_CONTROL] * 2


def test_a_host_that_shuts_down_is_gone_and_the_machine_is_not(hosts):
    host = hosts.start()
    host.popen("shutdown", "-h", "now").wait(END_SECONDS)

    until(lambda: not host.is_up, what="end of the host")


def test_a_cut_cable_is_noticed_by_no_one_and_can_be_put_back(hosts):
    host = hosts.start()
    host.cut()
    assert ssh(hosts, 0, "-o", "ConnectTimeout=1", "true").returncode != 0

    host.reconnect()

    until(lambda: ssh(hosts, 0, "true").returncode == 0, what="ssh after the cut")


def test_a_shaped_link_lets_no_more_through(hosts):
    host = hosts.start()
    host.shape(20)
    began = time.monotonic()

    ssh(hosts, 0, "head -c 2500000 /dev/zero").check_returncode()

    assert time.monotonic() - began > 0.7  # one second, less the burst


def test_an_address_of_the_metadata_service_is_the_hosts_own(hosts):
    host = hosts.start(address=str(hosts.network[77]), name="ip-77", imds="169.254.169.254")

    assert "169.254.169.254" in host.run("ip", "-br", "addr", "show", "lo")
    assert "169.254.169.254" not in subprocess.getoutput("ip -br addr")


def test_nothing_is_left_after_a_failure(possible):
    before = set(psutil.pids())
    with pytest.raises(RuntimeError, match="node2: false"), Hosts(2) as hosts:
        hosts[1].run("false")

    assert not hosts.folder.exists()
    assert hosts.name not in subprocess.getoutput("ip -br link")
    left = [p for p in psutil.process_iter() if p.pid not in before and "sshd" in p.name()]
    assert left == []


def test_what_a_killed_session_left_is_removed_by_name(possible):
    session = subprocess.Popen(
        [sys.executable, "-c", KILLED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    name, pid = session.stdout.readline().split()
    session.kill()
    session.communicate()

    remove_leftovers()

    until(lambda: not psutil.pid_exists(int(pid)), what="end of the host")
    assert not (PLACE / name).exists()
    assert name not in subprocess.getoutput("ip -br link")
