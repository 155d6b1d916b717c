"""Who waits for whom is said in the same words everywhere, and is warned of."""

from __future__ import annotations

from workbench.core.run.hang import Elsewhere, Hang, WaitingRanks, encode_hang
from workbench.core.run.model import Run, RunFact, RunKind, RunState, RunWish
from workbench.pages.messages import full_run_message
from workbench.view.hang_text import ADVICE, hang_html, hang_lines, hang_message
from workbench.view.run_output import kept_bundle

HANG = Hang((WaitingRanks((0,), "allreduce", 6.0, 12),), (Elsewhere((1,), "ended"),), sure=True)
SLOW = Hang(HANG.waiting, (Elsewhere((1,), "at", 8),), sure=False)


def a_run(hang: Hang, state: RunState = RunState.RUNNING, path: str = "") -> Run:
    kind = RunKind.SCRIPT if path else RunKind.CELL
    fact = RunFact("id", state, hang=encode_hang(hang))
    return Run(RunWish("id", "digits", kind, "pass", path=path), fact)


def test_what_to_do_is_said_while_it_can_be_done() -> None:
    assert hang_lines(a_run(HANG))[1:] == [ADVICE]
    assert hang_lines(a_run(HANG, RunState.STOPPED))[1:] == []
    assert hang_lines(a_run(SLOW))[1:] == []


def test_a_hang_is_a_warning_and_a_slow_rank_is_none() -> None:
    assert "⚠" in hang_html(a_run(HANG))
    assert "⚠" not in hang_html(a_run(SLOW))


def test_a_hang_stays_in_what_is_kept_of_a_run(store, queue) -> None:
    run = queue("digits")
    store.put_run_fact(run.id, state=RunState.STOPPED, hang=encode_hang(HANG))
    said = "Rank 0 had waited in allreduce for 6 s (line 12 of the cell); rank 1 had ended."

    bundle = kept_bundle(store, store.run(run.id), 10.0)

    assert said in bundle["text/plain"]
    assert said in bundle["text/html"]
    sent = hang_message(a_run(HANG, RunState.STOPPED))
    assert full_run_message(store, store.run(run.id), 10.0).hang == sent
