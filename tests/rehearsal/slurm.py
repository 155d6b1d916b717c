"""A real Slurm on the hosts of a rehearsal: one controller on this machine, a `slurmd` on each.

Debian's `slurmd` takes its name from the host's, so each host is a node. There is no database:
accounts and QOS are accepted unchecked.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.rehearsal.hosts import END_SECONDS, Hosts, RehearsalHost
from tests.waiting import until

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
ProctrackType=proctrack/{tracking}
TaskPlugin=task/{tasks}
SelectType=select/cons_tres
SelectTypeParameters={counted}
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

# Version 1, in which a process of a namespace of its own needs no service manager.
GROUPS = Path("/sys/fs/cgroup")
KINDS = ("freezer", "memory")
CGROUP_CONF = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
ConstrainRAMSpace=yes
"""
# Begins a daemon in control groups of its own, which it takes for the machine's.
IN_GROUPS = """\
for kind in {kinds}; do
    mkdir -p {groups}/$kind/{own}
    echo $$ > {groups}/$kind/{own}/cgroup.procs
done
exec unshare --cgroup --mount sh -ec '
for kind in {kinds}; do
    umount {groups}/$kind
    mount -t cgroup -o $kind rehearsal {groups}/$kind
done
exec "$@"' sh "$@"
"""


def why_not() -> str:
    """Return why there can be no Slurm here; empty when there can."""
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    return f"there is no {', '.join(lacking)}: make machines installs it" if lacking else ""


def why_no_groups() -> str:
    """Return why no Slurm can have control groups here; empty when one can."""
    there = all((GROUPS / kind / "cgroup.procs").exists() for kind in KINDS)
    return "" if there else "there are no control groups of version 1"


@dataclass(frozen=True)
class Site:
    """A cluster that Slurm runs.

    Args:
        environment: Of each command of Slurm's.
        folder: Of its configuration and logs.
        has_groups: Whether it tracks and limits jobs by control groups.
        daemons: The `slurmd` of each node, by the node's name.
    """

    hosts: Hosts
    environment: Mapping[str, str]
    folder: Path
    has_groups: bool = False
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

    def group_of(self, host: RehearsalHost) -> str:
        """Return the name of a host's control group."""
        return f"{self.hosts.name}-{host.name}"

    def start_slurmd(self, host: RehearsalHost) -> None:
        """Start a host's `slurmd`, which ends with the host."""
        conf = self.environment["SLURM_CONF"]
        script = IN_GROUPS.format(groups=GROUPS, kinds=" ".join(KINDS), own=self.group_of(host))
        within = ["sh", "-ec", script, "sh"] if self.has_groups else []
        self.daemons[host.name] = host.popen(
            *within, "env", f"SLURM_CONF={conf}", "slurmd", "-D", "-f", conf,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


@contextlib.contextmanager
def slurm(hosts: Hosts, *, has_groups: bool = False) -> Iterator[Site]:
    """Run Slurm on all of these hosts.

    Args:
        has_groups: Whether it tracks and limits jobs by control groups, as most sites do.
    """
    folder = hosts.folder / "slurm"
    (folder / "state").mkdir(parents=True)
    key, conf = folder / "key", folder / "slurm.conf"
    key.touch(0o600)
    key.write_bytes(os.urandom(128))
    ports = {"port": _free_port(), "slurmd": _free_port()}
    text = CONF.format(
        name=socket.gethostname(), address=hosts.address, folder=folder, kill=KILL_SECONDS,
        grace=GRACE_SECONDS, tracking="cgroup" if has_groups else "linuxproc",
        tasks="cgroup" if has_groups else "none",
        counted="CR_Core_Memory" if has_groups else "CR_Core", **ports,
    )  # fmt: skip
    lines = [
        f"NodeName={host.name} NodeAddr={host.address} CPUs={CPUS} RealMemory={MEBIBYTES}"
        for host in hosts
    ]
    conf.write_text("\n".join([text, *lines, ""]))
    if has_groups:
        (folder / "cgroup.conf").write_text(CGROUP_CONF)
    site = Site(hosts, {**os.environ, "SLURM_CONF": str(conf)}, folder, has_groups)
    munge = [
        "munged", "-F", "-f", "-M", f"--key-file={key}", f"--socket={folder}/munge",
        f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log",
        f"--seed-file={folder}/munge.seed",
    ]  # fmt: skip
    started = [_start(munge, site)]
    try:
        until((folder / "munge").exists, what="munged")
        started.append(_start(["slurmctld", "-D", "-f", str(conf)], site))
        for host in hosts:
            site.start_slurmd(host)
        until(lambda: _idle(site) == len(hosts), what="the nodes of Slurm", said=lambda: _log(site))
        yield site
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(END_SECONDS)
        for host in filter(lambda host: host.is_up, hosts):
            subprocess.run(host.command("pkill", "-KILL", "slurm"), check=False)
        for daemon in site.daemons.values():
            daemon.wait(END_SECONDS)
        for host in hosts if has_groups else ():
            until(lambda host=host: _are_removed(site.group_of(host)), what="the end of all groups")


def _are_removed(name: str) -> bool:
    """End what is left in a host's control groups, and remove them; return whether all are gone."""
    for kind in KINDS:
        for path in sorted((GROUPS / kind).glob(f"{name}/**"), reverse=True):
            with contextlib.suppress(OSError):
                for pid in (path / "cgroup.procs").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
                path.rmdir()
    return not any((GROUPS / kind / name).exists() for kind in KINDS)


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
