"""The nodes of one cluster's Slurm jobs: ask for jobs, list them, take their agents' sessions."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from workbench.cloud.hosts.ssh import SshSession, new_key, public_half
from workbench.cloud.rented.ssh_keys import HostKey, KeyRing
from workbench.cloud.slurm.commands import LOGS, list_jobs, logs_folder, run_slurm
from workbench.cloud.slurm.description import job_request, lease_of
from workbench.cloud.slurm.dials import Dials
from workbench.cloud.slurm.first_job import say_where
from workbench.cloud.slurm.job_agent import AGENT, NOTICES, AgentNode, AgentSettings, DialPlace
from workbench.cloud.slurm.record import (
    FILE_NAME,
    ClusterRecord,
    JobRecord,
    NodeRecord,
    end_nodes,
    observe,
    place_agent,
    read_record,
    write_record,
)
from workbench.cloud.slurm.site import examine_site, open_ports, own_addresses
from workbench.cloud.slurm.texts import (
    PARTITIONS,
    PREFIX,
    SlurmJob,
    comment_text,
    describe_start,
    job_name,
    job_script,
    number,
    read_partitions,
    read_setting,
    read_start,
)
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.model import Leftover, Machine, MachineState, Needs, Offer, Purchase
from workbench.core.fleet.node_provider import CLUSTER, OWNER, ClusterContext, NodeProvider
from workbench.core.fleet.offers import fits
from workbench.core.node.findings import Finding
from workbench.core.world.remote import RemoteProcess, Session
from workbench.core.world.world import Host
from workbench.errors import CloudError, MachineError
from workbench.store.paths import write_private

# Sites forbid to ask more often; while nothing changes but sessions, much less is enough.
LOOK_SECONDS, REST_SECONDS = 30.0, 300.0
# A job that ends is replaced before: its successor may wait in the queue.
AHEAD_SECONDS = 600.0
LISTED_SECONDS = 3600.0
TOKEN = "workbench:token"
PLACE_NAME = "slurm_dial.json"
log = logging.getLogger("workbench.supervisor")


class Slurm(NodeProvider):
    """The Slurm jobs of one cluster, or of all of this user's.

    Args:
        clock: Returns epoch seconds.
    """

    def __init__(self, context: ClusterContext, clock: Callable[[], float] = time.time) -> None:
        self._context = context
        self._wish = context.wish
        self._clock = clock
        self._ring = KeyRing(context.folder)
        self._lock = threading.RLock()
        self._record = read_record(context.folder) if context.cluster else ClusterRecord()
        self._looked = 0.0
        self._dials: Dials | None = None
        self._sessions: dict[str, tuple[SshSession, RemoteProcess]] = {}
        self._noticed: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<Slurm: {len(self._record.jobs)} jobs>"

    # -- the interface of every provider

    def offers(self, needs: Needs, history_seconds: float = 0.0) -> tuple[Offer, ...]:
        """Return the nodes of the partition that jobs go to, if they fit; an hour is core-hours."""
        wish = self._wish()
        wished = wish.setting("partition", "")
        listed = read_partitions(run_slurm(["sinfo", "-h", "-o", PARTITIONS]))
        meant = [one for one in listed if one.name == wished or (one.is_usual and not wished)]
        if not meant:
            names = ", ".join(dict.fromkeys(one.name for one in listed)) or "none"
            raise CloudError(
                f"Slurm has no partition {wished!r}" if wished else "Slurm has no usual partition",
                ErrorKind.CONFIGURATION,
                remedy=f"name one with --partition; there are: {names}.",
            )
        asked = job_request(wish).cpus
        offers = [
            Offer(
                one.name, "", float(one.cpus if wish.setting("exclusive", False) else asked),
                one.cpus, one.memory, one.gpus, one.gpu,
                slots=wish.slots or needs.gpus or asked, placement=False,
            )
            for one in meant
        ]  # fmt: skip
        best = max(offers, key=lambda one: (fits(needs, one), one.gpus, one.vcpus, one.memory))
        return (best,) if fits(needs, best) else ()

    def buy(self, purchase: Purchase, user_data: str, tags: Sequence[tuple[str, str]]) -> None:
        """Submit one job for all nodes of a purchase; the same token again submits no more."""
        with self._lock:
            self._check_where()
            if self._find_token(purchase.token):
                return
            if purchase.token in self._record.asked and self._find_lost(purchase):
                return
            asked = (*self._record.asked, purchase.token)
            self._keep(replace(self._record, asked=tuple(dict.fromkeys(asked))))
            given = dict(tags) | {
                CLUSTER: purchase.cluster, OWNER: self._context.owner, TOKEN: purchase.token,
            }  # fmt: skip
            said = run_slurm(self._submission(purchase, given), user_data)
            id_ = said.strip().splitlines()[-1].partition(";")[0]
            self._note(id_, purchase.token, given, purchase.count)

    def permissions(self, purchase: Purchase) -> tuple[Finding, ...]:
        """Ask Slurm when it would start the job of a purchase; nothing is submitted."""
        try:
            self._check_where()
            said = run_slurm(
                [*self._submission(purchase, {}), "--test-only"], "#!/bin/sh\n", errors=True
            )
        except CloudError as error:
            is_wrong = error.kind in (ErrorKind.CONFIGURATION, ErrorKind.PERMISSION)
            remedy = error.remedy[:1].upper() + error.remedy[1:]
            return (Finding("job", False if is_wrong else None, error.what, remedy),)
        start = describe_start(read_start(said), self._clock())
        return (Finding("job", True, " ".join(filter(None, (start, say_where())))),)

    def machines(self, cluster: str = "") -> tuple[Machine, ...]:
        """Return a machine for each node of our jobs; Slurm is asked twice a minute at most."""
        if not self._context.cluster:
            return tuple(self._strangers(cluster))
        with self._lock:
            if self._is_due():
                self._look()
            self._hear()
            self._drop_old()
            found = [m for job in self._record.jobs.values() for m in self._machines(job)]
        return tuple(_apart(found)) if cluster in ("", self._context.cluster) else ()

    def end(self, ids: Sequence[str]) -> None:
        """Cancel jobs, or give some of their nodes back."""
        with self._lock:
            for job in [*self._record.jobs.values()]:
                here = {int(id_.rpartition(".")[2]) for id_ in ids if _job_of(id_) == job.id}
                if here and not job.is_over:
                    self._end(job, here)
        strangers = {_job_of(id_) for id_ in ids} - self._record.jobs.keys()
        for one in self._list() if strangers else ():
            if one.id in strangers and one.name.startswith(f"{PREFIX}-"):
                run_slurm(["scancel", one.id])

    def open(self, machine: Machine) -> Session:
        """Return a session with a node over the connection that its agent has made.

        Raises:
            MachineError: It has not dialled in.
        """
        with self._lock:
            self._hear()
            node = self._node(machine.id)
            taken = self._listening().take(_job_of(machine.id), node.name) if node else None
            if node is None or taken is None:
                raise MachineError(
                    f"The agent of {machine.id} has not dialled this machine",
                    f"if it never does, look at {LOGS}/{_job_of(machine.id)}.log, and whether "
                    "nodes may connect to this machine.",
                )
        about, connection = taken
        public = public_half(self._record.host_key)
        key = " ".join(public.split()[:2])
        self._ring.note(HostKey(machine.id, about.address, key, True, about.port))
        session = SshSession(
            Host(about.address, about.slots, port=about.port),
            connection,
            is_here=about.address in own_addresses(),  # where the supervisor is in a job too
        )
        tail = f'exec tail -n +1 -f -- "${NOTICES}"'
        with self._lock:
            self._sessions[machine.id] = session, session.start(["sh", "-c", tail])
        return session

    def leftovers(self, cluster: str = "") -> tuple[Leftover, ...]:
        """Return the jobs with our tags; a query from outside of the supervisor asks Slurm."""
        if self._dials is not None:
            return super().leftovers(cluster)
        return tuple(
            Leftover("job", id_, cluster_, created=created, owner=owner)
            for id_, cluster_, created, owner in dict.fromkeys(
                (
                    _job_of(one.id), dict(one.tags).get(CLUSTER, ""), one.launched,
                    dict(one.tags).get(OWNER, ""),
                )
                for one in self._strangers(cluster) if one.state is not MachineState.GONE
            )
        )  # fmt: skip

    def examine(self) -> tuple[Finding, ...]:
        """Return what keeps the site's nodes from being a cluster's."""
        return examine_site(job_request(self._wish()))

    # -- how nodes are kept

    def user_data(self, purchase: Purchase) -> str:
        """Return the script of a purchase's job, with the settings of its agents."""
        self._listening()
        settings = AgentSettings(
            self._record.host_key, self._ring.public, own_addresses(), self._record.port,
            lease_of(self._wish()), str(self._context.folder / PLACE_NAME),
        )  # fmt: skip
        return job_script(sys.executable, json.dumps(asdict(settings)))

    def read_notices(self) -> Mapping[str, float]:
        """Return when nodes are taken back: their jobs' time is over, or Slurm has warned them."""
        now = self._clock()
        with self._lock:
            self._listening()
            self._read_signals()
            for job in self._record.jobs.values():
                limit = job.end - job.start
                ahead = min(AHEAD_SECONDS, limit / 3)
                for index, node in enumerate(job.nodes):
                    id_ = f"{job.id}.{index}"
                    if node.ended or not job.start:
                        self._noticed.pop(id_, None)
                    elif job.end and now >= job.end - ahead:
                        self._noticed[id_] = job.end
            return dict(self._noticed)

    def shut_down(self, session: Session) -> None:
        """End a node's agent, and so its job once all have ended."""
        with contextlib.suppress(MachineError):
            session.run(["sh", "-c", f'kill -KILL "${AGENT}"'], seconds=10.0)

    def forget(self) -> None:
        """Delete the cluster's keys and the record of its jobs."""
        with self._lock:
            if self._dials is not None:
                self._dials.close()
                self._dials = None
            self._ring.discard()
            self._record = ClusterRecord()
            for name in (FILE_NAME, PLACE_NAME):
                (self._context.folder / name).unlink(missing_ok=True)

    # -- jobs

    def _submission(self, purchase: Purchase, tags: Mapping[str, str]) -> list[str]:
        wish, count = self._wish(), purchase.count
        least = max(1, min(count, wish.min_nodes - len(self._alive())))
        nodes = f"{least}-{count}" if wish.starts_early and least < count else f"{count}"
        apart = [node.name for id_, node in self._alive() if id_ not in self._noticed]
        # With a number of tasks per node, Slurm starts a range of nodes with the least of them.
        return [
            "sbatch", "--parsable", f"--job-name={job_name(purchase.cluster, purchase.token)}",
            f"--comment={comment_text(tags.items())}", f"--nodes={nodes}",
            "--no-kill", "--no-requeue", f"--chdir={Path.home()}",
            f"--output={logs_folder()}/%j.log",
            *([f"--exclude={','.join(filter(None, apart))}"] if any(apart) else []),
            *job_request(wish).words,
        ]  # fmt: skip

    def _check_where(self) -> None:
        """Check that the supervisor is in a job, where it is to be."""
        if self._wish().place.moves(self._wish().settings):
            raise CloudError(
                "The supervisor is to run in a job, and this machine is in none",
                ErrorKind.CONFIGURATION,
                remedy="type `workbench up --slurm --in-job` in a shell, and do the rest there.",
            )

    def _find_token(self, token: str) -> bool:
        return any(job.token == token for job in self._record.jobs.values())

    def _find_lost(self, purchase: Purchase) -> bool:
        """Adopt the job of a call whose answer never came; return whether there is one."""
        for one in self._list("-n", job_name(purchase.cluster, purchase.token)):
            if one.tags.get(TOKEN) == purchase.token:
                self._note(one.id, purchase.token, one.tags, purchase.count)
                return True
        return False

    def _note(self, id_: str, token: str, tags: Mapping[str, str], count: int) -> None:
        job = JobRecord(
            id_, token, tuple(sorted(tags.items())), (NodeRecord(),) * count, self._clock(),
            waits=f"Job {id_} waits in Slurm's queue.", cpus=job_request(self._wish()).cpus,
        )  # fmt: skip
        asked = tuple(one for one in self._record.asked if one != token)
        jobs = {**self._record.jobs, id_: job}
        self._keep(replace(self._record, jobs=jobs, asked=asked))

    def _end(self, job: JobRecord, numbers: set[int]) -> None:
        now = self._clock()
        ended = [node for i, node in enumerate(job.nodes) if i in numbers and not node.ended]
        left = [node for i, node in enumerate(job.nodes) if i not in numbers and not node.ended]
        if not ended:
            return
        why = "it was given back"
        if not left:
            run_slurm(["scancel", job.id])
        elif not all(node.name for node in left):
            run_slurm(["scontrol", "update", f"JobId={job.id}", f"NumNodes={len(left)}"])
        else:
            why = self._shrink(job, left)
        self._put(end_nodes(job, why, now, only=lambda node: any(node is one for one in ended)))

    def _shrink(self, job: JobRecord, left: Sequence[NodeRecord]) -> str:
        """Give back all but some nodes of a job; return what is to be said of them."""
        names = [node.name for node in left]
        keeps = not job.batch_host or job.batch_host in names or job.batch_host not in {
            node.name for node in job.nodes if not node.ended
        }  # fmt: skip
        if keeps:
            try:
                run_slurm(["scontrol", "update", f"JobId={job.id}", f"NodeList={','.join(names)}"])
            except CloudError as error:
                log.info("%s", error)
            else:
                return "it was given back"
        log.warning("Job %s keeps a node without ranks until it ends: Slurm keeps it.", job.id)
        return f"job {job.id} keeps it without ranks until it ends, because Slurm does"

    # -- what Slurm and the agents say

    def _is_due(self) -> bool:
        """Return whether Slurm is to be asked now."""
        waited = self._clock() - self._looked
        unsettled = any(
            not job.batch_host or any(not n.ended and not self._is_reached(f"{job.id}.{i}")
                                 for i, n in enumerate(job.nodes))
            for job in self._record.jobs.values() if not job.is_over
        )  # fmt: skip
        is_known = self._looked or not self._record.jobs
        if not is_known:
            return True
        return waited >= (LOOK_SECONDS if unsettled else REST_SECONDS)

    def _is_reached(self, id_: str) -> bool:
        found = self._sessions.get(id_)
        return found is not None and found[0].is_open

    def _look(self) -> None:
        """Ask Slurm for all our jobs, and record what has changed."""
        now = self._clock()
        listed = {one.id: one for one in self._list()}
        self._looked = now
        jobs = {id_: observe(job, listed.get(id_), now) for id_, job in self._record.jobs.items()}
        for one in listed.values():
            if one.id not in jobs and self._is_ours(one):
                adopted = JobRecord(
                    one.id, one.tags.get(TOKEN, ""), tuple(sorted(one.tags.items())),
                    (NodeRecord(),) * one.count, now,
                )  # fmt: skip
                seen = observe(adopted, one, now)
                if not seen.is_over:
                    jobs[one.id] = seen
        self._keep(replace(self._record, jobs=jobs))

    def _list(self, *more: str) -> tuple[SlurmJob, ...]:
        return list_jobs("-t", "all", *more)

    def _is_ours(self, one: SlurmJob) -> bool:
        tags = one.tags
        mine = tags.get(CLUSTER) == self._context.cluster
        return mine and tags.get(OWNER) == self._context.owner and bool(tags.get(TOKEN))

    def _hear(self) -> None:
        """Record the agents that have dialled in."""
        now = self._clock()
        for agent in self._dials.nodes() if self._dials else ():
            job = self._record.jobs.get(agent.job)
            if job is not None:
                self._put(place_agent(job, _of_agent(agent), now))

    def _read_signals(self) -> None:
        """Note the nodes that Slurm has warned, and ask it once until when they stay."""
        now = self._clock()
        warned = {
            id_
            for id_, (_, tail) in self._sessions.items()
            if id_ not in self._noticed and any(line.strip() for line in tail.lines())
        }
        if not warned:
            return
        if now - self._looked >= LOOK_SECONDS:
            with contextlib.suppress(CloudError):
                self._look()
        jobs = {_job_of(id_) for id_ in warned}
        ends = {
            job.id: self._end_of_warned(job, now)
            for job in self._record.jobs.values()
            if job.id in jobs and not job.is_over
        }
        self._noticed |= {id_: ends[_job_of(id_)] for id_ in warned if _job_of(id_) in ends}

    def _end_of_warned(self, job: JobRecord, now: float) -> float:
        """Return until when a job stays that Slurm has warned; 0 if that is unknown."""
        if now < job.end < now + AHEAD_SECONDS:
            return job.end
        with contextlib.suppress(CloudError):
            shown = run_slurm(["scontrol", "show", "partition", job.partition])
            grace = read_setting(shown, "GraceTime")
            wait = read_setting(run_slurm(["scontrol", "show", "config"]), "KillWait")
            return now + (number(grace) or number(wait))
        return 0.0

    def _drop_old(self) -> None:
        now = self._clock()
        kept = {
            id_: job for id_, job in self._record.jobs.items()
            if not job.is_over or now - max(n.ended for n in job.nodes) < LISTED_SECONDS
        }  # fmt: skip
        if len(kept) < len(self._record.jobs):
            self._keep(replace(self._record, jobs=kept))

    def _strangers(self, cluster: str) -> Iterator[Machine]:
        """Return the nodes of all our jobs, for a query that is about no cluster."""
        now = self._clock()
        for one in self._list():
            tags = one.tags
            if tags.get(TOKEN) and cluster in ("", tags.get(CLUSTER)):
                job = JobRecord(
                    one.id, tags[TOKEN], tuple(sorted(tags.items())),
                    (NodeRecord(),) * one.count, now,
                )  # fmt: skip
                yield from self._machines(observe(job, one, now))

    # -- inside

    def _alive(self) -> list[tuple[str, NodeRecord]]:
        return [
            (f"{job.id}.{index}", node)
            for job in self._record.jobs.values()
            for index, node in enumerate(job.nodes)
            if not node.ended
        ]

    def _node(self, id_: str) -> NodeRecord | None:
        job = self._record.jobs.get(_job_of(id_))
        number = int(id_.rpartition(".")[2])
        return job.nodes[number] if job and number < len(job.nodes) else None

    def _machines(self, job: JobRecord) -> Iterator[Machine]:
        for index, node in enumerate(job.nodes):
            state = MachineState.RUNNING if job.start else MachineState.PENDING
            yield Machine(
                id=f"{job.id}.{index}",
                state=MachineState.GONE if node.ended else state,
                address=node.address,
                reach=node.address if job.start else "",
                type=job.partition,
                slots=node.slots,
                price=0.0 if node.ended or not job.start else job.cpus,
                # One that never began is charged for nothing: it ends before.
                launched=job.start or (node.ended and math.nextafter(node.ended, math.inf)),
                ended=node.ended,
                token=job.token,
                tags=job.tags,
                reason=node.reason,
                interrupted=node.interrupted,
                waits="" if node.ended else job.waits,
            )

    def _listening(self) -> Dials:
        """Return what the agents dial, which listens from the first use on."""
        with self._lock:
            if self._dials is None:
                if not self._record.host_key:
                    self._keep(replace(self._record, host_key=new_key()[0]))
                _ = self._ring.public
                dials = Dials(self._ring.private, public_half(self._record.host_key))
                port = dials.listen(self._ports)
                self._dials = dials
                place = DialPlace(own_addresses(), port)
                write_private(self._context.folder / PLACE_NAME, json.dumps(asdict(place)))
                if port != self._record.port:
                    self._keep(replace(self._record, port=port))
            return self._dials

    def _ports(self) -> list[int]:
        """Return the ports at which to listen: that of an earlier supervisor, then what is open."""
        return [*([self._record.port] if self._record.port else []), *open_ports()]

    def _put(self, job: JobRecord) -> None:
        if self._record.jobs.get(job.id) != job:
            self._keep(replace(self._record, jobs={**self._record.jobs, job.id: job}))

    def _keep(self, record: ClusterRecord) -> None:
        if record != self._record:
            write_record(self._context.folder, record)
            self._record = record


def open_slurm(context: ClusterContext) -> Slurm:
    """Return the Slurm jobs of a cluster."""
    return Slurm(context)


def _apart(machines: Sequence[Machine]) -> Iterator[Machine]:
    """Yield machines; of several on one computer, only the first is reachable before it is gone."""
    used = set[str]()
    for one in sorted(machines, key=lambda machine: machine.launched):
        is_there = one.state is MachineState.RUNNING and bool(one.address)
        if is_there and one.address in used:
            waits = "Another job of this cluster uses its computer, and ends first."
            yield replace(one, reach="", waits=waits)
        else:
            yield one
        if is_there:
            used.add(one.address)


def _of_agent(agent: AgentNode) -> NodeRecord:
    return NodeRecord(agent.name, agent.address, agent.port, agent.slots)


def _job_of(id_: str) -> str:
    return id_.partition(".")[0]
