"""Keys are generated once, are readable by their owner alone, and are deleted with the nodes."""

from __future__ import annotations

import subprocess

import pytest

from workbench.cloud.rented.ssh_keys import HostKey, KeyRing
from workbench.errors import MachineError
from workbench.store.paths import cluster_directory, trust
from workbench.supervisor.process import login_of

ONE = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP6zb0uHTWWPN4AoKPlwwgQWmhFJpMzqBxQfHzhMvZIB"
TWO = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILZlsqfs2NXK6nVnCNW8IKMJRaxtDSrXZJVtQxE3b4pC"


@pytest.fixture
def ring(tmp_path):
    return KeyRing(tmp_path)


def test_the_users_key_is_made_when_it_is_first_asked_for_and_stays(ring, tmp_path):
    before = ring.private

    public = ring.public

    assert before == ""
    assert KeyRing(tmp_path).public == public
    assert public.startswith("ssh-ed25519 ")
    assert [(p.name, p.stat().st_mode & 0o777) for p in tmp_path.iterdir()] == [("key", 0o600)]
    reported = subprocess.run(
        ["ssh-keygen", "-y", "-f", tmp_path / "key"], check=True, capture_output=True, text=True
    )
    assert reported.stdout.split()[:2] == public.split()[:2]


def test_who_has_an_address_now_had_no_one_elses_key(ring):
    ring.note(HostKey("i-1", "10.0.0.4", ONE, shown=True))
    ring.note(HostKey("i-2", "10.0.0.4", TWO))

    assert ring.of("i-1") is None
    assert ring.of("i-2") == HostKey("i-2", "10.0.0.4", TWO)
    assert ring.lines() == (f"10.0.0.4 {TWO}",)


def test_nothing_is_left_once_all_is_deleted(ring, tmp_path):
    assert ring.public
    ring.note(HostKey("i-1", "10.0.0.4", ONE))

    ring.discard()
    ring.discard()

    assert list(tmp_path.iterdir()) == []
    assert ring.of("i-1") is None


def test_a_key_that_cannot_be_read_is_reported(ring, tmp_path):
    (tmp_path / "key").write_text("no key")

    with pytest.raises(MachineError, match="cannot be read"):
        assert ring.public


def test_the_head_knows_rented_nodes_by_their_own_keys_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    trust("lab", [f"10.0.0.4 {ONE}", f"10.0.0.5 {ONE}"])
    empty = login_of("lab")
    ring = KeyRing(cluster_directory("lab"))
    ring.note(HostKey("i-1", "10.0.0.4", TWO, shown=True))
    assert ring.public

    login = login_of("lab")

    assert (len(empty.known_hosts), empty.key) == (2, "")
    assert {*login.known_hosts} == {f"10.0.0.5 {ONE}", f"10.0.0.4 {TWO}"}
    assert login.key == ring.private
    assert login.key not in repr(login)


def test_the_head_knows_hosts_that_were_confirmed_by_name_by_their_addresses_too(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    # The hexadecimal form of an address is resolved as a name is.
    trust("lab", [f"0x0a000004 {ONE}", f"[0x0a000005]:2222 {ONE}", f"0x0a000006 {ONE}"])
    trust("lab", [f"10.0.0.6 {TWO}", f"no-such-host.invalid {TWO}", f"localhost {TWO}"])

    lines = login_of("lab").known_hosts

    by_address = {line for line in lines if line.partition(" ")[0].strip("[").startswith("10.")}
    assert by_address == {f"10.0.0.4 {ONE}", f"[10.0.0.5]:2222 {ONE}", f"10.0.0.6 {TWO}"}
    assert len(lines) == len(by_address) + 5
