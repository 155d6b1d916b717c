"""A run's state, and what it waits for, is said in the same words on a page and in a terminal."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.curves import Curve
from workbench.core.recovery.resumption import Attempt, continuations
from workbench.core.run.hang import Elsewhere, Hang, WaitingRanks, encode_hang
from workbench.core.run.metrics import drawn
from workbench.core.run.model import Run, RunFact, RunKind, RunState, RunWish
from workbench.pages.messages import MessageDetails, run_message
from workbench.pages.protocol import MarkMessage, RunMessage
from workbench.surfaces import in_page
from workbench.view.attempts import mark
from workbench.view.hang_text import hang_lines
from workbench.view.pictures.curve_layout import describe, nonfinite_remark, panels_of
from workbench.view.state_line import (
    PATIENCE_SECONDS,
    SEPARATOR,
    line_parts,
    reason,
    start_failure,
    state_line,
    state_word,
)

CASES = json.loads((Path(__file__).parent / "runs.json").read_text(encoding="utf-8"))
NOW = 1034.0


def hang_of(reported: dict[str, Any]) -> Hang:
    waiting, others = (
        [{**one, "ranks": tuple(one["ranks"])} for one in reported[name]]
        for name in ("waiting", "others")
    )
    return Hang(
        tuple(WaitingRanks(**one) for one in waiting),
        tuple(Elsewhere(**one) for one in others),
        reported["sure"],
    )


def made(case: dict[str, Any]) -> Run:
    wish = {"kind": "cell", **case["wish"]}
    wish["kind"] = RunKind(wish["kind"])
    fact = {**case["fact"], "state": RunState(case["fact"]["state"])}
    fact["hang"] = encode_hang(hang_of(case["hang"])) if case.get("hang") else ""
    return Run(RunWish("id", "digits", source="pass", **wish), RunFact("id", **fact))


def curves_of(case: dict[str, Any]) -> dict[str, Curve]:
    curves = {name: Curve() for name in case["curves"]}
    for name, values in case["curves"].items():
        known = [math.nan if value is None else value for value in values]
        curves[name].add(0, range(len(values)), known)
    return curves


def marks_of(case: dict[str, Any]) -> tuple[MarkMessage, ...]:
    past = [Attempt(**{**one, "state": RunState(one["state"])}) for one in case["attempts"]]
    found = continuations(past, made(case).fact)
    return tuple(mark(*one) for one in zip(found, case["pauses"], strict=True))


def hang_said(sent: RunMessage) -> list[str]:
    return [sent.hang.sentence, sent.hang.advice] if sent.hang else []


@pytest.mark.parametrize("case", CASES, ids=[case["what"] for case in CASES])
def test_a_run_is_said_as_on_the_page(case) -> None:
    run, waiting, rate = made(case), case["waiting"], case["rate"]
    curves, marks = curves_of(case), marks_of(case)

    sent = run_message(
        run, NOW, MessageDetails(marks=marks), rate=rate, waiting=waiting, curves=curves
    )
    parts = line_parts(run, NOW, waiting, rate)

    assert sent.word == state_word(run) == case["word"]
    assert SEPARATOR.join(sent.line) == in_page(SEPARATOR.join(parts)) == case["line"]
    assert [line for line in hang_said(sent) if line] == case["hang_lines"]
    assert state_line(run, NOW, waiting, rate) == case["terminal"]
    assert hang_lines(run) == case["hang_lines"]
    assert [f"{one.iteration}: {one.text}" for one in marks] == case["marks"]


@pytest.mark.parametrize("case", CASES, ids=[case["what"] for case in CASES])
def test_curves_are_described_as_on_the_page(case) -> None:
    curves = curves_of(case)

    remarks = [(nonfinite_remark(curves[name]), name) for name in drawn(curves)]

    assert describe(panels_of({"": curves})) == (case["description"] or "No curve yet")
    assert "; ".join(f"{name} {said}" for said, name in remarks if said) == case["remark"]


def test_what_a_run_waits_for_takes_the_place_of_its_message() -> None:
    fact = RunFact("id", RunState.QUEUED, message="no")
    run = Run(RunWish("id", "digits", RunKind.CELL, "pass"), fact)

    assert state_line(run, 0.0, "the cluster is starting") == "queued · the cluster is starting"


@pytest.mark.parametrize(
    ("state", "said"),
    [("running", "iteration 450 · epoch 5.9 of 6"), ("lost", "iteration 450 of 460")],
)
def test_the_total_of_iterations_is_shown_unless_it_is_an_estimate(state, said) -> None:
    fact = {"iteration": 450, "iterations_total": 460, "epoch": 5.9, "epochs_total": 6}

    assert said in state_line(made({"wish": {}, "fact": {**fact, "state": state}}), NOW)


READY = ClusterFact("default", ClusterState.READY, 2, 1)


def waits(state: RunState = RunState.QUEUED, *, stop: bool = False, message: str = "") -> Run:
    wish = RunWish("261121-003229-aaaa", "first", RunKind.CELL, "pass", created=100.0, stop=stop)
    return Run(wish, RunFact(wish.id, state, message=message))


@pytest.mark.parametrize(
    ("waiting", "cluster", "before", "words"),
    [
        (waits(RunState.RUNNING), READY, [], ""),
        (waits(RunState.FINISHED, stop=True), READY, [], ""),
        (
            waits(RunState.RUNNING, stop=True),
            READY,
            [],
            "asked to stop; the ranks have 5 s to finish their iteration",
        ),
        (waits(RunState.SUBMITTED), READY, [], "sent to the ranks"),
        (waits(RunState.SUBMITTED, message="They are busy."), READY, [], "They are busy."),
        (waits(), READY, [], "about to be sent to the ranks"),
        (waits(message="Repeats 'data' first."), READY, [], "Repeats 'data' first."),
        (waits(), READY, [waits(RunState.RUNNING)], "waits for run 'first'"),
        (waits(), READY, [waits()] * 3, "waits for run 'first' and 2 more"),
        (waits(), ClusterFact("default", message="Of old."), [], "the cluster is about to start"),
        (
            waits(),
            ClusterFact("default", ClusterState.STARTING, message="1 of 2 is here"),
            [],
            "the cluster is starting (1 of 2 is here)",
        ),
        (
            waits(),
            ClusterFact("default", ClusterState.RESIZING, 1),
            [],
            "the cluster is changing size from 1 rank",
        ),
        (
            waits(),
            ClusterFact("default", ClusterState.FAILED),
            [],
            "the cluster failed and is being restarted",
        ),
    ],
)
def test_a_run_says_what_it_waits_for(waiting, cluster, before, words):
    assert reason(waiting, cluster, before) == words


def test_a_set_up_cell_is_called_by_its_name():
    setup = waits(RunState.RUNNING)
    setup = replace(setup, wish=replace(setup.wish, kind=RunKind.SETUP, setup="network"))

    assert reason(waits(), READY, [setup]) == "waits for set-up 'network'"


def test_a_failure_older_than_the_wish_may_yet_be_fixed():
    failed = ClusterFact("default", ClusterState.FAILED, message="No mpiexec.", updated=90.0)

    assert start_failure(waits(), failed, now=100.0 + PATIENCE_SECONDS - 1) == ""
    assert start_failure(waits(), failed, now=100.0 + PATIENCE_SECONDS) == "No mpiexec."


def test_a_failure_since_the_wish_ends_the_wait_and_names_the_log():
    failed = ClusterFact("mine", ClusterState.FAILED, updated=101.0)

    assert start_failure(waits(), failed, now=101.0) == (
        "Cluster 'mine' has failed; see `workbench logs --supervisor --cluster mine`."
    )


def test_a_run_that_has_begun_is_not_given_up():
    failed = ClusterFact("default", ClusterState.FAILED, message="No.", updated=101.0)

    assert start_failure(waits(RunState.RUNNING), failed, now=200.0) == ""
