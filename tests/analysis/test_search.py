"""Optuna chooses and prunes as it does by itself, also after the supervisor was replaced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from workbench.analysis.search import Search, check_search
from workbench.core.run.model import RunKind, RunWish
from workbench.core.run.sweep import Goal, Outcome, Space, SweepWish, Trial
from workbench.errors import InputError

optuna = pytest.importorskip("optuna", reason="Optuna is not installed")

SEED = 7
SWEEP = SweepWish(
    "s",
    "fit",
    RunWish("s", "fit", RunKind.CELL, ""),
    (
        ("lr", Space(low=1e-4, high=1.0, is_log=True)),
        ("units", Space((50, 100, 200))),
        ("depth", Space(low=1.0, high=5.0, is_whole=True)),
    ),
    20,
    "loss",
    sampler="TPESampler",
    seed=SEED,
)


def value_of(given: dict) -> float:
    return (given["lr"] - 0.1) ** 2 + given["units"] / 1000 + given["depth"]


def sweep_through(sweep: SweepWish, *, renewed: int = 0) -> list[Trial]:
    """Do a sweep one trial after another, with a new search after ``renewed`` trials."""
    trials, search = list[Trial](), Search(sweep)
    for number in range(sweep.trials):
        if number == renewed:
            search = Search(sweep)
        given = search.choose(trials, number)
        at = 10.0 * number
        trials.append(
            Trial("s", number, given, f"r{number}", Outcome.FINISHED, value_of(dict(given)),
                  began=at, ended=at + 5)
        )  # fmt: skip
    return trials


def objective(trial) -> float:
    lr = trial.suggest_float("lr", 1e-4, 1.0, log=True)
    units = trial.suggest_categorical("units", (50, 100, 200))
    return value_of({"lr": lr, "units": units, "depth": trial.suggest_int("depth", 1, 5)})


@pytest.mark.parametrize("goal", Goal)
@pytest.mark.parametrize("sampler", ["TPESampler", "RandomSampler"])
def test_a_seeded_sweep_has_the_trials_of_a_seeded_study(goal, sampler):
    study = optuna.create_study(
        direction=str(goal), sampler=getattr(optuna.samplers, sampler)(seed=SEED)
    )
    study.optimize(objective, n_trials=SWEEP.trials)

    trials = sweep_through(replace(SWEEP, goal=goal, sampler=sampler))

    assert [dict(one.parameters) for one in trials] == [one.params for one in study.trials]
    assert [one.value for one in trials] == [one.value for one in study.trials]


def test_a_search_that_follows_another_one_continues_with_the_same_numbers():
    assert sweep_through(SWEEP) == sweep_through(SWEEP, renewed=11)


def test_a_poor_trial_is_pruned_by_its_curve():
    curves = {f"r{n}": [(i, float(n)) for i in range(1, 9)] for n in range(8)}
    curves["r8"] = [(1, 50.0)]
    sweep = replace(SWEEP, sampler="random", pruner="MedianPruner")
    search = Search(sweep, lambda run: curves[run])
    trials = list[Trial]()
    for n in range(8):
        given, at = search.choose(trials, n), 10.0 * n
        trials.append(Trial("s", n, given, f"r{n}", Outcome.FINISHED, float(n), "", at, at + 5))
    running = Trial("s", 8, search.choose(trials, 8), "r8", began=90.0)

    assert search.is_poor([*trials, running], running)
    curves["r8"] = [(1, 0.0)]
    assert not Search(sweep, lambda run: curves[run]).is_poor([*trials, running], running)


def test_the_study_can_be_opened_by_optuna(tmp_path: Path):
    trials, path = sweep_through(SWEEP), tmp_path / "study.journal"
    Search(SWEEP).write_study(trials, path)

    backend = optuna.storages.journal.JournalFileBackend(str(path))
    study = optuna.load_study(study_name="fit", storage=optuna.storages.JournalStorage(backend))

    assert [one.value for one in study.trials] == [one.value for one in trials]
    assert study.best_params == dict(min(trials, key=lambda one: one.value or 0.0).parameters)


def test_parameters_are_weighed_by_what_they_do():
    sweep = replace(SWEEP, sampler="random", trials=30)

    found = Search(sweep).weigh_parameters(sweep_through(sweep))

    assert next(iter(found)) == "depth"
    assert sum(found.values()) == pytest.approx(1.0)


def test_few_trials_and_equal_ones_weigh_nothing():
    trials = sweep_through(SWEEP)

    assert Search(SWEEP).weigh_parameters(trials[:9]) == {}
    assert Search(SWEEP).weigh_parameters([replace(one, value=1.0) for one in trials]) == {}


@pytest.mark.parametrize(
    ("sampler", "pruner", "names"),
    [
        ("random", "", ("random", "")),
        ("tpe", "median", ("TPESampler", "MedianPruner")),
        ("TPESampler", "Hyperband", ("TPESampler", "HyperbandPruner")),
    ],
)
def test_samplers_and_pruners_are_named_shortly(sampler, pruner, names):
    found = check_search({"sampler": sampler, "pruner": pruner, "trials": 3})
    assert (found["sampler"], found["pruner"], found["trials"]) == (*names, 3)


def test_names_that_optuna_has_not_are_refused():
    with pytest.raises(InputError, match="There is no sampler of Optuna called 'tpa'"):
        check_search({"sampler": "tpa"})
    with pytest.raises(InputError, match="GridSampler needs search_space"):
        check_search({"sampler": "GridSampler"})
