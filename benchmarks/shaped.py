"""Hosts of one machine whose links are shaped, and programs that run on all of them under MPI."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.rehearsal.hosts import Hosts, RehearsalHost, until, why_not
from workbench.cluster.mpi_installation import (
    HostNetwork,
    find_mpi,
    hostfile_text,
    mpiexec_arguments,
    rank_environment,
)
from workbench.core.world.known_hosts import agent_config
from workbench.core.world.world import Host, World, network_of

from .bare import WITH_US, found_in
from .figures import BenchmarkFailed
from .place import Place

PROGRAM_SECONDS = 300.0
LIMIT_SECONDS = 15.0
BURST_BYTES, QUEUE_MS = 128_000, 10.0
TICKS = 250  # a second; the kernel lets no more than a burst through in each


@dataclass(frozen=True)
class ShapedHosts:
    """Hosts that reach each other over links of ``mbits`` (10⁶ bits a second)."""

    hosts: Hosts
    place: Place
    mbits: float

    def mpi(
        self,
        program: Path,
        *arguments: str,
        nodes: int,
        per_node: int = 1,
        options: Sequence[str] = (),
        sockets: int = 1,
    ) -> list[dict[str, Any]]:
        """Run a program on hosts; return what each rank found, in rank order.

        Args:
            per_node: Ranks of each host.
            options: More options of mpiexec's.
            sockets: Between two ranks on different hosts.

        Raises:
            BenchmarkFailed: It failed.
        """
        mpi, hosts = find_mpi(), list(self.hosts)[:nodes]
        world = World(
            tuple(Host(host.address, per_node, sockets=sockets) for host in hosts),
            nodes * per_node,
        )
        # Only the folder of the hosts themselves is seen from all of them.
        folder = self.hosts.folder
        configuration, known, listed = (folder / n for n in ("ssh_config", "known", "hosts_mpi"))
        known.write_text("".join(f"{host.known_hosts}\n" for host in hosts))
        configuration.write_text(agent_config(world.hosts, str(known), str(folder / "key")))
        listed.write_text(hostfile_text(mpi, world))
        variables = {**rank_environment(mpi, world), **WITH_US}
        agent = ("ssh", "-F", str(configuration))
        link = HostNetwork(agent, network_of([host.address for host in hosts]))
        words = mpiexec_arguments(mpi, world, str(listed), tuple(variables), link)
        command = hosts[0].command(
            "env",
            *(f"{name}={value}" for name, value in variables.items()),
            *(mpi.mpiexec, "-n", str(nodes * per_node), *words, *options),
            *(sys.executable, "-P", str(program), *arguments),
        )
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=PROGRAM_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            late = f"{program.name} took more than {PROGRAM_SECONDS:g} s on {nodes} hosts"
            raise BenchmarkFailed(f"{late}: measure fewer rounds.") from error
        if done.returncode != 0:
            said = (done.stderr or done.stdout)[-2000:]
            raise BenchmarkFailed(
                f"{program.name} ended with {done.returncode} on {nodes} hosts: {said}"
            )
        return sorted(found_in(done.stdout), key=lambda one: int(one["rank"]))

    def limit(self, seconds: float = 3.0) -> float:
        """Return the bytes a second that iperf3 moves from one host to another.

        Raises:
            BenchmarkFailed: There is no iperf3, or it failed.
        """
        try:
            server = self.hosts[1].popen("iperf3", "-s", "-1", stdout=subprocess.DEVNULL)
        except OSError as error:
            raise BenchmarkFailed(f"iperf3 cannot be started ({error}).") from error
        ask = ("iperf3", "-c", self.hosts[1].address, "-t", f"{seconds:g}", "-J")
        try:
            reported = until(lambda: self._reported(*ask), "iperf3", seconds=LIMIT_SECONDS)
        finally:
            server.kill()
            server.wait()
        return float(json.loads(reported)["end"]["sum_received"]["bits_per_second"]) / 8

    def _reported(self, *command: str) -> str:
        with contextlib.suppress(RuntimeError):  # the server does not listen yet
            reported = self.hosts[0].run(*command)
            return reported if "sum_received" in reported else ""
        return ""


def shape(host: RehearsalHost, mbits: float, slower: float = 1.0) -> None:
    """Let no more through a host's cable, either way, with a queue as short as a switch's.

    A long one holds up what acknowledges the other direction, so that both lose. Where time is
    slowed, the queue holds as many bytes as at full speed: in a shorter one messages of 60 kB
    overflow it, and TCP waits for 200 ms, which nothing slows, before it sends them again.
    """
    burst = max(BURST_BYTES, mbits * 1e6 / 8 / TICKS)
    shaped = [
        "rate",
        f"{mbits * 1e6:.0f}bit",
        "burst",
        f"{burst:.0f}",
        "latency",
        f"{QUEUE_MS * slower:g}ms",
    ]
    rate = ["root", "tbf", *shaped]
    subprocess.run(["tc", "qdisc", "replace", "dev", host.link, *rate], check=True)
    host.run("tc", "qdisc", "replace", "dev", "eth0", *rate)


@contextlib.contextmanager
def shaped_hosts(
    place: Place, count: int, mbits: float, slower: float = 1.0
) -> Iterator[ShapedHosts]:
    """Have ``count`` hosts, and nothing of them afterwards.

    Args:
        slower: By what time is slowed: ``mbits`` is the slowed rate.

    Raises:
        BenchmarkFailed: This machine can have none.
    """
    if reason := why_not():
        raise BenchmarkFailed(f"There are no shaped links here: {reason}.")
    with Hosts(count) as hosts:
        for host in hosts:
            shape(host, mbits, slower)
        yield ShapedHosts(hosts, place, mbits)
