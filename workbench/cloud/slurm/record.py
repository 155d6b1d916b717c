"""What is known of a cluster's jobs, in a file: Slurm forgets a job minutes after its end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from workbench.cloud.slurm.texts import ENDS, RUNNING, TAKEN, WAITING, SlurmJob
from workbench.core.fleet.purchases import LAG_SECONDS
from workbench.core.messages import decode
from workbench.errors import MachineError
from workbench.store.paths import write_private

FILE_NAME = "slurm.json"


@dataclass(frozen=True)
class NodeRecord:
    """One node of a job.

    Args:
        name: Slurm's; empty while the job waits.
        address: By which the other nodes reach it; empty before its agent dialled in.
        port: Of its ssh server.
        slots: Ranks that it carries; 0 while unknown.
        ended: Epoch seconds; 0 while it is there.
        reason: Why it is gone.
        interrupted: Whether Slurm took it.
    """

    name: str = ""
    address: str = ""
    port: int = 0
    slots: int = 0
    ended: float = 0.0
    reason: str = ""
    interrupted: bool = False


@dataclass(frozen=True)
class JobRecord:
    """One job of ours.

    Args:
        asked: Epoch seconds of its submission.
        start: Epoch seconds at which it started; 0 before.
        end: Epoch seconds at which its time is over; 0 if unknown.
        waits: What it waits for, as a sentence.
        batch_host: The node of its script, which is not given back alone.
        cpus: That each of its nodes has for it; 0 before Slurm has said so.
    """

    id: str
    token: str
    tags: tuple[tuple[str, str], ...]
    nodes: tuple[NodeRecord, ...]
    asked: float
    start: float = 0.0
    end: float = 0.0
    waits: str = ""
    partition: str = ""
    batch_host: str = ""
    cpus: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether all its nodes are gone."""
        return all(node.ended for node in self.nodes)


@dataclass(frozen=True)
class ClusterRecord:
    """All jobs of a cluster.

    Args:
        port: At which the supervisor was dialled.
        host_key: Private, of the agents.
        asked: Tokens of purchases whose answer is not known.
    """

    jobs: Mapping[str, JobRecord] = field(default_factory=dict)
    port: int = 0
    host_key: str = ""
    asked: tuple[str, ...] = ()


def read_record(folder: Path) -> ClusterRecord:
    """Return the record of a cluster; an empty one before there is any."""
    with contextlib.suppress(OSError, MachineError):
        return decode(ClusterRecord, (folder / FILE_NAME).read_bytes())
    return ClusterRecord()


def write_record(folder: Path, record: ClusterRecord) -> None:
    """Write the record, for its owner alone."""
    write_private(folder / FILE_NAME, json.dumps(asdict(record)))


def observe(record: JobRecord, job: SlurmJob | None, now: float) -> JobRecord:
    """Return a job of ours as Slurm lists it.

    Args:
        job: None if it is not listed.
        now: Epoch seconds of the list.
    """
    if record.is_over:
        return record
    if job is None:
        is_new = now - record.asked < LAG_SECONDS
        return record if is_new else end_nodes(record, "Slurm no longer lists its job", now)
    record = replace(
        record, end=job.end or record.end, waits=job.waits,
        partition=job.partition, batch_host=job.batch_host or record.batch_host,
        cpus=job.cpus / job.count,
    )  # fmt: skip
    if job.state in WAITING:
        return record
    if job.state in RUNNING:
        return _name_nodes(replace(record, start=job.start or record.start or now), job, now)
    taken = job.state in TAKEN or (job.state == "COMPLETING" and 0 < record.end <= now)
    usual = "its job reached its time limit" if taken else "its job is ending"
    why = ENDS.get(job.state, usual)
    return end_nodes(record, why, now, interrupted=taken)


def end_nodes(
    record: JobRecord,
    why: str,
    now: float,
    *,
    interrupted: bool = False,
    only: Callable[[NodeRecord], bool] = lambda node: True,
) -> JobRecord:
    """Return a job some or all of whose nodes are gone; one that was gone keeps its reason."""
    return replace(
        record,
        nodes=tuple(
            node
            if node.ended or not only(node)
            else replace(node, ended=now, reason=why, interrupted=interrupted)
            for node in record.nodes
        ),
    )


def place_agent(record: JobRecord, agent: NodeRecord, now: float) -> JobRecord:
    """Return a job whose node has an agent that dialled in: it knows more than an old list."""
    known = [node.name for node in record.nodes]
    free = [i for i, node in enumerate(record.nodes) if not node.name and not node.ended]
    at = known.index(agent.name) if agent.name in known else next(iter(free), None)
    if at is None or record.nodes[at].ended:
        return record
    nodes = [*record.nodes]
    nodes[at] = agent
    return replace(record, nodes=tuple(nodes), start=record.start or now, waits="")


def _name_nodes(record: JobRecord, job: SlurmJob, now: float) -> JobRecord:
    """Give nodes their names once; later, a name that is missing is a node that is gone."""
    known = {node.name for node in record.nodes}
    left = [name for name in job.names if name not in known]
    had_names = all(node.name for node in record.nodes)
    nodes = [
        replace(node, name=left.pop(0)) if not node.name and left else node for node in record.nodes
    ]
    named = replace(record, nodes=tuple(nodes))
    why = "Slurm took it: node failure" if had_names else "Slurm gave its job fewer nodes"
    return end_nodes(named, why, now, only=lambda node: node.name not in job.names)
