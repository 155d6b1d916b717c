"""A cluster on the rehearsal's EC2, from start to deletion: machines, ssh and MPI are real."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import boto3
import psutil
import pytest

from tests import waiting
from tests.notebook.kernel import Answer, Notebook
from tests.rehearsal.ec2.endpoint import Endpoint
from tests.rehearsal.hosts import PLACE, Hosts, RehearsalHost
from workbench.cloud.ec2.description import DISK_GIB, extra_price
from workbench.cloud.ec2.provider import Ec2
from workbench.cloud.hosts.ssh import SshSession, open_session
from workbench.cloud.rented.leases import NodeLeases
from workbench.core.cluster.model import ClusterState
from workbench.core.fleet.model import Node, NodeState
from workbench.core.fleet.purchases import PurchaseOutcome
from workbench.core.run.model import RunState
from workbench.core.world.world import Host
from workbench.requests.supervisor import wake_supervisor
from workbench.store import Store

pytestmark = [pytest.mark.root, pytest.mark.mpi, pytest.mark.timeout(600)]

REGION = "us-east-1"
NAME = "rented"
PROGRAMS = Path(__file__).parent / "programs"
TRAIN = (PROGRAMS / "losses.py").read_text()
WORKBENCH = Path(sys.executable).with_name("workbench")
LONG_STEPS = 120
LONG = f"""
import time
import workbench
from mpi4py import MPI
for i in range(1, {LONG_STEPS} + 1):
    time.sleep(0.05)
    workbench.report(loss=MPI.COMM_WORLD.allreduce(1.0) / i, total={LONG_STEPS})
"""


class Shell:
    """A person at a shell, with a data directory of their own."""

    def __init__(self, endpoint: Endpoint, folder: Path) -> None:
        self.endpoint = endpoint
        self.home = folder / "home"
        self.script = folder / "train.py"
        self.script.write_text(TRAIN)
        self.store = Store()
        self.ec2 = boto3.client("ec2", region_name=REGION)
        self.ssh_source = endpoint.ssh_source

    def do(self, *words: str, seconds: float = 240.0) -> str:
        """Run a command to its end, and return what it said."""
        done = subprocess.run(
            [WORKBENCH, *words],
            check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
            timeout=seconds, cwd=self.script.parent,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}{self.log()}"
        return done.stdout

    def up(self, nodes: int, *more: str, seconds: float = 240.0) -> str:
        """Ask for nodes."""
        size = ("--nodes", str(nodes), "--type", "c5.large", "--ttl", "1h")
        where = ("--ec2", "--region", REGION, "--ssh-from", self.ssh_source)
        return self.do("up", *where, *size, "--yes", "--cluster", NAME, *more, seconds=seconds)

    def run(self) -> set[str]:
        """Run the script on all ranks, and return the hosts on which they were."""
        said = self.do("run", "--cluster", NAME, str(self.script))
        return set(re.findall(r"rank \d+ of \d+ on (\S+)", said))

    def log(self) -> str:
        """What the supervisors said."""
        path = self.home / "clusters" / NAME / "supervisor.log"
        return path.read_text() if path.exists() else ""

    def nodes(self, state: NodeState | None = None) -> list[Node]:
        """The nodes as they are written down, in one state or that are not gone."""
        return [n for n in self.store.fleets.nodes(NAME) if state in (None, n.state)]

    def joined(self, count: int) -> list[Node] | None:
        """The nodes, once so many carry a world that is ready."""
        found, fact = self.nodes(NodeState.JOINED), self.store.cluster_fact(NAME)
        is_ready = fact.state is ClusterState.READY and fact.ranks == count == len(self.nodes())
        return found if is_ready and len(found) == count else None

    def launched(self) -> list[str]:
        """Every machine that was ever launched."""
        rows = self.ec2.describe_instances()["Reservations"]
        return [one["InstanceId"] for row in rows for one in row["Instances"]]

    def supervisor(self) -> psutil.Process | None:
        """The process that supervises; None while there is none."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                command = process.cmdline()[1:]
                is_ours = process.environ().get("WORKBENCH_HOME") == str(self.home)
                if command == ["-m", "workbench.supervisor", NAME] and is_ours:
                    return process
        return None

    def kill(self) -> None:
        """End the supervisor, as when the power goes."""
        process = until(self.supervisor, what="a supervisor")
        process.send_signal(signal.SIGKILL)
        process.wait(30)

    def nothing_is_left(self) -> None:
        """See for oneself that there is nothing: at the place, on this machine, in the folder."""
        ec2 = self.ec2
        rows = ec2.describe_instances()["Reservations"]
        assert {one["State"]["Name"] for row in rows for one in row["Instances"]} <= {"terminated"}
        groups = ec2.describe_security_groups()["SecurityGroups"]
        assert {group["GroupName"] for group in groups} == {"default"}
        assert ec2.describe_launch_templates()["LaunchTemplates"] == []
        assert ec2.describe_key_pairs()["KeyPairs"] == []
        assert ec2.describe_volumes()["Volumes"] == []
        assert ec2.describe_placement_groups()["PlacementGroups"] == []
        requests = ec2.describe_spot_instance_requests()["SpotInstanceRequests"]
        assert {request["State"] for request in requests} <= {"closed", "cancelled"}
        assert Ec2(REGION).leftovers() == ()
        until(lambda: not hosts_of(self.endpoint), what="no host")
        until(lambda: self.supervisor() is None, what="no supervisor")
        folder = self.home / "clusters" / NAME
        assert {path.name for path in folder.iterdir()} <= {
            "profile", "supervisor.lock", "supervisor.log", "watchdog.lock", "known_hosts",
        }  # fmt: skip
        assert self.store.fleets.nodes(NAME, gone=True) == []


class Watch(threading.Thread):
    """Looks for secrets where other users could see them, again and again.

    Args:
        secrets: Returns what must not be seen, as it is known by then.
    """

    def __init__(self, secrets: Callable[[], set[bytes]]) -> None:
        super().__init__(daemon=True)
        self._secrets = secrets
        self._end = threading.Event()
        self.looks = 0
        self.seen: set[str] = set()

    def run(self) -> None:
        while not self._end.wait(0.1):
            secrets = self._secrets()
            self.looks += bool(secrets)
            for place in Path("/proc").glob("[0-9]*"):
                for name in ("cmdline", "environ"):
                    with contextlib.suppress(OSError):
                        text = (place / name).read_bytes()
                        if any(secret in text for secret in secrets):
                            self.seen.add(f"{name} of {(place / 'comm').read_text()}")

    def end(self) -> None:
        self._end.set()
        self.join(30)


until = partial(waiting.until, seconds=200.0)


def hosts_of(endpoint: Endpoint) -> list[Path]:
    """The folders of the hosts behind the endpoint's instances."""
    for place in PLACE.glob("*/owner"):
        if json.loads(place.read_text())[0] == endpoint.pid:
            return [path for path in place.parent.iterdir() if path.is_dir()]
    return []


def heart(key: str) -> bytes:
    """A line from the middle of a private key."""
    return key.strip().splitlines()[-3].encode()


def host_keys(endpoint: Endpoint) -> set[bytes]:
    """Lines of the private keys that sshd has on the endpoint's hosts now."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError, IndexError):
            if process.name() == "sshd" and f"wbr{endpoint.pid}x" in " ".join(process.cmdline()):
                root = Path("/proc", str(process.pid), "root/etc/ssh")
                found.add(heart((root / "ssh_host_ed25519_key").read_text()))
    return found


@contextlib.contextmanager
def open_shell(endpoint: Endpoint, folder: Path) -> Iterator[Shell]:
    """Give a shell on an endpoint that has nothing yet; what a failed test left is deleted."""
    endpoint.reset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", endpoint.url)
        patch.setenv("WORKBENCH_HOME", str(folder / "home"))
        shell = Shell(endpoint, folder)
        yield shell
        endpoint.clear_faults()
        wish = shell.store.cluster_wish(NAME)
        if shell.supervisor() or (wish and wish.up):
            with contextlib.suppress(AssertionError):
                shell.do("delete", "--cluster", NAME)
        shell.store.close()


@pytest.fixture
def shell(one_endpoint: Endpoint, tmp_path: Path) -> Iterator[Shell]:
    with open_shell(one_endpoint, tmp_path) as shell:
        yield shell


@pytest.mark.weekly
def test_nodes_on_demand_run_at_their_fixed_price_without_a_spot_request(shell: Shell) -> None:
    shell.up(2, "--on-demand")
    first = shell.nodes()

    assert len(shell.run()) == 2

    each = 0.1 + extra_price(DISK_GIB, public=True)
    assert [node.price for node in first] == pytest.approx([each] * 2)
    rows = shell.ec2.describe_instances()["Reservations"]
    assert not any("InstanceLifecycle" in one for row in rows for one in row["Instances"])
    assert shell.ec2.describe_spot_instance_requests()["SpotInstanceRequests"] == []
    shell.do("delete", "--cluster", NAME)
    shell.nothing_is_left()


def test_from_the_shell_two_nodes_then_three_then_two_then_nothing(shell: Shell) -> None:
    folder = shell.home / "clusters" / NAME
    known: set[bytes] = set()
    looked = 0.0

    def secrets() -> set[bytes]:
        nonlocal looked
        if time.monotonic() - looked > 0.5:  # keys that are there once stay
            looked = time.monotonic()
            with contextlib.suppress(OSError):
                known.add(heart((folder / "key").read_text()))
            known.update(host_keys(shell.endpoint))
        return known

    watch = Watch(secrets)
    watch.start()

    shell.up(2)
    first = shell.nodes()
    two = shell.run()
    shell.do("resize", "--nodes", "3", "--cluster", NAME, "--yes")
    three = shell.run()
    shell.do("resize", "--nodes", "2", "--cluster", NAME)
    fewer = shell.run()
    watch.end()

    assert len(two) == 2
    assert two < three
    assert len(three) == 3
    assert fewer < three
    assert len(fewer) == 2
    [head] = [node for node in first if node.head]
    assert f"ip-{head.address.replace('.', '-')}" in fewer
    assert all(node.spent > 0 and node.price > 0 for node in first)

    # What was let in, and what is secret, while the nodes are there.
    [group] = [
        one for one in shell.ec2.describe_security_groups()["SecurityGroups"]
        if one["GroupName"] != "default"
    ]  # fmt: skip
    ports = [(one.get("FromPort"), one["IpRanges"]) for one in group["IpPermissions"]]
    assert [(port, ranges[0]["CidrIp"]) for port, ranges in ports if ranges] == [
        (22, f"{shell.ssh_source}/32")
    ]
    assert watch.looks > 20
    assert watch.seen == set()
    thrown_away = {
        heart(json.loads(text.removeprefix("#cloud-config\n"))["ssh_keys"]["ed25519_private"])
        for text in (shell.endpoint.instance(id_)["user_data"] for id_ in shell.launched())
    }
    assert len(thrown_away) == 2  # two purchases
    assert len(known - thrown_away) == 1 + 3
    for name in ("key", "host_keys.json"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in (path for path in shell.home.rglob("*") if path.is_file()):
        kept = {secret for secret in known if secret in path.read_bytes()}
        assert not kept or path == folder / "key" or kept <= thrown_away, path
        assert not kept or path.stat().st_mode & 0o077 == 0, path
    assert boto3.client("s3", region_name=REGION).list_buckets()["Buckets"] == []

    said = shell.do("delete", "--cluster", NAME)

    assert "no resource of it is left" in said
    assert len(shell.launched()) == 3
    shell.nothing_is_left()


TRAINED = f"%%dist_train --cluster {NAME} --name {{}}\n{TRAIN}"


@pytest.mark.weekly  # the shell's life of the same nodes is above
@pytest.mark.parametrize("sizes", [(2,), (3, 4, 2)], ids=["two", "three sizes"])
def test_from_a_notebook_nodes_train_in_each_size_and_nothing_is_left(
    shell: Shell, sizes: tuple[int, ...]
) -> None:
    notebook = Notebook()

    def do(cell: str) -> Answer:
        answer = notebook.run(cell)
        assert not answer.error, answer.error
        return answer

    try:
        first, *others = sizes
        variables = {
            "NAME": NAME,
            "REGION": REGION,
            "SSH_SOURCE": shell.ssh_source,
            "NODES": str(first),
        }
        do(f"import os\nos.environ |= {variables!r}")
        asked = do((PROGRAMS / "buy_by_widget.py").read_text())
        trained = [do(TRAINED.format("first"))]
        for number, size in enumerate(others):
            if size > sizes[number]:
                do(f"%dist_resize --nodes {size} --yes --wait --cluster {NAME}")
            else:
                do(f"panel.nodes.value = {size}")
                do("until(lambda: not panel.resize.disabled, what='Resize')\npanel.resize.click()")
                until(lambda size=size: shell.joined(size), what=f"{size} nodes", said=shell.log)
            trained.append(do(TRAINED.format(f"resized-{number}")))
        do("panel.end.click()\npanel.delete.yes.click()")
        until(lambda: shell.store.cluster_fact(NAME).state is ClusterState.DOWN, what="the end")
        proof = "until(lambda: 'no resource of cluster' in panel.message.value, what='the proof')"
        proved = do(f"{proof}\nprint(panel.message.value)")
    finally:
        notebook.close()

    assert "/h" in asked.text
    for answer, ranks in zip(trained, sizes, strict=True):
        shown = "\n".join([answer.text, *answer.all("text/plain")])
        assert len(set(re.findall(r"rank \d+ of \d+ on (\S+)", shown))) == ranks
        assert answer.all("application/vnd.workbench.run+json")
    assert "no resource of cluster" in proved.text
    shell.nothing_is_left()


def test_the_successor_of_a_killed_supervisor_continues_and_buys_nothing_twice(
    shell: Shell, tmp_path: Path
) -> None:
    prepare = tmp_path / "prepare.sh"
    prepare.write_text("sleep 2\n")
    host_keys = shell.home / "clusters" / NAME / "host_keys.json"

    def kill_when(look: Callable[[], object], what: str, pause: float = 0.02) -> None:
        until(look, what=what, pause=pause)
        shell.kill()

    def purchases() -> list[PurchaseOutcome]:
        return [record.outcome for record in shell.store.fleets.purchases(NAME)]

    def key_is_made_and_not_shown() -> bool:
        return host_keys.exists() and '"shown": false' in host_keys.read_text()

    # The order is written, and nothing can be bought.
    shell.endpoint.settings(boot=6.0)
    shell.endpoint.fail("CreateFleet", "InternalError", times=-1)
    shell.up(2, "--prepare", str(prepare), "--no-wait")
    kill_when(purchases, "the order")
    assert purchases() == [PurchaseOutcome.WRITTEN]
    assert shell.launched() == []
    shell.endpoint.clear_faults()

    # It is bought, and the answer never comes.
    shell.endpoint.fail("CreateFleet", "InternalError", times=-1, after=True)
    wake_supervisor(NAME)
    kill_when(shell.launched, "the machines")
    shell.endpoint.clear_faults()

    wake_supervisor(NAME)
    kill_when(lambda: len(shell.nodes()) == 2, "nodes that boot")
    assert {node.state for node in shell.nodes()} <= {NodeState.ASKED, NodeState.BOOTING}

    wake_supervisor(NAME)
    kill_when(key_is_made_and_not_shown, "a key of a node's own", pause=0.005)

    wake_supervisor(NAME)
    kill_when(lambda: any("prepare" in n.message for n in shell.nodes()), "the preparation")

    wake_supervisor(NAME)
    before = until(lambda: shell.joined(2), what="two nodes that joined")
    generation = shell.store.cluster_fact(NAME).generation
    shell.script.write_text(LONG)
    shell.do("run", "--background", "--cluster", NAME, str(shell.script))
    [run] = shell.store.list_unfinished(NAME)
    kill_when(lambda: shell.store.run(run.id).fact.iteration > 5, "a run that is on")

    # The last one resumes the running world and its run, which was not disturbed.
    wake_supervisor(NAME)
    until(lambda: shell.store.run(run.id).fact.state.ended, what="the run's end")
    assert shell.store.run(run.id).fact.state is RunState.FINISHED, shell.log()
    assert shell.store.cluster_fact(NAME).generation == generation, shell.log()
    assert {node.id for node in shell.nodes()} == {node.id for node in before}
    points = [point.iteration for point in shell.store.reports.points(run.id) if point.rank == 0]
    assert points == list(range(1, LONG_STEPS + 1))

    # And then all of it is deleted, though that is cut off too.
    shell.endpoint.settings(ending=4.0)
    shell.do("delete", "--cluster", NAME, "--no-wait")
    kill_when(lambda: any(n.state is NodeState.LEAVING for n in shell.nodes()), "an end")
    shell.do("delete", "--cluster", NAME)

    calls = [params for action, params in shell.endpoint.calls() if action == "CreateFleet"]
    tokens = {one["ClientToken"] for one in calls if one.get("DryRun") is None}
    assert len(tokens) == 1
    assert len(shell.launched()) == 2
    shell.nothing_is_left()


def test_a_node_ends_itself_when_no_one_attends_to_it_any_longer(possible: None) -> None:
    with Hosts(1) as hosts, contextlib.closing(logged_in(hosts[0], hosts.key)) as session:
        leases = NodeLeases("lab", lambda: 0.0, seconds=lambda: 5.0, renewal=1)
        leases.begin("i-1", session)
        leases.lease(session)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            assert leases.turn() == {}
            time.sleep(0.2)
        lived = hosts[0].is_up

        until(lambda: not hosts[0].is_up, what="the node's end", seconds=60)

    assert lived


def logged_in(host: RehearsalHost, key: str) -> SshSession:
    return open_session(Host(host.address, 1, user="root"), [host.known_hosts], key)
