"""Parameters are read and chosen, and a sweep continues until its trials have ended."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from workbench.core.fleet.cost import FleetCost
from workbench.core.options.table import OPTIONS
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.sweep import (
    GRID,
    SAME_FAILURES,
    Goal,
    Outcome,
    Space,
    SweepStep,
    SweepWish,
    Trial,
    check_sweep,
    choose_parameters,
    choose_ranks,
    next_step,
    outcome_of,
    rank_trials,
    read_ranks,
    read_space,
    split_parameters,
    usual_trials,
)
from workbench.errors import InputError

LR = Space(low=1e-4, high=0.1, is_log=True)
UNITS = Space((50, 100, 200))
OPTION = next(one for one in OPTIONS if one.name == "ranks_per_trial")
SWEEP = SweepWish(
    "s", "fit", RunWish("s", "fit", RunKind.CELL, ""), (("lr", LR), ("units", UNITS)), 4, "loss"
)


def trial(number: int, outcome=Outcome.FINISHED, value=0.5, failure="") -> Trial:
    return Trial("s", number, (("lr", 0.1),), f"r{number}", outcome, value, failure, 1.0, 2.0)


@pytest.mark.parametrize(
    ("written", "space"),
    [
        ([50, 100, 200], UNITS),
        ("log(1e-4, 0.1)", LR),
        ("log(1e-4,1e-1)", LR),
        ("uniform(0, 1)", Space(high=1.0)),
        ("uniform(-1, 1)", Space(low=-1.0, high=1.0)),
        ("int(1, 8)", Space(low=1.0, high=8.0, is_whole=True)),
        ("1..8", Space(low=1.0, high=8.0, is_whole=True)),
        ("adam", Space(("adam",))),
        ("log", Space(("log",))),
        ("f(1, 2)", Space(("f(1, 2)",))),
        (0.1, Space((0.1,))),
        (["adam", "sgd"], Space(("adam", "sgd"))),
    ],
)
def test_a_parameter_has_the_values_that_are_written(written, space):
    assert read_space("lr", written) == space


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ([], "The list of lr is empty"),
        ("log(0, 1)", "begins at 0, and log needs more"),
        ("log(-1, 1)", "begins at -1, and log needs more"),
        ("uniform(1, 0)", "is not a range from a smaller to a larger number"),
        ("uniform(1)", "is not a range"),
        ("int(0.5, 2)", "is not a range of whole numbers"),
        ("8..1", "is not a range from a smaller"),
        ("uniform(0, 1e999)", "is not a range"),
    ],
)
def test_what_is_no_range_is_refused_with_what_to_write(written, said):
    with pytest.raises(InputError, match=said) as error:
        read_space("lr", written)
    assert "write lr=" in str(error.value)


def test_parameters_with_one_value_are_not_searched():
    assert split_parameters({"lr": "log(1e-4, 0.1)", "units": [50, 100, 200], "seed": 3}) == (
        SWEEP.spaces,
        (("seed", 3),),
    )


def test_a_grid_has_each_combination_once():
    grid = (("a", Space((1, 2))), ("b", read_space("b", "1..3")))
    sweep = replace(SWEEP, spaces=grid, sampler=GRID, trials=usual_trials(grid))
    chosen = [choose_parameters(sweep, number) for number in range(sweep.trials)]
    assert len({*chosen}) == len(chosen) == 6
    assert chosen[0] == (("a", 1), ("b", 1))


def test_a_seed_repeats_each_trial_whatever_was_drawn_before():
    first = [choose_parameters(SWEEP, number) for number in range(20)]
    assert [choose_parameters(SWEEP, number) for number in reversed(range(20))] == first[::-1]
    assert first != [choose_parameters(replace(SWEEP, seed=1), number) for number in range(20)]
    assert all(LR.low <= dict(one)["lr"] <= LR.high for one in first)
    assert {dict(one)["units"] for one in first} == {50, 100, 200}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"spaces": ()}, "A sweep needs a parameter with several values"),
        ({"trials": 0}, "--trials must be from 1 to"),
        ({"sampler": GRID}, "A grid needs a list of values of lr, not log"),
        ({"sampler": GRID, "spaces": (("units", UNITS),)}, "The grid has 3 combinations"),
    ],
)
def test_a_sweep_that_cannot_be_done_is_refused(changes, said):
    with pytest.raises(InputError, match=said):
        check_sweep(replace(SWEEP, **changes))


def test_trials_follow_each_other_and_then_it_is_over():
    assert next_step(SWEEP, [], 1, 0.0).begin == 0
    running = trial(0, Outcome.RUNNING)
    assert next_step(SWEEP, [running], 1, 0.0).begin is None
    assert next_step(SWEEP, [running], 2, 0.0).begin == 1
    last = next_step(SWEEP, [trial(n) for n in range(4)], 2, 0.0)
    assert (last.begin, last.end.over) == (None, "All 4 trials have ended.")
    assert not last.end.has_failed


def test_three_trials_that_fail_the_same_way_end_it_once_the_others_have_ended():
    failed = [trial(n, Outcome.FAILED, None, "NameError: x") for n in range(SAME_FAILURES)]
    assert next_step(SWEEP, failed[:2], 1, 0.0).begin == 2
    running = [*failed, trial(3, Outcome.RUNNING)]
    assert next_step(replace(SWEEP, trials=9), running, 2, 0.0).begin is None
    end = next_step(replace(SWEEP, trials=9), failed, 2, 0.0).end
    assert end.has_failed
    assert "NameError: x" in end.over


def test_a_stop_and_a_limit_let_trials_end_and_begin_none():
    running, ended = trial(1, Outcome.RUNNING), trial(0)
    stopped = replace(SWEEP, stop=True)
    assert next_step(stopped, [ended, running], 2, 0.0).begin is None
    assert "stopped after 1 of 4" in next_step(stopped, [ended], 2, 0.0).end.over
    late = replace(SWEEP, began=10.0, wall_clock_limit=5.0)
    assert next_step(late, [ended], 1, 14.0).begin == 1
    assert "time is over" in next_step(late, [ended], 1, 15.0).end.over


def test_a_budget_begins_no_trial_that_it_does_not_pay_and_stops_those_that_would_exceed_it():
    bought, running = replace(SWEEP, budget=2.0), trial(1, Outcome.RUNNING)
    hour = replace(trial(0), began=0.0, ended=3600.0)
    cheap, dear = FleetCost(0.9, 1.0), FleetCost(1.1, 1.0)  # of $1 an hour
    assert next_step(bought, [hour], 1, 0.0, cheap).begin == 1
    assert next_step(bought, [hour, running], 2, 0.0, dear) == SweepStep()
    halt = next_step(bought, [hour, running], 2, 0.0, FleetCost(1.99, 1.0)).halt
    assert halt == "The budget of $2.00 of its sweep is used up."
    end = next_step(bought, [hour], 2, 0.0, dear).end.over
    assert end == "Its budget of $2.00 leaves no room for another trial after 1 of 4 trials."
    hours = next_step(bought, [hour], 2, 0.0, dear, "core-hours").end.over
    assert "budget of 2 core-hours leaves" in hours


def test_a_sweep_without_a_budget_may_cost_anything():
    assert next_step(SWEEP, [trial(0)], 1, 0.0, FleetCost(1e6, 1e3)).begin == 1
    with pytest.raises(InputError, match="--sweep-budget must be"):
        check_sweep(replace(SWEEP, budget=-1.0))


def test_the_best_trial_has_finished_with_the_best_value():
    trials = [trial(0, value=0.5), trial(1, value=0.1), trial(2, Outcome.PRUNED, 0.0),
              trial(3, value=float("nan")), trial(4, value=0.1)]  # fmt: skip
    assert [one.number for one in rank_trials(SWEEP, trials)] == [1, 4, 0]
    most = replace(SWEEP, goal=Goal.MAXIMIZE)
    assert [one.number for one in rank_trials(most, trials)] == [0, 1, 4]


@pytest.mark.parametrize(
    ("ranks", "size", "left", "chosen"),
    [
        ((0, 0), 8, 40, 0),
        ((2, 2), 8, 1, 2),
        ((1, 4), 8, 40, 1),
        ((1, 4), 8, 8, 1),
        ((1, 4), 8, 4, 2),
        ((1, 4), 8, 3, 2),
        ((1, 4), 8, 1, 4),
        ((1, 8), 6, 1, 6),
        ((1, 4), 0, 5, 1),
        ((4, 8), 2, 5, 4),
    ],
)
def test_the_last_trials_share_the_ranks(ranks, size, left, chosen):
    assert choose_ranks(ranks, size, left) == chosen


@pytest.mark.parametrize("text", ["0", "4..1", "x", "1..", "1..2..3", ""])
def test_what_is_no_number_of_ranks_is_refused(text):
    with pytest.raises(InputError, match="ranks"):
        OPTION.read(text)
    assert (read_ranks("2"), read_ranks("1..4")) == ((2, 2), (1, 4))


@pytest.mark.parametrize(
    ("state", "pruned", "outcome"),
    [
        (RunState.QUEUED, False, Outcome.RUNNING),
        (RunState.STOPPING, True, Outcome.RUNNING),
        (RunState.FINISHED, True, Outcome.FINISHED),
        (RunState.STOPPED, True, Outcome.PRUNED),
        (RunState.STOPPED, False, Outcome.STOPPED),
        (RunState.FAILED, False, Outcome.FAILED),
        (RunState.LOST, False, Outcome.FAILED),
    ],
)
def test_a_trial_ends_as_its_run_does(state, pruned, outcome):
    assert outcome_of(state, is_pruned=pruned) is outcome


def test_in_random_histories_each_trial_begins_once_and_the_sweep_ends():
    for seed in range(38_100, 38_300):
        chance = random.Random(seed)
        sweep = replace(SWEEP, trials=chance.randint(1, 12))
        places, trials = chance.randint(1, 4), list[Trial]()
        for _ in range(500):
            step = next_step(sweep, trials, places, 0.0)
            assert step == next_step(sweep, trials, places, 0.0), seed
            if step.end.over:
                break
            if step.begin is not None:
                assert step.begin == len(trials), seed
                trials.append(trial(step.begin, Outcome.RUNNING))
            running = [one for one in trials if not one.outcome.ended]
            assert len(running) <= places, seed
            if running and chance.random() < 0.6:
                one = chance.choice(running)
                outcome = chance.choice((Outcome.FINISHED, Outcome.PRUNED, Outcome.STOPPED))
                trials[one.number] = replace(one, outcome=outcome)
        assert step.end.over, seed
        assert len(trials) == sweep.trials, seed
