"""A sentence names what can be done where it is shown: a command, a magic or a button."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from workbench.cli import main
from workbench.errors import RunFailed, StateError
from workbench.notebook.magics import WorkbenchMagics
from workbench.surfaces import _BUTTONS, _MAGICS, in_notebook, in_page

PACKAGE = Path(__file__).parents[1] / "workbench"
CONTEXT = click.Context(main)
NAMED = re.compile(r"(?<![\w-])workbench ([a-z][a-z-]*)")


def sentences(*left_out: str) -> Iterator[tuple[str, str]]:
    """Give each module's texts that a person may read; what is filled in is X."""
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE).as_posix()
        if not where.startswith(left_out):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            yield from ((where, text) for text in texts(tree))


def texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(getattr(part, "value", "X")) if isinstance(part, ast.Constant)
                          else "X" for part in node.values)  # fmt: skip
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield from texts(node)  # but not a docstring


def commands_in(text: str) -> list[str]:
    return [name for name in NAMED.findall(text) if name in main.list_commands(CONTEXT)]


def test_sentences_are_found() -> None:
    named = [name for _, text in sentences("cli/") for name in commands_in(text)]

    assert {"up", "delete", "runs", "resize"} <= {*named}


def test_in_a_notebook_no_sentence_names_a_command_that_is_a_magic() -> None:
    wrong = [
        (where, text)
        for where, text in sentences("cli/", "surfaces")
        for name in commands_in(in_notebook(text))
        if name in _MAGICS and "--iam" not in text and "--host" not in text
    ]

    assert wrong == []


def test_only_the_notebook_names_magics_by_itself() -> None:
    apart = sentences("notebook/", "surfaces", "engine/", "core/option.py", "core/options/table")
    wrong = [(where, text) for where, text in apart if "%dist_" in text]

    assert wrong == []


def test_what_replaces_a_command_exists() -> None:
    magics = {name for name in dir(WorkbenchMagics) if name.startswith("dist_")}

    assert {*_MAGICS, *_BUTTONS} <= {*main.list_commands(CONTEXT)}
    assert {magic.lstrip("%") for magic in _MAGICS.values()} <= magics


def test_the_page_has_the_buttons_that_are_named() -> None:
    sources = (PACKAGE.parent / "extension" / "src").glob("*.ts*")
    words = "".join(path.read_text(encoding="utf-8") for path in sources)

    for name in _BUTTONS.values():
        assert name.startswith("the ") or f"'{name}" in words


@pytest.mark.parametrize(
    ("shell", "notebook", "page"),
    [
        ("`workbench delete`", "%dist_delete", "Delete"),
        ("`workbench delete --cluster lab` ends it", "%dist_delete --cluster lab ends it",
         "Delete ends it"),
        ("`workbench up 4 --cluster lab`", "%dist_cluster --cluster lab", "Start"),
        ("`workbench up --max-price`", "%dist_cluster", "Start"),
        ("`workbench up --rehearsal --cluster NAME`", "%dist_cluster --rehearsal N --cluster NAME",
         "Start"),
        ("`workbench resize --nodes 4`", "%dist_resize --nodes 4", "Resize"),
        ("`workbench run` does", "%%dist_train does", "`workbench run` does"),
        ("`workbench sweep-leaks`", "`workbench sweep-leaks`", "`workbench sweep-leaks`"),
        ("`workbench doctor --iam`", "`workbench doctor --iam`", "`workbench doctor --iam`"),
        ("a workbench up the hill", "a workbench up the hill", "a workbench up the hill"),
    ],
)  # fmt: skip
def test_a_command_is_named_as_each_surface_has_it(shell, notebook, page) -> None:
    assert (in_notebook(shell), in_page(shell)) == (notebook, page)


def test_ipython_shows_an_error_with_magics_and_a_ranks_traceback_as_it_is() -> None:
    error = StateError("Cluster 'lab' is up", "delete it first (`workbench delete`).")
    lost = RunFailed("Lost; see `workbench status`", "Traceback\nValueError: `workbench delete`")

    assert error._render_traceback_() == [
        "StateError: Cluster 'lab' is up; delete it first (%dist_delete)."
    ]
    assert lost._render_traceback_() == [
        "Lost; see %dist_status", "Traceback", "ValueError: `workbench delete`",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "magic"),
    [
        ("`workbench run train.py --lr 1`", "%dist_train train.py --lr 1"),
        ("`workbench run -m pack.train`", "%dist_train -m pack.train"),
        ("`workbench run --resume fit`", "%dist_train --resume fit"),
        ("`workbench run`", "%%dist_train"),
    ],
)
def test_a_script_is_run_by_the_line_magic(command: str, magic: str) -> None:
    assert in_notebook(command) == magic
