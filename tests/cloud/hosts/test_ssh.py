"""A node is trusted by its host key alone, and a lost connection to it is detected."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cloud.conftest import log_in
from tests.rehearsal.hosts import HOME, Hosts, RehearsalHost, make_key
from tests.waiting import until
from workbench.cloud.hosts.silence import silence
from workbench.cloud.hosts.ssh import first_key, open_session
from workbench.core.world.known_hosts import agent_config, known_hosts_line
from workbench.core.world.world import Host
from workbench.errors import InputError, MachineError

pytestmark = pytest.mark.root

TAKEN = """
import socket, sys
server = socket.create_server(("127.0.0.1", 4567))
print("up", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def host(hosts: Hosts) -> Iterator[RehearsalHost]:
    """A host that a test may spoil."""
    host = hosts.start()
    yield host
    hosts.stop(host)


@pytest.fixture
def home(monkeypatch, tmp_path) -> Path:
    """A home of a person's own, with ssh's folder in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / ".ssh").mkdir(mode=0o700)
    return tmp_path / ".ssh"


def as_host(host: RehearsalHost) -> Host:
    return Host(host.address, 1, user="root")


def test_an_unknown_host_key_is_refused_at_first_contact(hosts, host):
    with pytest.raises(MachineError, match=r"not known.*ssh-keygen -lf.*confirm it"):
        open_session(as_host(host), [hosts[0].known_hosts], hosts.key)

    assert "Accepted publickey" not in host.log


def test_the_first_key_comes_as_a_line_and_a_fingerprint_to_confirm(hosts, host):
    line, fingerprint = first_key(as_host(host))

    shown = subprocess.check_output(["ssh-keygen", "-lf", host.folder / "host_key.pub"], text=True)
    assert fingerprint == shown.split()[1]
    assert line == host.known_hosts
    with contextlib.closing(open_session(as_host(host), [line], hosts.key)) as session:
        assert session.run(["hostname"]).output == f"{host.name}\n"


def test_another_host_key_is_refused_later(hosts, host):
    known = host.known_hosts
    open_session(as_host(host), [known], hosts.key).close()

    host.new_host_key()
    host.start_sshd()

    with pytest.raises(MachineError, match=r"another host key.*ssh-keygen -R"):
        open_session(as_host(host), [known], hosts.key)


def test_a_key_of_another_kind_is_no_way_around(hosts, host, tmp_path):
    known = host.known_hosts
    make_key(tmp_path / "rsa", kind="rsa")
    host.new_host_key((tmp_path / "rsa").read_text())
    host.start_sshd()

    with pytest.raises(MachineError, match="another host key"):
        open_session(as_host(host), [known], hosts.key)


def test_a_key_that_opens_nothing_is_refused_with_the_remedy(hosts, tmp_path):
    make_key(tmp_path / "key")
    key = (tmp_path / "key").read_text()

    with pytest.raises(MachineError, match=r"refuses the login of root.*authorized_keys"):
        open_session(as_host(hosts[0]), [hosts[0].known_hosts], key)


def test_a_port_without_sshd_and_an_address_without_a_host_are_distinguished(hosts, host):
    host.stop_sshd()
    with pytest.raises(MachineError, match=r"refuses connections"):
        open_session(as_host(host), [host.known_hosts], hosts.key)

    host.cut()
    with pytest.raises(MachineError, match=r"did not answer within 1 s.*firewall"):
        open_session(as_host(host), [host.known_hosts], hosts.key, seconds=1)


def test_a_name_that_no_one_knows_is_to_be_corrected():
    with pytest.raises(InputError, match="no-such-host"):
        first_key(Host("no-such-host.invalid", 1))


def test_a_node_that_vanishes_beside_another_is_noticed_in_three_seconds(hosts, host):
    other = next(one for one in hosts if one is not host)
    kept = open_session(as_host(other), [other.known_hosts], hosts.key)
    session = open_session(as_host(host), [host.known_hosts], hosts.key)
    process = session.start(["sleep", "100"])
    began = time.monotonic()

    host.cut()

    until(lambda: not session.is_open, what="loss of the session")
    assert time.monotonic() - began < 6  # on a busy machine, and the keep-alive's 9 s otherwise
    until(lambda: process.status == -1, what="loss of its process")
    assert kept.run(["echo", "here"]).output == "here\n"
    session.close()
    kept.close()


def test_this_computers_own_connection_may_break_and_come_back(hosts, host):
    both = [host, next(one for one in hosts if one is not host)]
    sessions = [open_session(as_host(one), [one.known_hosts], hosts.key) for one in both]
    connections = [session._connection.get_extra_info("socket") for session in sessions]

    def silences():
        assert all(session.is_open for session in sessions)
        return [silence(one) for one in connections]

    for one in both:
        one.cut()
    until(lambda: min(silences()) > 3, what="silence of all")
    for one in both:
        one.reconnect()
    until(lambda: max(silences()) < 1, what="answers of all")

    for session in sessions:
        assert session.run(["echo", "here"]).output == "here\n"
        session.close()


def test_a_vanished_node_is_noticed_in_ten_seconds(hosts, host):
    session = open_session(as_host(host), [host.known_hosts], hosts.key)
    process = session.start(["sleep", "100"])
    began = time.monotonic()

    host.cut()

    until(lambda: not session.is_open, what="loss of the session")
    assert 3 < time.monotonic() - began < 12
    until(lambda: process.status == -1, what="loss of its process")
    with pytest.raises(MachineError, match="lost"):
        session.run(["true"])
    session.close()


def test_a_node_that_ends_is_noticed_at_once(hosts, host):
    session = open_session(as_host(host), [host.known_hosts], hosts.key)
    process = session.start(["sleep", "100"])

    host.stop_sshd()

    until(
        lambda: not session.is_open and process.status == -1, what="loss of the session", seconds=3
    )
    session.close()


def test_ports_of_the_nodes_loopback_lead_here_and_no_one_else_reaches_them(hosts):
    with (
        socket.create_server(("127.0.0.1", 0)) as here,
        contextlib.closing(log_in(hosts)) as session,
    ):
        port = here.getsockname()[1]
        session.bring([port])
        session.bring([port])  # again is as good

        asked = session.start(["bash", "-c", f"echo hello > /dev/tcp/127.0.0.1/{port}"])
        here.settimeout(10)
        with here.accept()[0] as connection:
            assert connection.recv(100) == b"hello\n"

        until(lambda: asked.status == 0, what="end of the client")
        other = hosts[1].popen("bash", "-c", f"< /dev/tcp/{hosts[0].address}/{port}", stderr=-3)
        assert other.wait(10) != 0


def test_a_port_that_is_taken_there_is_named(hosts):
    with contextlib.closing(log_in(hosts)) as session:
        process = session.start([sys.executable, "-c", TAKEN])
        until(process.lines, what="server on the node")

        with pytest.raises(MachineError, match="4567"):
            session.bring([4567])


def test_the_key_is_in_no_process_list_and_in_no_log(hosts):
    secret = hosts.key.splitlines()[3]
    with contextlib.closing(log_in(hosts)) as session:
        session.put(hosts.key.encode(), "/tmp/cluster key")
        seen = session.run(["sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ"]).output

    assert secret not in seen
    assert secret not in hosts[0].log


def test_many_sessions_share_one_thread(hosts):
    def threads():  # asyncio's own, which look up addresses, may be several
        return {one for one in threading.enumerate() if not one.name.startswith("asyncio_")}

    log_in(hosts).close()
    before = threads()
    sessions = [log_in(hosts, number % 2) for number in range(6)]

    assert threads() == before
    for session in sessions:
        session.close()


def test_a_persons_own_configuration_keys_and_known_hosts_count(hosts, host, home):
    host.start_sshd("Port 2200")
    (home / "config").write_text(
        f"Host gpu1\n  HostName {host.address}\n  Port 2200\n  User root\n"
        f"  IdentityFile {hosts.folder}/key\n  UserKnownHostsFile {home}/mine\n"
    )
    with pytest.raises(MachineError, match="not known"):
        open_session(Host("gpu1", 1))

    line, _ = first_key(Host("gpu1", 1))
    (home / "mine").write_text(f"{line}\n")

    assert line.startswith(f"[{host.address}]:2200 ssh-ed25519 ")
    with contextlib.closing(open_session(Host("gpu1", 1))) as session:
        assert session.run(["hostname"]).output == f"{host.name}\n"


def test_a_configuration_that_checks_nothing_is_not_followed(hosts, host, home):
    (home / "config").write_text(
        "StrictHostKeyChecking no\nUserKnownHostsFile none\n"
        f"User root\nIdentityFile {hosts.folder}/key\n"
    )

    with pytest.raises(MachineError, match="not known"):
        open_session(Host(host.address, 1))


def test_a_shell_that_talks_first_is_not_taken_for_the_command(hosts, host, home):
    host.run("sh", "-c", f"echo 'echo welcome to the cluster' > {HOME}/.bashrc")
    with contextlib.closing(open_session(as_host(host), [host.known_hosts], hosts.key)) as session:
        assert session.run(["echo", "answer"]).output == "answer\n"


def test_the_heads_own_ssh_reaches_the_others_by_the_configuration_put_there(hosts):
    head, other = hosts
    with contextlib.closing(log_in(hosts)) as session:
        lines = f"{head.known_hosts}\n{other.known_hosts}\n"
        session.put(lines.encode(), "/tmp/cluster/known_hosts")
        session.put(hosts.key.encode(), "/tmp/cluster/key")
        text = agent_config([as_host(other)], "/tmp/cluster/known_hosts", "/tmp/cluster/key")
        session.put(text.encode(), "/tmp/cluster/ssh_config")

        done = session.run(["ssh", "-F", "/tmp/cluster/ssh_config", other.address, "hostname"])
        wrong = known_hosts_line(other.address, head.known_hosts.partition(" ")[2])
        session.put(f"{wrong}\n".encode(), "/tmp/cluster/known_hosts")
        refused = session.run(["ssh", "-F", "/tmp/cluster/ssh_config", other.address, "hostname"])

    assert done.output == f"{other.name}\n"
    assert refused.status == 255
