"""The form below a cell shows what is in the store, and has the kernel do what is asked for."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tests.waiting import until
from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.fleet.model import FleetWish, Needs
from workbench.core.fleet.provider import find_provider
from workbench.notebook import cluster_panel
from workbench.notebook.cluster_panel import ClusterPanel, close_all, panel_for
from workbench.view.text import cluster_word

READY = ClusterFact("default", ClusterState.READY, ranks=2, generation=1)


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    path = tmp_path / "cluster_widget.js"
    path.write_text("export default {}")
    path.with_suffix(".css").write_text("")
    monkeypatch.setattr(cluster_panel, "MODULE", path)
    return path


@pytest.fixture
def panel(home):
    panel = ClusterPanel("default", background=lambda work: work())
    yield panel
    panel.close()


@pytest.fixture
def no_one(monkeypatch):
    """No supervisor makes wishes true."""
    monkeypatch.setattr("workbench.requests.cluster.wake_supervisor", lambda cluster: None)


@pytest.fixture
def sent(monkeypatch):
    """What the kernel sends to the page."""
    messages: list[dict] = []
    monkeypatch.setattr(
        "ipywidgets.Widget.send", lambda self, content, buffers=None: messages.append(content)
    )
    return messages


def ask(panel, method, *path, **body):
    """Have the page ask for something."""
    return panel.answer({"id": 1, "method": method, "path": [*path], "body": body})


def test_start_writes_the_wish_that_the_magics_write(panel, no_one, store) -> None:
    answer = ask(panel, "PUT", "clusters", "default", ranks=3, oversubscribe=True)

    wish = store.cluster_wish("default")
    assert (wish.up, wish.ranks, wish.oversubscribe) == (True, 3, True)
    assert (answer["id"], answer["answer"]["state"]) == (1, "starting")


def test_a_refusal_is_one_sentence_in_the_words_of_a_notebook(panel, no_one, store) -> None:
    refused = ask(panel, "PATCH", "clusters", "default", ranks=3)
    unknown = ask(panel, "GET", "nothing")

    assert refused == {
        "id": 1,
        "refusal": {"message": "There is no cluster 'default'; start it first.", "price": None},
    }
    assert unknown["refusal"]["message"] == "There is no request GET nothing."


def test_a_page_hears_that_it_was_heard_and_then_the_answer(panel, sent, no_one, store) -> None:
    panel._widget._handle_custom_msg(
        {"id": 7, "method": "PUT", "path": ["clusters", "default"], "body": {"ranks": 2}}, []
    )

    assert sent[0] == {"id": 7, "is_heard": True}
    assert sent[1]["answer"]["ranks_asked"] == 2
    assert panel._widget.clusters["clusters"][0]["is_wanted"] is True


def test_the_page_is_shown_its_cluster_and_what_it_may_ask_for(panel, no_one, store) -> None:
    before = panel._widget.clusters
    store.wish_cluster("default", up=True, ranks=5, oversubscribe=True)
    store.wish_cluster("other", up=True, ranks=2)

    panel.refresh(store)

    (cluster,) = panel._widget.clusters["clusters"]
    assert list(before["clusters"]) == []
    assert (cluster["name"], cluster["ranks_asked"]) == ("default", 5)
    assert [one["name"] for one in panel._widget.form["places"]][:2] == ["local", "hosts"]


def test_a_rehearsal_that_is_typed_has_nothing_of_a_deleted_cluster(panel, no_one, store) -> None:
    fleet = FleetWish("rehearsal", min_nodes=2, max_nodes=4, needs=Needs(types=("g4dn.xlarge",)))
    store.wish_cluster("default", up=False, ranks=0, fleet=fleet)
    store.put_cluster_fact(ClusterFact("default"))

    panel.start_nodes(find_provider("rehearsal"), 3, {"link": 1.5})

    fleet = store.cluster_wish("default").fleet
    assert (fleet.provider, fleet.nodes, fleet.min_nodes, fleet.max_nodes) == ("rehearsal", 3, 1, 0)
    assert (fleet.needs.types, fleet.setting("link", 0.0)) == ((), 1.5)


def test_facts_are_followed_while_the_panel_is_shown(home, no_one, store) -> None:
    panel = panel_for("default")
    store.wish_cluster("default", up=True, ranks=2)
    store.put_cluster_fact(READY)

    until(lambda: [one["state"] for one in panel._widget.clusters["clusters"]] == ["ready"])

    close_all()


def test_a_second_panel_takes_the_place_of_the_first(home) -> None:
    for _ in range(3):
        panel_for("default")

    def alive():
        return [t for t in threading.enumerate() if t.name.startswith("workbench panel")]

    until(lambda: len(alive()) == 1)
    close_all()


def test_a_saved_notebook_reads_without_widgets(run_cell, no_one, store, shell) -> None:
    result = run_cell("%dist_cluster")

    data, _ = shell.display_formatter.format(result)
    assert "application/vnd.jupyter.widget-view+json" in data
    assert "There is no cluster" in data["text/html"]
    assert "Price" not in data["text/plain"]


def test_without_the_built_module_there_is_text(run_cell, store, shell, module) -> None:
    module.unlink()

    result = run_cell("%dist_cluster")

    data, _ = shell.display_formatter.format(result)
    assert {*data} == {"text/html", "text/plain"}


def test_every_state_has_the_word_that_the_page_shows() -> None:
    cases = Path(__file__).parents[2] / "extension" / "src" / "__tests__" / "cluster.json"
    said = json.loads(cases.read_text(encoding="utf-8"))

    assert {str(state): cluster_word(state) for state in ClusterState} == said["states"]
