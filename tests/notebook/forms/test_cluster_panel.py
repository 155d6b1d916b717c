"""The sizing widget asks for what the magics ask for, and shows asked against actual."""

from __future__ import annotations

import re
import threading
import time

import pytest

from tests.batches import event_batch
from workbench.core.cluster.model import ClusterFact, ClusterState, ResizeAt
from workbench.core.fleet.model import FleetWish
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.rank_protocol import SnapshotSaved
from workbench.notebook.forms.cluster_panel import ClusterPanel, close_all, panel_for
from workbench.pages.messages import cluster_message

READY = ClusterFact("default", ClusterState.READY, ranks=2, generation=1)


@pytest.fixture
def panel(home):
    panel = ClusterPanel("default")
    yield panel
    panel.close()


@pytest.fixture
def no_one(monkeypatch):
    """No supervisor makes wishes true."""
    monkeypatch.setattr("workbench.requests.cluster.wake_supervisor", lambda cluster: None)


def test_start_writes_the_wish_that_the_magics_write(panel, stand_in, store) -> None:
    panel.oversubscribe.value = True
    panel.ranks.value = 3

    panel.start.click()

    wish = store.cluster_wish("default")
    assert (wish.up, wish.ranks, wish.oversubscribe) == (True, 3, True)


def test_delete_asks_and_then_writes_the_wish_to_be_gone(panel, stand_in, store) -> None:
    panel.start.click()

    panel.end.click()
    asked, was_up = panel.delete.shown.value, store.cluster_wish("default").up
    panel.delete.yes.click()

    assert "Delete cluster default? Its ranks end. The results of its runs are kept." in asked
    assert (was_up, store.cluster_wish("default").up) == (True, False)
    wait_until(lambda: store.cluster_fact("default").state is ClusterState.DOWN)
    panel.refresh(store)
    assert (read(panel.state), panel.message.value) == ("down", "")


def test_asked_and_actual_are_side_by_side(panel, stand_in, store) -> None:
    panel.start.click()
    wait_until(lambda: store.cluster_fact("default").ranks == 2)

    panel.refresh(store)

    assert read(panel.state) == "ready, 2 of 2 ranks"
    assert (panel.start.disabled, panel.start.tooltip) == (True, "The cluster is running.")
    assert not panel.end.disabled


def test_it_is_starting_from_the_click_on(panel, no_one, store) -> None:
    panel.start.click()

    assert read(panel.state) == "starting, 0 of 2 ranks"
    assert (panel.start.disabled, panel.message.value) == (True, "")
    message = cluster_message(store, "default", time.time())
    assert message.state == "starting"


def test_before_a_resize_it_says_what_that_means_for_the_run(panel, no_one, store) -> None:
    store.wish_cluster("default", up=True, ranks=2, oversubscribe=True)
    store.put_cluster_fact(READY)
    wish = RunWish("261121-003229-aaaa", "digits", RunKind.CELL, "pass")
    store.put_run_fact(store.wish_run(wish).id, state=RunState.RUNNING)
    panel.refresh(store)
    before = read(panel.remark)

    panel.ranks.value = 1

    assert before == ""
    assert read(panel.remark).startswith("A resize waits for the first snapshot of run digits")


def test_when_the_run_moves_is_asked_if_it_matters(panel, no_one, store) -> None:
    store.wish_cluster("default", up=True, ranks=2, oversubscribe=True)
    store.put_cluster_fact(READY)
    wish = RunWish("261121-003229-aaaa", "digits", RunKind.CELL, "pass")
    store.put_run_fact(store.wish_run(wish).id, state=RunState.RUNNING, epochs_total=4.0, epoch=1.0)
    store.reports.add_batches([event_batch(wish.id, SnapshotSaved(4))])
    panel.refresh(store)
    before = panel.move_at.layout.display
    panel.ranks.value = 1

    panel.move_at.value = ResizeAt.EPOCH
    meanwhile, said = panel.move_at.layout.display, read(panel.remark)
    panel.resize.click()

    assert (before, meanwhile, panel.move_at.layout.display) == ("none", None, "none")
    assert said.startswith("Run digits moves to the new ranks at the end of its epoch")
    assert store.cluster_wish("default").ranks == 1
    assert store.cluster_wish("default").resize_at is ResizeAt.EPOCH


def test_a_box_follows_what_is_asked_for_elsewhere(panel, no_one, store) -> None:
    store.wish_cluster("default", up=True, ranks=5, oversubscribe=True)

    panel.refresh(store)

    assert (panel.ranks.value, panel.oversubscribe.value) == (5, True)


def test_a_box_that_is_being_edited_is_left_alone(panel, no_one, store) -> None:
    panel.oversubscribe.value = True
    panel.ranks.value = 7
    store.wish_cluster("default", up=True, ranks=5, oversubscribe=True)

    panel.refresh(store)

    assert panel.ranks.value == 7


def test_its_place_follows_what_is_started_elsewhere(panel, no_one, store) -> None:
    fleet = FleetWish("rehearsal", nodes=3)
    store.wish_cluster("default", up=True, ranks=0, fleet=fleet)

    panel.refresh(store)

    assert (panel.provider.value, panel.nodes.value) == ("rehearsal", 3)


def test_a_cluster_of_this_machine_has_no_price(panel) -> None:
    assert panel.price.layout.display == "none"


def test_it_says_whose_it_is_and_starts(panel) -> None:
    assert ">Cluster default<" in panel.title.value
    assert panel.start.tooltip == "Start cluster default: 2 ranks, this machine"


def test_a_refusal_stays_until_the_next_click(panel, stand_in, monkeypatch) -> None:
    monkeypatch.setattr("workbench.requests.cluster.local_slots", lambda: 1)
    panel.oversubscribe.value = False
    panel.start.click()
    before = panel.message.value

    panel.oversubscribe.value = True
    panel.start.click()

    assert "let ranks share cores" in before
    assert panel.message.value == ""


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
    monkeypatch.setattr("workbench.requests.cluster.local_slots", lambda: 1)
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
    shown = panel.remark.value

    store.put_cluster_fact(READY)
    panel.refresh(store)

    assert (shown, panel.remark.value) == ('<span role="status">&lt;no&gt; mpiexec</span>', "")


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
    assert "There is no cluster" in data["text/html"]
    assert "Price" not in data["text/plain"]


def read(widget) -> str:
    """Return what a person reads in a widget."""
    return re.sub("<[^>]*>", "", widget.value).strip()


def wait_until(condition, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)
