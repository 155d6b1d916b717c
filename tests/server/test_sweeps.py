"""A page lists sweeps, and gets one with its trials and their picture."""

from __future__ import annotations

import base64

from workbench.core.run.model import RunKind, RunWish
from workbench.core.run.sweep import Outcome, Space, SweepFact, SweepWish, Trial
from workbench.store import Store

RUN = RunWish("260101-000000-zzzz", "fit", RunKind.CELL, "pass")
SWEEP = SweepWish("s", "fit", RUN, (("lr", Space((0.1, 0.2))),), 2, "loss", created=1.0)


def begin(store: Store) -> None:
    store.sweeps.wish(SWEEP, None, None)
    trial = Trial("s", 0, (("lr", 0.1),), RUN.id, Outcome.FINISHED, 0.5, began=1.0, ended=2.0)
    store.sweeps.begin(trial, RUN)


async def test_sweeps_are_listed_with_how_far_they_are(ask, store) -> None:
    assert (await ask("GET", "sweeps")).json == {"sweeps": []}

    begin(store)

    said = "1 finished of 2 trials · best loss 0.5"
    listed = {"id": "s", "name": "fit", "progress": said, "is_over": False}
    assert (await ask("GET", "sweeps")).json == {"sweeps": [listed]}


async def test_a_sweep_comes_with_its_trials_and_their_picture(ask, store) -> None:
    begin(store)
    store.sweeps.close("s", SweepFact("All 2 trials have ended."))

    answer = (await ask("GET", "sweeps/s")).json

    assert (answer["is_over"], answer["progress"]) == (True, "All 2 trials have ended.")
    assert answer["lines"][1] == "The best is trial 0: loss 0.5 with lr=0.1."
    assert answer["headers"] == ["trial", "loss", "lr", "state", "time", "error"]
    assert answer["rows"] == [["0", "0.5", "0.1", "finished", "1.0 s", ""]]
    assert base64.b64decode(answer["picture"]).startswith(b"\x89PNG")
    assert answer["says"] == "1 trial of fit; the best has loss 0.5."


async def test_a_sweep_that_there_is_not_is_not_found(ask) -> None:
    answer = await ask("GET", "sweeps/fat")

    assert answer.status == 404
    assert "No sweep is called 'fat'" in answer.json["message"]
