"""The test run of an AWS account, unchanged, on the rehearsal's EC2 with real hosts and MPI."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.rehearsal.ec2.endpoint import Endpoint
from workbench.cloud.ec2.provider import Ec2

pytestmark = [pytest.mark.root, pytest.mark.mpi, pytest.mark.timeout(600)]
REGION = "us-east-1"
SCRIPT = Path(__file__).parents[1] / "aws" / "run.py"
LEASE_SECONDS = 60


def start(endpoint: Endpoint, folder: Path, *more: str) -> subprocess.Popen[str]:
    endpoint.reset()
    words = [
        sys.executable, str(SCRIPT), "--region", REGION, "--type", "c5.large",
        "--ssh-from", endpoint.ssh_source, "--lease", str(LEASE_SECONDS), *more,
    ]  # fmt: skip
    return subprocess.Popen(
        words,
        env={**os.environ, "AWS_ENDPOINT_URL": endpoint.url},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder,
    )  # fmt: skip


def purchases(endpoint: Endpoint) -> list[dict[str, Any]]:
    """Return the calls that bought something; a dry run buys nothing."""
    return [
        params
        for action, params in endpoint.calls()
        if action == "CreateFleet" and "DryRun" not in params
    ]


def nothing_is_left(endpoint: Endpoint) -> bool:
    ec2 = boto3.client("ec2", region_name=REGION, endpoint_url=endpoint.url)
    rows = ec2.describe_instances()["Reservations"]
    states = {one["State"]["Name"] for row in rows for one in row["Instances"]}
    return states <= {"terminated"} and not Ec2(REGION, endpoint=endpoint.url).leftovers()


@pytest.fixture(params=["inside AWS", "at home"])
def trial_endpoint(request: pytest.FixtureRequest) -> Endpoint:
    """Give the rehearsal's EC2, from a machine beside its nodes and from one that is far."""
    name = "far_endpoint" if request.param == "at home" else "one_endpoint"
    endpoint: Endpoint = request.getfixturevalue(name)
    return endpoint


@pytest.mark.weekly
def test_every_check_passes_and_nothing_is_left(trial_endpoint: Endpoint, tmp_path: Path) -> None:
    trial = start(trial_endpoint, tmp_path)
    output, _ = trial.communicate(timeout=580)

    report = (tmp_path / "workbench-aws.md").read_text()
    assert trial.returncode == 0, output + report
    assert "| two nodes with MPI | passed |" in report
    assert "| nodes end without a supervisor | passed |" in report
    assert "| nothing is left | passed |" in report
    assert trial_endpoint.ssh_source not in report
    assert "123456789012" not in report
    assert nothing_is_left(trial_endpoint)


@pytest.mark.weekly
def test_an_interrupt_deletes_what_was_started(one_endpoint: Endpoint, tmp_path: Path) -> None:
    trial = start(one_endpoint, tmp_path)
    deadline = time.monotonic() + 150
    while not purchases(one_endpoint):
        assert time.monotonic() < deadline
        assert trial.poll() is None
        time.sleep(0.2)

    trial.send_signal(signal.SIGINT)
    output, _ = trial.communicate(timeout=240)

    report = (tmp_path / "workbench-aws.md").read_text()
    assert trial.returncode == 1, output
    assert "Interrupted" in report
    assert "| nothing is left | passed |" in report
    assert nothing_is_left(one_endpoint)


def test_a_budget_that_is_not_valid_starts_nothing(one_endpoint: Endpoint, tmp_path: Path) -> None:
    trial = start(one_endpoint, tmp_path, "--budget", "0.001")
    output, _ = trial.communicate(timeout=240)

    assert trial.returncode == 2, output
    assert "raise --budget" in (tmp_path / "workbench-aws.md").read_text()
    assert all(
        action != "CreateFleet" for action, params in one_endpoint.calls() if "DryRun" not in params
    )
