"""The nodes of a job follow what Slurm and the agents say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from workbench.cloud.slurm.record import (
    ClusterRecord,
    JobRecord,
    NodeRecord,
    end_nodes,
    observe,
    place_agent,
    read_record,
    write_record,
)
from workbench.cloud.slurm.texts import SlurmJob

NOW = 1_000_000.0
ASKED = JobRecord("7", "token", (("a", "b"),), (NodeRecord(),) * 3, NOW)
RUNNING = SlurmJob("7", "RUNNING", names=("n1", "n2", "n3"), start=NOW, end=NOW + 3600, count=3,
                   batch_host="n1")  # fmt: skip


def names(job: JobRecord) -> list[str]:
    return [node.name for node in job.nodes if not node.ended]


def test_a_waiting_job_says_what_it_waits_for() -> None:
    seen = observe(ASKED, SlurmJob("7", "PENDING", "Resources"), NOW)

    assert seen.waits == "Job 7 waits in Slurm's queue (Resources)."
    assert (seen.start, names(seen)) == (0.0, ["", "", ""])


def test_a_job_that_started_names_its_nodes_once() -> None:
    seen = observe(ASKED, RUNNING, NOW)

    assert (names(seen), seen.start, seen.end) == (["n1", "n2", "n3"], NOW, NOW + 3600)
    assert observe(seen, RUNNING, NOW + 30) == seen


def test_a_job_with_fewer_nodes_than_asked_for_ends_the_surplus() -> None:
    seen = observe(ASKED, replace(RUNNING, names=("n1", "n2"), count=2), NOW)

    assert names(seen) == ["n1", "n2"]
    assert seen.nodes[2].reason == "Slurm gave its job fewer nodes"


def test_a_node_that_slurm_no_longer_lists_failed() -> None:
    seen = observe(observe(ASKED, RUNNING, NOW), replace(RUNNING, names=("n1", "n3")), NOW + 30)

    assert names(seen) == ["n1", "n3"]
    assert seen.nodes[1].reason == "Slurm took it: node failure"
    assert not seen.nodes[1].interrupted


def test_an_agent_tells_before_slurm_is_asked_again() -> None:
    agent = NodeRecord("n2", "10.0.0.2", 4000, 4)

    heard = place_agent(ASKED, agent, NOW + 1)
    seen = observe(heard, RUNNING, NOW + 30)

    assert heard.start == NOW + 1
    assert sorted(names(seen)) == ["n1", "n2", "n3"]
    assert agent in seen.nodes
    assert place_agent(seen, agent, NOW + 60) == seen


def test_an_agent_of_a_node_that_is_gone_is_not_taken_back() -> None:
    seen = end_nodes(observe(ASKED, RUNNING, NOW), "it was given back", NOW)

    assert place_agent(seen, NodeRecord("n2", "10.0.0.2", 4000, 4), NOW) == seen
    assert seen.is_over


def test_the_end_of_a_job_is_the_end_of_its_nodes_with_the_reason() -> None:
    running = observe(ASKED, RUNNING, NOW)

    late = observe(running, SlurmJob("7", "TIMEOUT"), NOW + 3700)
    cancelled = observe(running, SlurmJob("7", "CANCELLED"), NOW + 60)
    taken = observe(running, SlurmJob("7", "PREEMPTED"), NOW + 60)

    assert {node.reason for node in late.nodes} == {"its job reached its time limit"}
    assert all(node.interrupted for node in (*late.nodes, *taken.nodes))
    assert not any(node.interrupted for node in cancelled.nodes)
    assert observe(late, RUNNING, NOW + 3800) == late


def test_a_job_that_was_just_submitted_may_not_be_listed_yet() -> None:
    assert observe(ASKED, None, NOW + 5) == ASKED
    assert observe(ASKED, None, NOW + 600).is_over


def test_a_suspended_job_keeps_its_nodes() -> None:
    running = observe(ASKED, RUNNING, NOW)

    assert observe(running, replace(RUNNING, state="SUSPENDED"), NOW + 30) == running


def test_the_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = ClusterRecord({"7": observe(ASKED, RUNNING, NOW)}, 4000, "key", ("token",))

    write_record(tmp_path, record)

    assert read_record(tmp_path) == record
    assert read_record(tmp_path / "nowhere") == ClusterRecord()
