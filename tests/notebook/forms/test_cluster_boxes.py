"""The widget's buttons give the reasons that the panel's give, from one list of cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workbench.core.cluster.model import ClusterState, ClusterWish
from workbench.core.fleet.model import FleetWish
from workbench.notebook.forms.cluster_boxes import Refusals, refusals
from workbench.view.text import cluster_word

CASES = Path(__file__).parents[3] / "extension" / "src" / "__tests__" / "cluster.json"
SAID = json.loads(CASES.read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", SAID["buttons"])
def test_a_button_that_cannot_be_pressed_says_why(case) -> None:
    place, asked = case["provider"], case["asked"]
    fleet = FleetWish() if place == "local" else FleetWish(place, nodes=asked)
    wish = ClusterWish("lab", case["up"], asked if place == "local" else 0, fleet=fleet)

    found = refusals(wish, ClusterState(case["state"]), case["number"])

    assert found == Refusals(case["start"], case["resize"], case["delete"])


def test_what_was_never_asked_for_can_only_be_started() -> None:
    found = refusals(None, ClusterState.DOWN, 2)

    assert found == Refusals("", "The cluster is not running.", "The cluster is not running.")


def test_every_state_has_the_word_that_the_panel_shows() -> None:
    assert {str(state): cluster_word(state) for state in ClusterState} == SAID["states"]
