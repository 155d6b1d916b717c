"""The sizing widget asks for what the magics ask for, and shows asked against actual."""

from __future__ import annotations

import threading
import time

import pytest

from workbench.core.cluster import ClusterFact, ClusterState, ClusterWish
from workbench.notebook.cluster_panel import Buttons, ClusterPanel, close_all, panel_for, sensible

UP = ClusterWish("default", up=True, ranks=2)
READY = ClusterFact("default", ClusterState.READY, ranks=2, generation=1)


@pytest.fixture
def panel(home):
    panel = ClusterPanel("default")
    yield panel
    panel.close()


@pytest.mark.parametrize(
    ("wish", "fact", "ranks", "buttons"),
    [
        (None, ClusterFact("default"), 2, Buttons(start=True, resize=False, stop=False)),
        (UP, READY, 2, Buttons(start=False, resize=False, stop=True)),
        (UP, READY, 3, Buttons(start=False, resize=True, stop=True)),
        (
            UP,
            ClusterFact("default", ClusterState.STARTING),
            2,
            Buttons(start=False, resize=False, stop=True),
        ),
        (
            UP,
            ClusterFact("default", ClusterState.FAILED),
            2,
            Buttons(start=True, resize=False, stop=True),
        ),
        (
            ClusterWish("default", up=False, ranks=2),
            ClusterFact("default", ClusterState.STOPPING, 2),
            2,
            Buttons(start=True, resize=False, stop=False),
        ),
    ],
)
def test_only_buttons_that_make_sense_can_be_pressed(wish, fact, ranks, buttons) -> None:
    assert sensible(wish, fact, ranks) == buttons


def test_start_writes_the_wish_that_the_magics_write(panel, stand_in, store) -> None:
    panel.oversubscribe.value = True
    panel.ranks.value = 3

    panel.start.click()

    wish = store.cluster_wish("default")
    assert (wish.up, wish.ranks, wish.oversubscribe) == (True, 3, True)


def test_stop_writes_the_wish_to_be_gone(panel, stand_in, store) -> None:
    panel.start.click()

    panel.stop.click()

    assert not store.cluster_wish("default").up


def test_asked_and_actual_stand_side_by_side(panel, stand_in, store) -> None:
    panel.start.click()
    wait_until(lambda: store.cluster_fact("default").ranks == 2)

    panel.refresh(store)

    assert panel.state.value == "<b>ready</b>, 2 of 2 ranks"
    assert panel.start.disabled
    assert not panel.stop.disabled


def test_another_size_enables_resize(panel, stand_in, store) -> None:
    panel.start.click()
    wait_until(lambda: store.cluster_fact("default").ranks == 2)

    panel.ranks.value = 1

    assert not panel.resize.disabled


def test_more_ranks_than_slots_need_the_checkbox(panel) -> None:
    panel.oversubscribe.value = False
    panel.ranks.value = 10_000
    capped = panel.ranks.value

    panel.oversubscribe.value = True
    panel.ranks.value = capped + 1

    assert panel.ranks.value == capped + 1
    assert capped < 10_000


def test_a_refusal_is_shown_as_its_sentence(panel, stand_in, monkeypatch) -> None:
    monkeypatch.setattr("workbench.store.wishes.local_slots", lambda: 1)
    panel.oversubscribe.value = False

    panel.start.click()

    assert "let ranks share cores (--oversubscribe)" in panel.message.value


def test_facts_are_followed_while_the_panel_is_shown(home, stand_in, store) -> None:
    panel = panel_for("default")

    panel.start.click()
    wait_until(lambda: "ready" in panel.state.value)

    close_all()


def test_a_message_that_is_gone_is_no_longer_shown(panel, store) -> None:
    store.put_cluster_fact(ClusterFact("default", ClusterState.FAILED, message="<no> mpiexec"))
    panel.refresh(store)
    shown = panel.message.value

    store.put_cluster_fact(READY)
    panel.refresh(store)

    assert (shown, panel.message.value) == ("&lt;no&gt; mpiexec", "")


def test_a_second_panel_takes_the_place_of_the_first(home) -> None:
    for _ in range(3):
        panel_for("default")
    time.sleep(0.1)

    alive = [t for t in threading.enumerate() if t.name.startswith("workbench panel")]
    assert len(alive) == 1
    close_all()


def test_a_saved_notebook_reads_without_widgets(run_cell, stand_in, store, shell, sent) -> None:
    result = run_cell("%dist_cluster")

    data, _ = shell.display_formatter.format(result)
    assert "application/vnd.jupyter.widget-view+json" in data
    assert "There is no cluster called" in data["text/html"]
    assert "Price: free" in data["text/plain"]


def wait_until(condition, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)
