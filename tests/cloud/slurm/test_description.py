"""What is asked for becomes options of sbatch, and what a site charges is never called free."""

from __future__ import annotations

import pytest

from workbench.cloud.slurm.description import PROVIDER, check_options, job_request
from workbench.core.fleet.model import FleetWish, Needs
from workbench.errors import InputError


def test_only_what_was_asked_for_is_given_to_slurm() -> None:
    given = (("partition", "gpu"), ("sbatch", "--reservation='my school'"), ("walltime", 7200.0))

    asked = job_request(FleetWish("slurm", settings=given, needs=Needs(gpus=2, memory=16.0)))

    assert asked.words == [
        "--partition=gpu", "--gres=gpu:2", "--time=0-02:00:00", "--cpus-per-task=2",
        "--mem=16384M", "--reservation=my school",
    ]  # fmt: skip
    assert job_request(FleetWish("slurm")).words == ["--cpus-per-task=1"]


def test_what_workbench_sets_itself_is_refused() -> None:
    with pytest.raises(InputError, match="--nodes=4 is set by workbench itself"):
        check_options("--nodes=4")


def test_nodes_are_not_called_free() -> None:
    assert PROVIDER.unpriced == "charged by the site"
