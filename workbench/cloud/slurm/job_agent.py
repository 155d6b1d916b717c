"""What a job runs on each of its nodes: an ssh server in user space, which dials the supervisor.

Run as ``python -m workbench.cloud.slurm.job_agent``; standard input has its settings. The
connection to the supervisor has ssh's roles reversed: who dials is the server. So neither sshd nor
an open port of the nodes is needed for it. The other nodes of a world log in at a port of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import asyncssh

from workbench.cloud.slurm.texts import JOBS, number, read_jobs, read_setting
from workbench.core.messages import decode
from workbench.core.world.world import is_foreign
from workbench.errors import MachineError

ABOUT, NOTICES = "WORKBENCH_SLURM_NODE", "WORKBENCH_SLURM_NOTICES"
AGENT = "WORKBENCH_SLURM_AGENT"
"""In each command's environment: who its node is, the file with a line for each notice, and the
process id of its agent."""
LOOPBACK = "127.0.0.1"
ANY = "0.0.0.0"  # both kinds of addresses would have ports of their own
DIAL_SECONDS = 10.0
AGAIN_SECONDS = 0.5
SHORT_SECONDS = 30.0
# Twice the usual time after which Slurm gives up a node that is silent.
GONE_SECONDS = 600.0
# A job may be suspended for minutes; a node that is gone is noticed by the kernel.
ALIVE_SECONDS, ALIVE_COUNT = 20.0, 15
KILLED = 137
# The agent is no parent of a command: where a site tracks a job's processes by
# their parents, Slurm's warnings would reach the commands too, and end them.
# A shell gives what runs in the background no input, unless by another number: the agent has had 4
# open since before its first command.
RUN = 'exec 4<&0; { setsid "$1" -c "$2"; echo $? > "/dev/fd/$3"; } <&4 4<&- &'
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


@dataclass(frozen=True)
class AgentSettings:
    """The settings of the agents of a job.

    Args:
        host_key: Private; the agents of a cluster have the same one.
        client_key: Public half of the only key that may log in.
        addresses: Of the supervisor's machine.
        port: At which it is dialled.
        lease: Without the supervisor for so many seconds, the agent ends itself.
        place: A file with a newer place to dial, if a supervisor on another machine is the next
            one and the node sees its disk.
    """

    host_key: str
    client_key: str
    addresses: tuple[str, ...]
    port: int
    lease: float
    place: str = ""


@dataclass(frozen=True)
class DialPlace:
    """Where the supervisor is dialled, by addresses and a port."""

    addresses: tuple[str, ...]
    port: int


@dataclass(frozen=True)
class AgentNode:
    """Who the node of an agent is.

    Args:
        address: By which the other nodes reach it.
        port: At which it accepts their ssh.
        slots: Ranks that it carries: one per GPU, or one per CPU without.
    """

    job: str
    name: str
    address: str
    port: int
    slots: int


class AgentLogin(asyncssh.SSHServer):
    """Decides what a client may do that has the cluster's key."""

    def begin_auth(self, username: str) -> bool:
        """Require the key, whatever the user's name."""
        return True

    def server_requested(self, listen_host: str, listen_port: int) -> bool:
        """Forward ports of the node's loopback alone."""
        return listen_host == LOOPBACK


class JobAgent:
    """The ssh server of one node."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._job = os.environ.get("SLURM_JOB_ID", "0")
        self._name = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
        self._notices = Path(f"/tmp/workbench-slurm-{os.getuid()}-{self._job}-{os.getpid()}")
        self._options: dict[str, Any] = {
            "server_factory": AgentLogin,
            "server_host_keys": [asyncssh.import_private_key(settings.host_key)],
            "authorized_client_keys": asyncssh.import_authorized_keys(f"{settings.client_key}\n"),
            "process_factory": self._serve,
            "encoding": None,
            "keepalive_interval": ALIVE_SECONDS,
            "keepalive_count_max": ALIVE_COUNT,
        }
        self._port = 0

    def __repr__(self) -> str:
        return f"<JobAgent of {self._name}>"

    async def run(self) -> None:
        """Serve until the supervisor was away for as long as the lease."""
        self._notices.touch(0o600)
        for one in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(one, self._note, one)
        listener = await asyncssh.listen(ANY, 0, **self._options)
        self._port = listener.get_port()
        heard, best = time.monotonic(), ""
        while time.monotonic() - heard < self._settings.lease:
            place = self._find_place()
            for address in sorted(place.addresses, key=lambda one: one != best):
                if await self._dial(address, place.port):
                    heard, best = time.monotonic(), address
                    break
            await asyncio.sleep(AGAIN_SECONDS)
        self._notices.unlink(missing_ok=True)
        end_job_without_script(self._job)

    def _find_place(self) -> DialPlace:
        """Return where the supervisor is: that of another machine may have taken over."""
        with contextlib.suppress(OSError, MachineError):
            return decode(DialPlace, Path(self._settings.place).read_bytes())
        return DialPlace(self._settings.addresses, self._settings.port)

    async def _dial(self, address: str, port: int) -> bool:
        """Serve the supervisor at an address until it goes; return whether it was there."""
        try:
            dialled = asyncssh.connect_reverse(address, port, **self._options)
            connection = await asyncio.wait_for(dialled, DIAL_SECONDS)
        except (OSError, asyncssh.Error, TimeoutError):
            return False
        await connection.wait_closed()
        return True

    def _note(self, number: int) -> None:
        """Keep a signal of Slurm's as a notice: it comes before the end of the job."""
        with self._notices.open("a") as file:
            file.write(f"{signal.Signals(number).name} {time.time():.3f}\n")

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run one command of the supervisor's, or of the ssh of another node."""
        address = process.get_extra_info("sockname")[0]
        cpus = os.environ.get("SLURM_CPUS_ON_NODE", "1")
        devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        slots = len(devices.split(",")) if devices and devices != "NoDevFiles" else int(cpus)
        about = AgentNode(self._job, self._name, address, self._port, slots)
        own = {
            ABOUT: json.dumps(asdict(about)),
            NOTICES: str(self._notices),
            AGENT: str(os.getpid()),
        }
        clean = {name: value for name, value in os.environ.items() if not is_foreign(name)}
        ending, written = os.pipe()
        shell = pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
        try:
            # Not asyncio's own: a pipe of it whose reader has ended would end the connection.
            running = subprocess.Popen(
                ["/bin/sh", "-c", RUN, "sh", shell, process.command or "exec sh", f"{written}"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=clean | own, cwd=Path.home(), pass_fds=(written,),
            )  # fmt: skip
        finally:
            os.close(written)
        await process.redirect(stdin=running.stdin, stdout=running.stdout, stderr=running.stderr)
        await asyncio.to_thread(running.wait)  # at once: what it has started lives on
        status = await _read_status(ending)
        await process.stdout.drain()
        await process.stderr.drain()
        process.exit(status)


async def _read_status(descriptor: int) -> int:
    """Return the exit status that `RUN` writes; that of a killed process if it was killed."""
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", 0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    line = await reader.readline()
    transport.close()  # and the pipe
    return int(line) if line.strip().isdigit() else KILLED


def end_job_without_script(job: str) -> None:
    """End the job if the node of its script is gone: nothing else would, until its time limit.

    Slurm notices the loss of a node after a while. Until then one that does not answer is waited
    for, because its job looks like one that ends by itself.
    """
    deadline = time.monotonic() + GONE_SECONDS
    while not _is_ending(job) and time.monotonic() < deadline:
        time.sleep(SHORT_SECONDS)


def _is_ending(job: str) -> bool:
    """Return whether a job without agents ends; one whose script's node is gone is cancelled."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        for one in read_jobs(_ask("squeue", "-h", "-j", job, "-o", JOBS)):
            if one.batch_host and one.batch_host not in one.names:
                _ask("scancel", job)
            elif one.batch_host:
                return _answers(one.batch_host)
    return True


def _answers(node: str) -> bool:
    """Return whether a node's `slurmd` takes connections."""
    port = number(read_setting(_ask("scontrol", "show", "config"), "SlurmdPort"))
    try:
        socket.create_connection((node, port), SHORT_SECONDS).close()
    except OSError:
        return False
    return True


def _ask(*command: str) -> str:
    """Run a command of Slurm's on this node, and return what it wrote."""
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=SHORT_SECONDS
    ).stdout


if __name__ == "__main__":
    asyncio.run(JobAgent(decode(AgentSettings, sys.stdin.read())).run())
