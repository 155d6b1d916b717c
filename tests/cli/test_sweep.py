"""Ask for sweeps in a shell, by options and by a job file."""

from __future__ import annotations

import json
from pathlib import Path

from workbench.core.run.sweep import Goal, SweepWish
from workbench.store import Store

JOB = """
script = "train.py"
trials = 6
minimize = "loss"
ranks_per_trial = "1..2"
sampler = "random"
seed = 7
sweep_limit = "2h"
parameters = { lr = "log(1e-3, 1)" }
"""


def only(store: Store) -> SweepWish:
    [name] = store.sweeps.names()
    return store.sweeps.find(name)[0]


def test_a_job_file_says_all_of_a_sweep(workbench, actor, store, script) -> None:
    Path("job.toml").write_text(JOB)

    result = workbench("sweep", "--background", "job.toml", "--trials", "8")

    sweep = only(store)
    assert (sweep.trials, sweep.metric, sweep.goal) == (8, "loss", Goal.MINIMIZE)
    assert (sweep.ranks, sweep.seed, sweep.wall_clock_limit) == ((1, 2), 7, 7200.0)
    assert "begins no trial after 2 h (--sweep-limit)" in result.stdout


def test_a_run_refuses_a_job_file_of_a_sweep(workbench, actor, store, script) -> None:
    Path("job.toml").write_text(JOB)

    result = workbench("run", "--background", "job.toml")

    assert result.exit_code == 2
    assert "describes a sweep (trials, minimize, ranks_per_trial, sampler" in result.stderr
    assert store.runs() == []


def test_a_budget_of_nothing_that_costs_is_refused(workbench, actor, store, script) -> None:
    words = ("--minimize", "loss", "--param", "lr=[0.1,0.2]", "--sweep-budget", "5")

    result = workbench("sweep", *words, script)

    assert result.exit_code == 2
    assert "cost nothing, so no budget ends a sweep" in result.stderr


def test_sweeps_are_listed_for_a_program(workbench, actor, store, script) -> None:
    workbench("sweep", "--background", "--minimize", "loss", "--param", "lr=[0.1,0.2]", script)

    [found] = json.loads(workbench("sweeps", "--json").stdout)

    assert (found["name"], found["budget"], found["spent"]) == ("train", 0.0, 0.0)
