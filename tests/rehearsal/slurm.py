"""A real Slurm on the hosts of a rehearsal: one controller on this machine, a `slurmd` on each.

Debian's `slurmd` takes its name from the host's, so each host is a node. There is no database:
accounts and QOS are accepted unchecked.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.rehearsal.hosts import END_SECONDS, Hosts, RehearsalHost, until

NEEDED = ("sbatch", "squeue", "slurmctld", "slurmd", "munged")
CPUS, MEBIBYTES = 4, 8000
"""What each host is said to have; Slurm believes it."""
KILL_SECONDS = 3
GRACE_SECONDS = 20
CONF = """\
ClusterName=rehearsal
SlurmctldHost={name}({address})
SlurmUser=root
AuthInfo=socket={folder}/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmctldPort={port}
SlurmdPort={slurmd}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
KillWait={kill}
SlurmdTimeout=10
MailProg=/bin/true
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=bf_interval=1,sched_min_interval=100000,batch_sched_delay=0
PartitionName=main Nodes=ALL Default=YES PriorityTier=1 GraceTime={grace} State=UP
PartitionName=urgent Nodes=ALL PriorityTier=9 PreemptMode=OFF State=UP
PartitionName=sudden Nodes=ALL PriorityTier=1 State=UP
"""


def why_not() -> str:
    """Return why there can be no Slurm here; empty when there can."""
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    return f"there is no {', '.join(lacking)}: make machines installs it" if lacking else ""


@dataclass(frozen=True)
class Site:
    """A cluster that Slurm runs.

    Args:
        environment: Of each command of Slurm's.
        folder: Of its configuration and logs.
        daemons: The `slurmd` of each node, by the node's name.
    """

    hosts: Hosts
    environment: Mapping[str, str]
    folder: Path
    daemons: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def ask(self, *command: str) -> str:
        """Run a command of Slurm's, and return what it wrote."""
        done = subprocess.run(
            command, env=self.environment, check=False, capture_output=True, text=True, timeout=60,
            cwd=Path.home(),  # where jobs write what they print
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")
        return done.stdout.strip()

    def jobs(self, what: str = "%i|%T|%N") -> list[str]:
        """Return a line for each job that waits or runs."""
        return self.ask("squeue", "-h", "-o", what).splitlines()

    def host_of(self, address: str) -> RehearsalHost:
        """Return the host with an address."""
        return next(host for host in self.hosts if host.address == address)

    def host_named(self, name: str) -> RehearsalHost:
        """Return the host of a node."""
        return next(host for host in self.hosts if host.name == name)

    def start_slurmd(self, host: RehearsalHost) -> None:
        """Start a host's `slurmd`, which ends with the host."""
        conf = self.environment["SLURM_CONF"]
        self.daemons[host.name] = host.popen(
            "env", f"SLURM_CONF={conf}", "slurmd", "-D", "-f", conf,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


@contextlib.contextmanager
def slurm(hosts: Hosts, more: str = "") -> Iterator[Site]:
    """Run Slurm on all of these hosts.

    Args:
        more: Lines added to its configuration.
    """
    folder = hosts.folder / "slurm"
    (folder / "state").mkdir(parents=True)
    key, conf = folder / "key", folder / "slurm.conf"
    key.touch(0o600)
    key.write_bytes(os.urandom(128))
    ports = {"port": _free_port(), "slurmd": _free_port()}
    text = CONF.format(
        name=socket.gethostname(), address=hosts.address, folder=folder, kill=KILL_SECONDS,
        grace=GRACE_SECONDS, **ports,
    )  # fmt: skip
    lines = [
        f"NodeName={host.name} NodeAddr={host.address} CPUs={CPUS} RealMemory={MEBIBYTES}"
        for host in hosts
    ]
    conf.write_text("\n".join([text + more, *lines, ""]))
    site = Site(hosts, {**os.environ, "SLURM_CONF": str(conf)}, folder)
    munge = [
        "munged", "-F", "-f", "-M", f"--key-file={key}", f"--socket={folder}/munge",
        f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log",
        f"--seed-file={folder}/munge.seed",
    ]  # fmt: skip
    started = [_start(munge, site)]
    try:
        until((folder / "munge").exists, "munged")
        started.append(_start(["slurmctld", "-D", "-f", str(conf)], site))
        for host in hosts:
            site.start_slurmd(host)
        until(lambda: _idle(site) == len(hosts), "the nodes of Slurm", lambda: _log(site))
        yield site
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(END_SECONDS)
        for host in filter(lambda host: host.is_up, hosts):
            subprocess.run(host.command("pkill", "-KILL", "slurm"), check=False)
        for daemon in site.daemons.values():
            daemon.wait(END_SECONDS)


def _start(command: list[str], site: Site) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    return subprocess.Popen(
        command, env=site.environment, start_new_session=True,
        stdin=quiet, stdout=quiet, stderr=quiet,
    )  # fmt: skip


def _free_port() -> int:
    """Return a port that is free at each address, and that no connection is given meanwhile."""
    draw = random.SystemRandom()
    while True:
        port = draw.randrange(11_000, 31_000)
        with contextlib.suppress(OSError), socket.create_server(("", port)):
            return port


def _idle(site: Site) -> int:
    with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
        return len(site.ask("sinfo", "-h", "-N", "-p", "main", "-t", "idle").splitlines())
    return 0


def _log(site: Site) -> str:
    return (site.folder / "slurmctld.log").read_text()[-2000:]
