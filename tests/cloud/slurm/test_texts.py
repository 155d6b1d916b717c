"""The texts of Slurm's commands are read and written."""

from __future__ import annotations

import json
import subprocess

import pytest

from workbench.cloud.slurm.texts import (
    comment_text,
    duration,
    epoch,
    expand,
    job_name,
    job_script,
    number,
    read_jobs,
    read_partitions,
    read_setting,
    read_start,
    refusal,
    time_limit,
)
from workbench.core.fleet.cloud_errors import ErrorKind

JOBS = """\
2|RUNNING|None|node[1-2]|2026-11-27T18:17:36|2027-11-27T18:17:36|2|4|node1|main|workbench-lab-0|{"a":"b|c"}
3|PENDING|Resources||N/A|N/A|3|3|n/a|main|other|(null)
4|PENDING|Priority||2026-11-27T20:00:00|2026-11-27T21:00:00|1|1|n/a|gpu|other|not ours
slurm_load_jobs error: nothing
"""


def test_jobs_are_read() -> None:
    running, first, second = read_jobs(JOBS)

    assert (running.names, running.count, running.cpus) == (("node1", "node2"), 2, 4)
    assert running.start == epoch("2026-11-27T18:17:36") == 1795803456.0
    assert running.tags == {"a": "b|c"}
    assert (running.batch_host, running.waits) == ("node1", "")
    assert (first.reason, first.start, first.tags) == ("Resources", 0.0, {})
    assert first.waits == "Job 3 waits in Slurm's queue (Resources)."
    assert "expects it to start about" in second.waits
    assert second.tags == {}


def test_partitions_are_read() -> None:
    text = (
        "main*|up|infinite|3|4|8000|(null)|0/12/0/12\n"
        "gpu|up|2-00:00:00|1|64+|515000+|gpu:a100:4(S:0-1)|60/4/0/64\nnonsense\n"
    )

    main, gpu = read_partitions(text)

    assert (main.name, main.is_usual, main.limit, main.cpus) == ("main", True, 0.0, 4)
    assert main.memory == 7.8125
    assert (gpu.gpus, gpu.gpu, gpu.idle, gpu.limit) == (4, "a100", 4, 172800.0)
    assert (gpu.cpus, gpu.is_usual) == (64, False)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node1", ["node1"]),
        ("a[01-03,7],b", ["a01", "a02", "a03", "a7", "b"]),
        ("r[1-2]n[8-9]", ["r1n8", "r1n9", "r2n8", "r2n9"]),
        ("", []),
        ("(null)", []),
    ],
)
def test_a_list_of_names_is_expanded(text: str, names: list[str]) -> None:
    assert [*expand(text)] == names


def test_a_time_limit_is_read_and_written() -> None:
    assert duration("2-12:30:00") == 217800.0
    assert duration("30:00") == 1800.0
    assert duration("infinite") == duration("n/a") == 0.0
    assert time_limit(90061) == "1-01:01:00"
    assert duration(time_limit(5400)) == 5400.0
    assert time_limit(1) == "0-00:01:00"


def test_unknown_values_are_nothing() -> None:
    assert epoch("N/A") == epoch("NONE") == epoch("") == 0.0
    assert (number("4+"), number("(null)")) == (4, 0)


def test_a_predicted_start_is_read() -> None:
    said = "sbatch: Job 25 to start at 2026-11-27T20:00:00 using 2 processors on nodes node[1-2]"

    assert read_start(said) == epoch("2026-11-27T20:00:00")
    assert read_start("nothing") == 0.0


def test_a_setting_is_read() -> None:
    said = "SrunEpilog              = (null)\nSrunPortRange           = 60001-63000\n"

    assert read_setting(said, "SrunPortRange") == "60001-63000"
    assert read_setting(said, "SrunEpilog") == read_setting(said, "Other") == ""
    assert read_setting("   DefaultTime=NONE DisableRootJobs=NO GraceTime=20", "GraceTime") == "20"


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        (
            "sbatch: error: invalid partition specified: nope\n"
            "sbatch: error: Batch job submission failed: Invalid partition name specified",
            ErrorKind.CONFIGURATION,
            "Slurm refuses the job (invalid partition specified: nope); name one that `sinfo` "
            "lists with --partition.",
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid feature specification",
            ErrorKind.CONFIGURATION,
            "Slurm refuses the job (Invalid feature specification); correct --constraint.",
        ),
        (
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller",
            ErrorKind.THROTTLING,
            "Slurm's sbatch failed (Batch job submission failed: Unable to contact slurm "
            "controller); it is tried again.",
        ),
        ("", ErrorKind.THROTTLING, "Slurm's sbatch failed (no message); it is tried again."),
    ],
)
def test_a_refusal_is_one_sentence_with_the_remedy(
    said: str, kind: ErrorKind, sentence: str
) -> None:
    error = refusal(["sbatch"], said)

    assert (error.kind, str(error)) == (kind, sentence)


def test_a_purchase_is_found_by_the_name_of_its_job() -> None:
    assert job_name("lab", "0123456789abcdef" * 4) == "workbench-lab-0123456789abcdef"
    assert json.loads(comment_text([("b", "1"), ("a", '"')])) == {"a": '"', "b": "1"}


def test_a_script_starts_one_agent_on_each_node_with_the_fewest_cpus(tmp_path) -> None:
    (tmp_path / "srun").write_text('#!/bin/sh\nfor word; do echo "$word"; done\ncat\n')
    (tmp_path / "srun").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_NUM_NODES": "3",
        "SLURM_JOB_CPUS_PER_NODE": "8(x2),4",
    }  # fmt: skip

    done = subprocess.run(
        ["sh"], input=job_script("/a python", '{"key": "$HOME"}'), env=environment,
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    lines = done.stdout.splitlines()
    assert {"--nodes=3", "--ntasks=3", "--cpus-per-task=4", "/a python"} <= {*lines}
    assert lines[-1] == '{"key": "$HOME"}'
