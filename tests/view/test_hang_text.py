"""Who waits for whom is said in the same words everywhere, and is warned of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workbench.core.run.hang import Elsewhere, Hang, WaitingRanks, encoded
from workbench.core.run.model import Run, RunFact, RunKind, RunState, RunWish
from workbench.view.hang_text import ADVICE, hang_html, hang_line, hang_lines, hang_message
from workbench.view.page_messages import run_now
from workbench.view.page_protocol import as_values
from workbench.view.run_output import kept_bundle

CASES = json.loads(
    Path(__file__, "../../../extension/src/run/__tests__/hangs.json").resolve().read_text()
)
HANG = Hang((WaitingRanks((0,), "allreduce", 6.0, 12),), (Elsewhere((1,), "ended"),), sure=True)
SLOW = Hang(HANG.waiting, (Elsewhere((1,), "at", 8),), sure=False)


def numbers(ranks: str) -> tuple[int, ...]:
    spans = [[*map(int, span.split("-"))] for span in ranks.split(", ")]
    return tuple(n for span in spans for n in range(span[0], span[-1] + 1))


def a_run(hang: Hang, state: RunState = RunState.RUNNING, path: str = "") -> Run:
    kind = RunKind.SCRIPT if path else RunKind.CELL
    fact = RunFact("id", state, hang=encoded(hang))
    return Run(RunWish("id", "digits", kind, "pass", path=path), fact)


def as_hang(told: dict) -> Hang:
    def ranks(one: dict) -> dict:
        rest = {name: value for name, value in one.items() if name != "amount"}
        return {**rest, "ranks": numbers(one["ranks"])}

    waiting = tuple(WaitingRanks(**ranks(one)) for one in told["waiting"])
    return Hang(waiting, tuple(Elsewhere(**ranks(one)) for one in told["others"]), told["sure"])


@pytest.mark.parametrize("case", CASES, ids=[case["what"] for case in CASES])
def test_who_waits_is_said_as_the_page_says_it(case) -> None:
    hang = as_hang(case["hang"])

    assert hang_line(a_run(hang, path=case["path"])) == case["text"]
    assert hang_line(a_run(hang, RunState.STOPPED, case["path"])) == case["ended"]
    assert as_values(hang_message(a_run(hang, path=case["path"]))) == case["hang"]


def test_what_to_do_is_said_while_it_can_be_done() -> None:
    assert hang_lines(a_run(HANG))[1:] == [ADVICE]
    assert hang_lines(a_run(HANG, RunState.STOPPED))[1:] == []
    assert hang_lines(a_run(SLOW))[1:] == []


def test_a_hang_is_a_warning_and_a_slow_rank_is_none() -> None:
    assert "⚠" in hang_html(a_run(HANG))
    assert "⚠" not in hang_html(a_run(SLOW))


def test_a_hang_stays_in_what_is_kept_of_a_run(store, queue) -> None:
    run = queue("digits")
    store.put_run_fact(run.id, state=RunState.STOPPED, hang=encoded(HANG))
    said = "Rank 0 had waited in allreduce for 6 s (line 12 of the cell); rank 1 had ended."

    bundle = kept_bundle(store, store.run(run.id), 10.0)

    assert said in bundle["text/plain"]
    assert said in bundle["text/html"]
    assert run_now(store, store.run(run.id), 10.0)["hang"] == as_values(hang_message(a_run(HANG)))
