from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import pytest

from tests.rehearsal.ec2.endpoint import Endpoint
from tests.rehearsal.hosts import PLACE, make_key
from tests.waiting import until
from workbench.cloud.ec2.provider import Ec2
from workbench.cloud.hosts.ssh import open_session
from workbench.cloud.rented.userdata import (
    BootData,
    is_ready,
    make_host_key,
    show_host_key,
    user_data,
)
from workbench.core.fleet.model import MachineState, Purchase
from workbench.core.world.world import Host
from workbench.errors import WorkbenchError

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]
METADATA = str(Path(__file__).parent / "programs" / "metadata.py")


@pytest.fixture(scope="module")
def endpoint(one_endpoint):
    one_endpoint.reset()
    return one_endpoint


class Bench:
    """A cluster on the rehearsal's EC2, with the keys that its nodes were given."""

    def __init__(self, endpoint, folder, cluster):
        self.endpoint = endpoint
        self.cluster = cluster
        for name in ("host", "user"):
            make_key(folder / name)
        self.key = (folder / "user").read_text()
        self.public = (folder / "user.pub").read_text()
        self.host_key = (folder / "host").read_text()
        self.host_public = (folder / "host.pub").read_text()
        self.cloud = Ec2("us-east-1", endpoint=endpoint.url)

    def buy(self, count, **changes):
        boot = BootData(
            cluster=self.cluster,
            host_key=self.host_key,
            host_public=self.host_public,
            user_key=self.public,
            python="3.11",
            **({"user": "root"} | changes),
        )
        purchase = Purchase(self.cluster, f"{self.cluster}-1", 0, count, count, ("c5.large",))
        self.cloud.buy(purchase, user_data(boot), [])
        until(lambda: len(self.running()) == count, what="the nodes")
        return self.running()

    def running(self):
        machines = self.cloud.machines(self.cluster)
        return [one for one in machines if one.state is MachineState.RUNNING]

    def log_in(self, machine, public="", user="root"):
        kind, key, *_ = (public or self.host_public).split()
        host = Host(machine.reach, 1, user=user)
        return open_session(host, [f"{machine.reach} {kind} {key}"], self.key)

    def clean(self):
        until(lambda: not self.cloud.clean(self.cluster), what="nothing to be left", seconds=90)


@pytest.fixture(scope="module")
def one_node(endpoint, tmp_path_factory):
    """Give a node that a test must leave as it is, and its cluster."""
    bench = Bench(endpoint, tmp_path_factory.mktemp("one"), "one")
    endpoint.settings(late=1.0)  # as in life, what was just made is unknown at first
    [node] = bench.buy(1)
    endpoint.settings(late=0.0)
    yield bench, node
    bench.clean()


@pytest.fixture
def bench(endpoint, tmp_path, request):
    bench = Bench(endpoint, tmp_path, f"c{abs(hash(request.node.name)) % 10**6}")
    yield bench
    bench.clean()


def test_a_node_says_when_it_is_set_up(one_node):
    bench, node = one_node

    with contextlib.closing(bench.log_in(node)) as session:
        done = session.run(["sh", "-c", is_ready(60)], seconds=90)

    assert (done.status, done.errors) == (0, "")


def test_metadata_is_not_given_without_a_token(one_node):
    bench, node = one_node
    ask = "import urllib.request as r; r.urlopen('http://169.254.169.254/latest/user-data')"

    with contextlib.closing(bench.log_in(node)) as session:
        done = session.run([sys.executable, "-c", ask])

    assert "401" in done.errors


def test_nodes_show_the_throw_away_key_and_then_one_of_their_own(bench):
    [node] = bench.buy(1)

    with contextlib.closing(bench.log_in(node)) as session:
        own = session.run(["sh", "-c", make_host_key()]).output
        shown = session.run(["sh", "-c", show_host_key()])
        with contextlib.closing(bench.log_in(node, own)) as second:
            said = second.run(["hostname"]).output
    with pytest.raises(WorkbenchError):
        bench.log_in(node)

    assert (shown.status, shown.errors) == (0, "")
    assert own.split()[0] == "ssh-ed25519"
    assert own.split()[1] not in bench.host_public
    assert said.strip() == f"ip-{node.address.replace('.', '-')}"


def test_a_user_of_the_nodes_own_can_log_in(bench):
    [node] = bench.buy(1, user="workbench")

    with contextlib.closing(bench.log_in(node, user="workbench")) as session:
        assert session.run(["whoami"]).output.strip() == "workbench"
        own = session.run(["sudo", "-n", "sh", "-c", make_host_key()]).output
        session.run(["sudo", "-n", "sh", "-c", show_host_key()])

    with contextlib.closing(bench.log_in(node, own, user="workbench")) as session:
        assert session.run(["sudo", "-n", "whoami"]).output.strip() == "root"


def test_a_node_learns_of_its_interruption_from_its_own_metadata(bench):
    first, second = bench.buy(2)
    paths = ["meta-data/instance-id", "meta-data/spot/instance-action"]

    with contextlib.closing(bench.log_in(first)) as session:
        before = session.run([sys.executable, METADATA, *paths]).output.split("\n")
        bench.endpoint.interrupt(first.id, 120)
        asked = [sys.executable, METADATA, *paths]
        until(lambda: "terminate" in session.run(asked).output, what="the notice")
        bench.endpoint.interrupt(first.id, 0)  # the two minutes are over
        until(lambda: not session.is_open, what="the end")
    until(lambda: len(bench.running()) == 1, what="one to be gone")

    [gone] = [one for one in bench.cloud.machines(bench.cluster) if one.id == first.id]
    assert before[:2] == [first.id, "404"]
    assert gone.interrupted
    assert [one.id for one in bench.running()] == [second.id]


def test_a_node_without_a_lease_shuts_down_without_any_right(bench):
    bench.buy(1, boot_seconds=1)

    until(lambda: not bench.running(), what="the node to end itself", seconds=60)


def test_after_the_end_nothing_is_left_of_the_hosts(possible, tmp_path):
    with Endpoint(machines=True) as endpoint:
        bench = Bench(endpoint, tmp_path, "last")
        bench.buy(2)
        mine = {json.loads((path / "owner").read_text())[0]: path for path in PLACE.glob("*/")}

    assert mine
    assert endpoint.pid in mine
    assert not mine[endpoint.pid].exists()
