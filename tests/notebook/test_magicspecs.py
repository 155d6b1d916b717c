"""What ``?`` explains of a magic is what its parser takes."""

from __future__ import annotations

import inspect

import pytest

from workbench.notebook import load_ipython_extension
from workbench.notebook.magics import WorkbenchMagics
from workbench.notebook.magicspecs import MAGICS, Options

NAMES = [name for name in dir(WorkbenchMagics) if name.startswith("dist_")]


def explained(name: str) -> list[str]:
    return (inspect.getdoc(getattr(WorkbenchMagics, name)) or "").splitlines()


def test_every_magic_is_described() -> None:
    assert sorted(MAGICS) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_option_of_the_parser_has_one_line(name) -> None:
    lines = [line.split() for line in explained(name) if line.startswith("  -")]

    assert [words[0] for words in lines] == [
        text for action in Options(f"%{name}")._actions for text in action.option_strings
    ]
    assert all(len(words) > 3 for words in lines)


@pytest.mark.parametrize("name", NAMES)
def test_an_explanation_fits_and_ends_with_two_examples(name) -> None:
    lines = explained(name)

    assert [line for line in lines if len(line) > 100] == []
    assert lines[-3] == "Examples:"
    assert [line.lstrip(" %").split()[0] for line in lines[-2:]] == [name] * 2


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_can_be_typed(name) -> None:
    for line in explained(name)[-2:]:
        magic, _, rest = line.strip().partition(" ")
        chosen = Options(magic).read(rest)

        if name == "dist_train" and ".py" in rest:
            assert (chosen.compress, chosen.script) == ("bf16", ["train.py", "--epoch", "3"])


def test_a_question_mark_shows_the_explanation(shell) -> None:
    load_ipython_extension(shell)

    shown = shell.object_inspect_mime("%%dist_train", detail_level=0)["text/plain"]

    assert "--communicator NAME" in shown
    assert "Use our communicator" in shown
