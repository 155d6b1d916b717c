"""Nodes that were given back start again at a price that the person agrees to."""

from __future__ import annotations

import pytest

from workbench.core.fleet.model import FleetWish
from workbench.errors import PriceQuestion, StateError
from workbench.notebook.run_request import agree_again

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
