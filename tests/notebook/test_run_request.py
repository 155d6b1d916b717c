"""Nodes that are given back: a line below the last cell, and their price when they start again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.fleet.model import FleetWish
from workbench.errors import PriceQuestion, StateError
from workbench.notebook.cell_output import CellDisplay
from workbench.notebook.run_request import IdleLine, agree_again
from workbench.store import Store

SENTENCE = "The nodes were given back, and cost about $0.16/h now."


@pytest.fixture
def asked(store, monkeypatch) -> list[float]:
    store.wish_cluster("default", up=True, ranks=0, fleet=FleetWish("rehearsal", nodes=2))
    return []


def ask(asked: list[float], agreed: float = 0.0) -> str:
    asked.append(agreed)
    if not agreed:
        raise PriceQuestion(SENTENCE, 0.16)
    return "a run"


def test_a_cell_that_costs_more_than_was_agreed_to_starts_after_a_yes(
    store, asked, monkeypatch, capsys
) -> None:
    questions: list[str] = []
    monkeypatch.setattr("builtins.input", lambda text: questions.append(text) or "Y")

    run = agree_again(store, "default", lambda **given: ask(asked, **given))

    assert (run, asked, questions) == ("a run", [0.0, 0.16], ["Start? [y/N]: "])
    assert SENTENCE in capsys.readouterr().out


@pytest.mark.parametrize("answer", ["", "n", EOFError, NotImplementedError, KeyboardInterrupt])
def test_without_a_yes_nothing_is_started(store, asked, monkeypatch, answer) -> None:
    def input_(text: str) -> str:
        if isinstance(answer, str):
            return answer
        raise answer

    monkeypatch.setattr("builtins.input", input_)

    with pytest.raises(StateError, match=r"nothing was started; .* --nodes 2 .* --yes"):
        agree_again(store, "default", lambda **given: ask(asked, **given))

    assert asked == [0.0]


FLEET = FleetWish("rehearsal", nodes=2, idle=900.0, asked=1_000.0)
SOON = "2 nodes will be given back in 5 min. `workbench keep --cluster default` keeps them."
GONE = "The nodes are given back."


class Page:
    """An output area that keeps what it shows."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def show(self, place: str, bundle: dict[str, str], *_: object, final: bool = False) -> None:
        self.texts.append(bundle["text/plain"])


@pytest.fixture
def pages() -> list[Page]:
    return []


@pytest.fixture
def line(pages: list[Page]) -> IdleLine:
    def page() -> CellDisplay:
        pages.append(Page())
        return pages[-1]  # type: ignore[return-value]  # it shows, and does no more

    return IdleLine("default", page)


def put(store: Store, **changes: object) -> None:
    store.put_cluster_fact(replace(ClusterFact("default", ClusterState.READY), **changes))


def test_a_line_announces_names_the_magic_and_says_when_they_are_gone(store, line, pages) -> None:
    store.wish_cluster("default", up=True, ranks=2, fleet=FLEET)
    put(store)
    assert line.look(store)
    assert not pages

    put(store, releases=2_000.0, message=SOON)
    assert line.look(store)
    assert line.look(store)
    assert pages[0].texts == [
        "2 nodes will be given back in 5 min. %dist_keep --cluster default keeps them."
    ]

    put(store, released=2_000.0, message=GONE)
    assert line.look(store)
    assert not line.look(store)
    assert pages[0].texts[1:] == [GONE]
    assert len(pages) == 1


def test_the_line_of_kept_nodes_is_empty_and_the_next_one_is_below_the_newest_cell(
    store, line, pages
) -> None:
    store.wish_cluster("default", up=True, ranks=2, fleet=FLEET)
    put(store, releases=2_000.0, message=SOON)
    line.look(store)
    put(store)
    line.look(store)
    put(store, releases=3_000.0, message=SOON)

    assert line.look(store)
    assert pages[0].texts[1:] == [""]
    assert [len(page.texts) for page in pages] == [2, 1]


@pytest.mark.parametrize(
    ("up", "fleet"), [(False, FLEET), (True, replace(FLEET, idle=0.0)), (True, FleetWish())]
)
def test_where_no_nodes_are_given_back_there_is_no_line(store, line, pages, up, fleet) -> None:
    store.wish_cluster("default", up=up, ranks=2, fleet=fleet)

    assert not line.look(store)
    assert not pages
