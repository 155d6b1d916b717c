"""What is asked for becomes options of sbatch, and nodes cost core-hours."""

from __future__ import annotations

import pytest

from workbench.cloud.slurm.description import PROVIDER, check_options, job_request
from workbench.core.fleet.model import FleetWish, Needs
from workbench.core.fleet.request import FleetRequest, Spelling, fleet_wish
from workbench.core.units import hourly
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


def test_nodes_cost_core_hours_and_so_live_for_a_while() -> None:
    asked = FleetRequest(provider="slurm", nodes=2, budget=200.0)
    spelling = Spelling(str, lambda: "")

    fleet = fleet_wish(asked, spelling, now=0.0)

    assert (fleet.expires, fleet.idle, fleet.budget) == (8 * 3600.0, 900.0, 200.0)
    assert [one.label for one in PROVIDER.form if one.name == "budget"] == ["Budget, core-hours"]
    assert hourly(16.0, PROVIDER.unit) == "16 core-hours/h"
    assert not PROVIDER.is_simulated
