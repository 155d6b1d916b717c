"""Nodes of the rehearsal's EC2 as the stage: each is a host with sshd, and with a cable."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Self

from tests.chaos.faults import FORK_SERVER, Faults
from tests.chaos.play import CLUSTER, until
from tests.rehearsal.ec2.endpoint import Endpoint
from tests.rehearsal.hosts import PLACE
from workbench.core.cluster.model import ClusterState
from workbench.core.cluster.size import Size
from workbench.core.fleet.model import FleetWish, Needs, Node, NodeState
from workbench.requests.cluster import ask_cluster, ask_down, ask_size
from workbench.requests.supervisor import supervisor_is_awake
from workbench.store import Store

REGION = "us-east-1"
ENGINE = "workbench.cluster.engine"
FORKS = (FORK_SERVER, "workbench.node.agent")
NODES = 3
LEAST = 2  # that carry ranks when the next fault comes
NOTICE_SECONDS = 15.0  # two minutes in reality
SILENT_SECONDS = 6.0  # until the provider ends what is out of reach for good
READY_SECONDS = 180.0
LIVING = ("pending", "running")
COMING = (NodeState.ASKED, NodeState.BOOTING, NodeState.VERIFIED, NodeState.READY)
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


class Nodes:
    """A cluster of spot nodes; a context, at whose end the place and its hosts are gone."""

    def __init__(self) -> None:
        self._endpoint = Endpoint(machines=True)
        self._ends = ExitStack()
        self._pulled: list[Node] = []
        self._broken: list[Node] = []

    def __enter__(self) -> Self:
        self._ends.enter_context(self._endpoint)
        os.environ |= ENVIRONMENT | {"AWS_ENDPOINT_URL": self._endpoint.url}
        return self

    def __exit__(self, *exception: object) -> None:
        self._ends.close()

    @contextmanager
    def cluster(self, store: Store) -> Iterator[None]:
        """Have a cluster of three nodes with a rank on each."""
        self._store = store
        fleet = FleetWish(
            "ec2",
            nodes=NODES,
            slots=1,
            needs=Needs(types=("c5.large",)),
            region=REGION,
            settings=(("ssh_from", f"{self._endpoint.ssh_source}/32"),),
            expires=time.time() + 7200.0,
        )
        ask_cluster(self._store, 0, cluster=CLUSTER, fleet=fleet)
        assert until(self._is_ready, READY_SECONDS), self._store.cluster_fact(CLUSTER)
        try:
            yield
        finally:
            ask_down(self._store, cluster=CLUSTER)
            assert until(lambda: not supervisor_is_awake(CLUSTER)), "the supervisor did not end"

    def left(self) -> list[str]:
        """Return the instances that are still there."""
        return [one["id"] for one in self._endpoint.machines() if one["state"] in LIVING]

    def is_settled(self) -> bool:
        return len(self._joined()) >= LEAST

    def settle(self) -> None:
        """Put cables back, and have the provider end what is out of reach for good.

        By itself the cluster replaces such a node after two minutes.
        """
        for node in self._pulled:
            self._cable(node, "up")
        self._pulled.clear()
        if self._broken:
            time.sleep(SILENT_SECONDS)
        for node in self._broken:
            self.reclaim(node, 0)
        self._broken.clear()

    def faults(self, run: str, chance: Random) -> Sequence[Callable[[], None]]:
        return NodeFaults(self, self._store, run, chance).all

    def _is_ready(self) -> bool:
        fact = self._store.cluster_fact(CLUSTER)
        return fact.state is ClusterState.READY and len(self._joined()) == NODES

    def _joined(self) -> list[Node]:
        nodes = self._store.fleets.nodes(CLUSTER)
        return [node for node in nodes if node.state is NodeState.JOINED]

    def joined(self) -> list[Node]:
        """Return the nodes that carry ranks; there is one in time."""
        assert until(self._joined), "no node carries ranks"
        return self._joined()

    def coming(self) -> list[Node]:
        """Return the nodes that are bought and have not joined."""
        return [node for node in self._store.fleets.nodes(CLUSTER) if node.state in COMING]

    def pull(self, node: Node, *, again: bool) -> None:
        """Pull a node's cable.

        Args:
            again: Whether it is put back when the turn is over.
        """
        self._cable(node, "down")
        (self._pulled if again else self._broken).append(node)

    def end_sshd(self, node: Node, *, again: bool) -> None:
        """End a node's sshd with all of its sessions.

        Args:
            again: Whether another one is started.
        """
        self.inside(node, "pkill", "-KILL", "-x", "sshd")
        if not again:
            self._broken.append(node)

    def reclaim(self, node: Node, seconds: float) -> None:
        """Take a node back, so many seconds after its notice."""
        with suppress(RuntimeError):  # it is gone already
            self._endpoint.interrupt(node.id, seconds)

    def put_back(self, node: Node) -> None:
        """Put a node's cable back."""
        self._cable(node, "up")

    def inside(self, node: Node, *command: str) -> None:
        """Run a command on a node without ssh; nothing happens if the node is gone."""
        name = f"ip-{node.address.replace('.', '-')}"
        for path in PLACE.glob(f"wbr{self._endpoint.pid}x*/{name}/pid"):
            with suppress(OSError):
                enter = ["nsenter", "-t", path.read_text(), *["-n", "-u", "-i", "-p", "-m"]]
                subprocess.run(
                    [*enter, "--wd=/", *command],
                    check=False,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=30,
                )

    def folder(self, node: Node) -> Path | None:
        """Return the folder of a node's keys and of sshd's configuration."""
        name = f"ip-{node.address.replace('.', '-')}"
        return next(PLACE.glob(f"wbr{self._endpoint.pid}x*/{name}"), None)

    def _cable(self, node: Node, state: str) -> None:
        self.inside(node, "ip", "link", "set", "eth0", state)


class NodeFaults(Faults):
    """What goes wrong with nodes, and what goes wrong beside them on this machine."""

    def __init__(self, stage: Nodes, store: Store, run: str, chance: Random) -> None:
        super().__init__(store, CLUSTER, run, chance)
        self._stage = stage
        self.all: tuple[Callable[[], None], ...] = (
            self.silent_node, self.silent_node, self.reset_connections, self.sshd_gone,
            self.sshd_restarted, self.terminated, self.notice, self.notice_then_silence,
            self.two_nodes, self.silence_during_a_hand_over, self.notice_during_a_hand_over,
            self.replacement_dies, self.flapping_node, self.locked_store, self.kill_supervisor,
            self.kill_supervisor_and_node, self.resize_nodes, self.kill_rank,
            self.kill_fork_server,
        )  # fmt: skip

    def silent_node(self) -> None:
        """A node's cable is pulled, for good or for a while."""
        self._stage.pull(self._node(), again=self._chance.random() < 0.5)

    def reset_connections(self) -> None:
        """All TCP connections of a node are reset."""
        node = self._node()
        self._stage.inside(node, "ss", "-t", "-K", "src", node.address)

    def sshd_gone(self) -> None:
        """A node's sshd ends with all of its sessions, and none follows."""
        self._stage.end_sshd(self._node(), again=False)

    def sshd_restarted(self) -> None:
        """A node's sshd ends with all of its sessions, and another one starts soon."""
        node = self._node()
        self._stage.end_sshd(node, again=True)
        time.sleep(self._chance.random() * 2.0)
        if (folder := self._stage.folder(node)) is not None:
            self._stage.inside(node, "/usr/sbin/sshd", "-f", str(folder / "sshd_config"))

    def terminated(self) -> None:
        """A node is taken back without a notice."""
        self._stage.reclaim(self._node(), 0)

    def notice(self) -> None:
        self._stage.reclaim(self._node(), NOTICE_SECONDS)

    def notice_then_silence(self) -> None:
        """A node falls silent soon after its notice."""
        node = self._node()
        self._stage.reclaim(node, NOTICE_SECONDS)
        time.sleep(self._chance.random() * 4.0)
        self._stage.pull(node, again=False)

    def two_nodes(self) -> None:
        """Two nodes are lost at once, each in its own way."""
        there = self._stage.joined()
        for node in self._chance.sample(there, min(2, len(there))):
            if self._chance.random() < 0.5:
                self._stage.pull(node, again=False)
            else:
                self._stage.reclaim(node, 0)

    def silence_during_a_hand_over(self) -> None:
        self.resize_nodes()
        time.sleep(self._chance.random() * 6.0)
        self._stage.pull(self._node(), again=False)

    def notice_during_a_hand_over(self) -> None:
        self.resize_nodes()
        time.sleep(self._chance.random() * 6.0)
        self.notice()

    def replacement_dies(self) -> None:
        """A node is lost, and the one in its place too before it joins."""
        known = {node.id for node in self._stage.coming()}
        self.terminated()
        found = until(lambda: {node.id for node in self._stage.coming()} - known, 20.0)
        if found:
            time.sleep(self._chance.random() * 4.0)
            for node in self._stage.coming():
                self._stage.reclaim(node, 0)

    def flapping_node(self) -> None:
        """A node is out of reach again and again, for up to three seconds."""
        node = self._node()
        for _ in range(3):
            self._stage.pull(node, again=True)
            time.sleep(self._chance.choice([0.3, 1.0, 3.0]))
            self._stage.put_back(node)
            time.sleep(self._chance.random())

    def kill_supervisor_and_node(self) -> None:
        self.kill_supervisor()
        self._stage.pull(self._node(), again=False)

    def kill_rank(self) -> None:
        self._stage.inside(self._node(), "pkill", "-KILL", "-f", ENGINE)

    def kill_fork_server(self) -> None:
        """The fork server of a node, or its agent, is killed, and then a rank there."""
        node = self._node()
        self._stage.inside(node, "pkill", "-KILL", "-f", self._chance.choice(FORKS))
        self._stage.inside(node, "pkill", "-KILL", "-f", ENGINE)

    def resize_nodes(self) -> None:
        size = Size(None, self._chance.choice([2, 3, 4]))
        ask_size(self._store, size, cluster=CLUSTER, agreed=1000.0)

    def _node(self) -> Node:
        return self._chance.choice(self._stage.joined())
