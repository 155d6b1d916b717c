"""Input and debuggers on a rank raise an error, at the line that uses them."""

from __future__ import annotations

import bdb
import builtins
import getpass
import os
import pdb
import subprocess
import sys

import pytest

from workbench.engine.output.stdin_errors import refuse_questions

QUESTIONS = [
    "input('name? ')",
    "import getpass; getpass.getpass()",
    "import sys; sys.stdin.read()",
    "import sys; next(sys.stdin)",
    "breakpoint()",
    "import pdb; pdb.set_trace()",
    "from IPython.core.debugger import set_trace; set_trace()",
]


@pytest.fixture
def without_keyboard(monkeypatch):
    """Refuse questions in this process until the test is over."""
    kept = os.dup(0)
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    for place, name in (
        (sys, "stdin"),
        (sys, "breakpointhook"),
        (builtins, "input"),
        (getpass, "getpass"),
        (bdb.Bdb, "set_trace"),
        (pdb.Pdb, "set_trace"),
    ):
        monkeypatch.setattr(place, name, getattr(place, name))
    refuse_questions()
    yield
    os.dup2(kept, 0)
    os.close(kept)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_refused_at_the_users_line(perform, without_keyboard, question) -> None:
    ending = perform(f"x = 1\n{question}\ny = 2")

    assert ending.state == "failed"
    assert " cannot ask: ranks have no keyboard; " in ending.error
    assert "NoKeyboard: " in ending.traceback
    assert '"<cell of run a-run>", line 3' in ending.traceback.splitlines()[1]
    assert "workbench/engine" not in ending.traceback


def test_the_next_cell_runs_with_the_variables(perform, without_keyboard, printed) -> None:
    perform("x = 1\nimport pdb; pdb.set_trace()\ny = 2")

    assert perform("print(x)").state == "finished"
    assert printed() == "1\n"


def test_code_that_expects_no_answer_continues(perform, without_keyboard) -> None:
    assert perform("try:\n    input()\nexcept EOFError:\n    pass").state == "finished"


def test_breakpoints_that_python_is_set_to_pass_over_are(
    perform, without_keyboard, monkeypatch
) -> None:
    monkeypatch.setenv("PYTHONBREAKPOINT", "0")

    assert perform("breakpoint()").state == "finished"


def test_what_a_rank_starts_finds_its_input_at_its_end(without_keyboard) -> None:
    assert subprocess.run(["cat"], capture_output=True, timeout=10, check=True).stdout == b""
