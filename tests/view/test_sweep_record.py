"""A sweep is followed to its end, and says what limits it and why it failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.sweep import Outcome, Space, SweepFact, SweepWish, Trial
from workbench.errors import RunFailed
from workbench.store import Store
from workbench.view.following import Interrupts
from workbench.view.sweep_record import SweepRecord, follow_sweep, limits_sentence, read_sweep

RUN = RunWish("260101-000000-zzzz", "fit", RunKind.CELL, "pass")
SWEEP = SweepWish("s", "fit", RUN, (("lr", Space((0.1, 0.2))),), 2, "loss", created=1.0)


def follow(store: Store, **more: bool) -> tuple[list[tuple[SweepRecord, bool]], list[str]]:
    shown, notes = list[tuple[SweepRecord, bool]](), list[str]()
    follow_sweep(
        store,
        store.sweeps.find("s")[0],
        lambda record, is_last: shown.append((record, is_last)),
        notes.append,
        interrupts=Interrupts(),
        **more,
    )
    return shown, notes


def end(store: Store, number: int, outcome: Outcome, failure: str = "", error: str = "") -> None:
    trial = Trial("s", number, (("lr", 0.1),), f"260101-00000{number}-aaaa", began=1.0)
    store.sweeps.begin(trial, replace(RUN, id=trial.run, name=f"fit-{number}"))
    store.put_run_fact(trial.run, state=RunState.FAILED, error=error, ended=2.0)
    store.sweeps.put(replace(trial, outcome=outcome, value=0.5, failure=failure, ended=2.0))


def test_a_sweep_that_is_over_is_shown_once(store: Store) -> None:
    store.sweeps.wish(SWEEP, None, None)
    end(store, 0, Outcome.FINISHED)
    store.sweeps.close("s", SweepFact("All have ended.", spent=0.5))

    shown, notes = follow(store)

    assert [is_last for _, is_last in shown] == [True]
    assert notes == []
    assert shown[0][0].end_lines[1] == "Its cluster has cost $0.50 meanwhile."


def test_the_best_is_named_as_a_run_with_how_to_repeat_it(store: Store) -> None:
    store.sweeps.wish(SWEEP, None, None)
    end(store, 0, Outcome.FINISHED)
    cell = read_sweep(store, "fit")
    script = cell._replace(
        sweep=replace(SWEEP, run=replace(RUN, path="/a/train.py")),
        importance={"lr": 0.75, "n": 0.25},
    )

    assert cell.end_lines[-1] == (
        "It is run fit/best, as for `workbench logs fit/best`. Repeat it on all ranks: "
        "run the same cell with `--param lr=0.1`."
    )
    assert "`workbench run --param lr=0.1 /a/train.py`" in script.end_lines[-1]
    assert "What mattered for the best tenth (PED-ANOVA): lr 75 %, n 25 %." in script.end_lines


def test_a_sweep_in_the_background_is_not_followed(store: Store) -> None:
    store.sweeps.wish(replace(SWEEP, wall_clock_limit=7200.0), None, None)

    shown, notes = follow(store, background=True)

    assert shown == []
    assert notes == [
        "Sweep 'fit' begins no trial after 2 h (--sweep-limit).",
        "Sweep 'fit' is queued; `workbench sweeps` shows it.",
    ]


def test_the_failure_that_ended_it_is_shown_with_its_traceback(store: Store) -> None:
    store.sweeps.wish(SWEEP, None, None)
    end(store, 0, Outcome.FAILED, "ValueError: other", "the other traceback")
    end(store, 1, Outcome.FAILED, "NameError: x", "Traceback: line 1, NameError: x")
    store.sweeps.close("s", SweepFact("3 trials failed the same way: NameError: x", True))

    with pytest.raises(RunFailed, match="3 trials failed the same way") as failed:
        follow(store)

    assert failed.value.rank_traceback == "Traceback: line 1, NameError: x"


def test_both_limits_are_said(store: Store) -> None:
    store.sweeps.wish(replace(SWEEP, wall_clock_limit=60.0, budget=5.0), None, None)

    assert limits_sentence(read_sweep(store, "fit")) == (
        "Sweep 'fit' begins no trial that would make it cost more than $5.00 in all "
        "(--sweep-budget), and none after 1 min (--sweep-limit)."
    )
