"""A rented node is trusted by its temporary key once, and by its own key afterwards."""

from __future__ import annotations

import contextlib

import pytest

from tests.rehearsal.hosts import Hosts, RehearsalHost
from workbench.cloud.rented.bootstrap import greet
from workbench.cloud.rented.ssh_keys import HostKey, KeyRing
from workbench.cloud.rented.userdata import make_host_key, show_host_key
from workbench.core.fleet.model import Machine, MachineState
from workbench.errors import MachineError

pytestmark = pytest.mark.root
ETC = "/etc/ssh/ssh_host_ed25519_key"


class Bench:
    """A host whose sshd shows what lies in its ``/etc``, as a rented one's does."""

    def __init__(self, hosts: Hosts, ring: KeyRing) -> None:
        self.ring = ring
        self.host: RehearsalHost = hosts.start(authorized=[ring.public], sshd=False)
        self.first = " ".join((self.host.folder / "host_key.pub").read_text().split()[:2])
        for ending in ("", ".pub"):
            path = self.host.folder / f"host_key{ending}"
            text = path.read_text()
            write = f"umask 077; rm -f {ETC}{ending}; cat > {ETC}{ending}"
            self.host.run("sh", "-c", write, input=text)
            path.unlink()
            path.symlink_to(f"{ETC}{ending}")
        self.host.start_sshd()
        self.machine = Machine(
            "i-1", MachineState.RUNNING, self.host.address, self.host.address, slots=1
        )

    def greet(self, first: str = "") -> HostKey:
        """Log in, and return what is written down then."""
        with contextlib.closing(greet(self.machine, self.ring, first, "root")) as session:
            assert session.run(["true"]).status == 0
        known = self.ring.of("i-1")
        assert known is not None
        return known

    def key(self) -> str:
        """Have the host make its key, and return it."""
        return self.host.run("sh", "-c", make_host_key()).strip()


@pytest.fixture
def bench(hosts, tmp_path):
    return Bench(hosts, KeyRing(tmp_path))


def test_at_first_a_node_makes_its_own_key_and_then_only_that_one_counts(bench):
    own = bench.greet(bench.first)
    again = bench.greet("")

    assert own.shown
    assert own.key != bench.first
    assert again == own


def test_without_the_clusters_key_no_other_keys_are_tried(bench, tmp_path):
    (tmp_path / "key").unlink()

    with pytest.raises(MachineError, match="The cluster's private key is gone"):
        bench.greet(bench.first)


def test_a_node_without_a_recorded_key_is_not_entered(bench):
    with pytest.raises(MachineError, match="No host key is on record"):
        bench.greet("")


def test_cut_off_before_the_key_is_written_down_it_is_the_same_key(bench):
    made = bench.key()

    assert bench.greet(bench.first).key == made


def test_cut_off_before_the_key_is_shown_the_first_one_still_counts(bench):
    bench.ring.note(HostKey("i-1", bench.host.address, bench.key()))

    assert bench.greet(bench.first).shown


def test_cut_off_after_the_key_is_shown_it_is_known(bench):
    bench.ring.note(HostKey("i-1", bench.host.address, bench.key()))
    bench.host.run("sh", "-c", show_host_key())

    assert bench.greet(bench.first).shown


def test_once_the_own_key_was_seen_the_first_one_counts_no_longer(bench):
    bench.ring.note(HostKey("i-1", bench.host.address, bench.key(), shown=True))

    with pytest.raises(MachineError, match="shows another host key"):
        bench.greet(bench.first)
