"""A script that loads its own checkpoints is started again, and knows how often."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.recovery.resumption import (
    NONE,
    Attempt,
    can_move,
    follows,
    remedy,
    saves_snapshots,
    why_continued,
)
from workbench.core.run.model import (
    Run,
    RunFact,
    RunKind,
    RunState,
    RunWish,
    check_restart,
    torchelastic_environment,
)
from workbench.core.run.run_options import RunOptions
from workbench.errors import InputError

PLAIN = RunWish("260101-000000-aaaa", "fit", RunKind.SCRIPT, "pass", options=RunOptions(retries=5))
WISH = replace(PLAIN, options=RunOptions(retries=5, restart=True))
LOST = Attempt(1, 1, 4, 0.0, 9.0, RunState.LOST, "Rank 1 was lost.", is_automatic=True)


def test_it_moves_without_a_snapshot_and_saves_none() -> None:
    assert can_move(WISH, NONE)
    assert not saves_snapshots(WISH)
    assert not can_move(PLAIN, NONE)
    assert saves_snapshots(PLAIN)


@pytest.mark.parametrize("kind", [RunKind.CELL, RunKind.SETUP])
def test_a_cell_is_not_started_again(kind) -> None:
    with pytest.raises(InputError, match=f"--restart is for scripts .* this is a {kind}"):
        check_restart(kind, restart=True)
    check_restart(kind, restart=False)


def test_a_cell_with_the_variable_is_as_without() -> None:
    assert not replace(WISH, kind=RunKind.CELL).restarts


def test_it_has_the_variables_of_torchrun() -> None:
    run = Run(WISH, RunFact(WISH.id, attempt=3))

    assert dict(torchelastic_environment(run)) == {
        "TORCHELASTIC_RUN_ID": WISH.id,
        "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_MAX_RESTARTS": "5",
    }
    assert torchelastic_environment(Run(PLAIN, run.fact)) == ()


def test_it_is_said_that_it_starts_again_and_on_how_many_ranks() -> None:
    said = why_continued([LOST], 3, restarts=True, resumed_at=40, redone={})
    assert said == "Rank 1 was lost. The script starts again on 3 ranks."
    assert follows(WISH, NONE) == "the script starts again"
    assert follows(PLAIN, 40) == "it continues from its newest snapshot"


def test_what_ends_it_can_be_resumed_by_hand() -> None:
    assert remedy(Run(WISH, RunFact(WISH.id)), NONE, "no retries were asked for") == (
        "It does not start again by itself: no retries were asked for. "
        "Resume it with `workbench run --resume fit`."
    )
