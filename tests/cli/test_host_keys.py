"""A host's key is shown once for a yes, and nothing is logged in to before."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.rehearsal.conftest import possible
from tests.rehearsal.hosts import Hosts, RehearsalHost
from workbench.cli import main
from workbench.core.world.known_hosts import fingerprint
from workbench.store.paths import cluster_directory, trusted_lines

__all__ = ["possible"]
pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def hosts(possible: None) -> Iterator[Hosts]:
    with Hosts(2) as hosts:
        yield hosts


@pytest.fixture
def host(hosts: Hosts) -> Iterator[RehearsalHost]:
    """A host that a test may spoil."""
    host = hosts.start()
    yield host
    hosts.stop(host)


@pytest.fixture(autouse=True)
def person(hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be a user whose own key the hosts accept, and who knows none of them."""
    ssh = tmp_path / "person" / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    key = ssh / "id_ed25519"
    key.touch(0o600)
    key.write_text(hosts.key)
    monkeypatch.setenv("HOME", str(ssh.parent))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return ssh


def written(hosts: Hosts) -> str:
    Path("hosts.txt").write_text("".join(f"root@{host.address}\n" for host in hosts))
    return "hosts.txt"


def test_unknown_keys_are_shown_once_and_kept_after_a_yes(hosts, actor, store):
    result = CliRunner().invoke(main, ["up", "--hosts", written(hosts)], input="y\n")
    again = CliRunner().invoke(main, ["up", "--hosts", "hosts.txt"])

    for host in hosts:
        shown = f"{host.address} has an unknown host key: "
        assert f"{shown}{fingerprint(host.known_hosts)}\n" in result.stdout
    assert trusted_lines("default") == tuple(host.known_hosts for host in hosts)
    path = cluster_directory("default") / "known_hosts"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "host key" not in again.stdout
    assert "ranks on 2 of 2 nodes" in again.stdout, again.stderr


def test_each_host_says_how_many_ranks_it_carries(hosts, actor, store):
    CliRunner().invoke(main, ["up", "--hosts", written(hosts)], input="y\n")

    cores = len(os.sched_getaffinity(0))
    assert [host.slots for host in store.cluster_wish("default").fleet.hosts] == [cores, cores]


@pytest.mark.parametrize("more", [[], ["--yes"], ["--accept-keys", "SHA256:another"]])
def test_nothing_is_started_or_trusted_without_a_yes_to_the_keys(hosts, store, more):
    logged = [host.log.count("Accepted publickey") for host in hosts]

    result = CliRunner().invoke(main, ["up", "--hosts", written(hosts), *more])

    assert result.exit_code == 2
    assert "The host keys were not confirmed, so nothing was started" in result.stderr
    assert f"--accept-keys {fingerprint(hosts[0].known_hosts)}" in result.stderr
    assert (store.clusters(), trusted_lines("default")) == ([], ())
    assert [host.log.count("Accepted publickey") for host in hosts] == logged


def test_fingerprints_that_were_given_are_a_yes(hosts, actor, workbench, store):
    shown = ",".join(fingerprint(host.known_hosts) for host in hosts)

    result = workbench("up", "--hosts", written(hosts), "--accept-keys", shown)

    assert result.exit_code == 0
    assert len(trusted_lines("default")) == 2


def test_a_key_that_the_person_knows_needs_no_question(hosts, actor, workbench, store, person):
    (person / "known_hosts").write_text("".join(f"{host.known_hosts}\n" for host in hosts))

    result = workbench("up", "--hosts", written(hosts))

    assert result.exit_code == 0
    assert trusted_lines("default") == tuple(host.known_hosts for host in hosts)


def test_a_key_that_has_changed_is_refused_whatever_is_said(host, actor, workbench, store, person):
    (person / "known_hosts").write_text(f"{host.known_hosts}\n")
    host.new_host_key()
    host.start_sshd()

    result = workbench(
        "up", "--host", f"root@{host.address}", "--accept-keys", fingerprint(host.known_hosts)
    )

    assert result.exit_code == 1
    assert "shows another host key than the known one" in result.stderr
    assert (store.clusters(), trusted_lines("default")) == ([], ())


def test_who_is_not_let_in_starts_nothing(host, workbench, store, person):
    (person / "known_hosts").write_text(f"{host.known_hosts}\n")
    (person / "id_ed25519").unlink()

    result = workbench("up", "--host", f"root@{host.address}")

    assert result.exit_code == 1
    assert "refuses the login of root" in result.stderr
    assert store.clusters() == []


def test_the_doctor_looks_at_hosts_and_names_each(hosts, workbench, person):
    (person / "known_hosts").write_text("".join(f"{host.known_hosts}\n" for host in hosts))

    result = workbench("doctor", "--hosts", written(hosts))
    whole = workbench("doctor", "--hosts", written(hosts), "--all")

    for host in hosts:
        assert re.search(rf"^{host.address} +✓ good", result.stdout, re.MULTILINE)
        assert f"{host.address}: ssh " in whole.stdout
        assert f"{host.address}: versions" in whole.stdout


def test_the_doctor_of_a_cluster_looks_at_its_hosts(hosts, actor, workbench, store):
    CliRunner().invoke(main, ["up", "--hosts", written(hosts)], input="y\n")

    result = workbench("doctor")

    assert "MPI test" in result.stdout
    assert re.search(rf"^{hosts[0].address} +✓ good +ssh, environment", result.stdout, re.MULTILINE)
