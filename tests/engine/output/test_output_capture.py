"""Printed text goes to the present run, and outside of one to the original stream."""

from __future__ import annotations

import bdb
import builtins
import getpass
import io
import os
import pdb
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.engine.output.output_capture import OutputStream, refuse_questions
from workbench.engine.run_context import RunContext, set_current

QUESTIONS = [
    "input('name? ')",
    "import getpass; getpass.getpass()",
    "import sys; sys.stdin.read()",
    "import sys; next(sys.stdin)",
    "breakpoint()",
    "import pdb; pdb.set_trace()",
    "from IPython.core.debugger import set_trace; set_trace()",
]

PROGRAMS = Path(__file__).parents[1] / "programs"


def test_outside_of_a_run_text_goes_where_it_went() -> None:
    original = io.StringIO()

    print("hello", file=OutputStream("stdout", original))

    assert original.getvalue() == "hello\n"


def test_inside_of_a_run_text_goes_to_its_log(current_run, taken) -> None:
    original = io.StringIO()
    print("hello", file=OutputStream("stdout", original))
    print("trouble", file=OutputStream("stderr", original))

    assert [(c.stream, c.text) for c in taken().chunks] == [
        ("stdout", "hello\n"),
        ("stderr", "trouble\n"),
    ]
    assert original.getvalue() == ""


def test_flushing_inside_of_a_run_does_not_wait_for_the_stream_that_has_nothing(log) -> None:
    """Chainer's ``PrintReport`` flushes each line, and ipykernel's stream waits for its thread."""

    class Counted(io.StringIO):
        flushes = 0

        def flush(self) -> None:
            self.flushes += 1

    original = Counted()
    stream = OutputStream("stdout", original)

    stream.flush()
    set_current(RunContext(log))
    stream.flush()
    set_current(None)

    assert original.flushes == 1


def test_a_stream_that_was_bound_early_still_follows_the_run(log, taken) -> None:
    stream = OutputStream("stdout", io.StringIO())

    def late(text: str, out=stream) -> None:  # as Chainer's PrintReport binds it
        print(text, file=out)

    late("before")
    set_current(RunContext(log))
    late("during")
    set_current(None)
    late("after")

    assert [c.text for c in taken().chunks] == ["during\n"]


def test_it_passes_for_the_stream_that_it_stands_for() -> None:
    original = io.StringIO()
    stream = OutputStream("stdout", original)

    assert (stream.name, stream.encoding, stream.fileno()) == ("<stdout>", "utf-8", 1)
    assert stream.writable()
    assert not stream.isatty()
    assert stream.buffer.fileno() == stream.fileno()
    stream.reconfigure(line_buffering=True)
    stream.close()
    print("x", end="", file=stream, flush=True)
    assert original.getvalue() == "x"


def test_a_stream_can_be_led_elsewhere_while_others_hold_it() -> None:
    first, second = io.StringIO(), io.StringIO()
    stream = OutputStream("stdout", first)

    stream.lead_to(second)
    stream.write("hello")

    assert (first.getvalue(), second.getvalue()) == ("", "hello")


def test_writing_nothing_is_no_news(current_run, log, taken) -> None:
    taken()

    assert OutputStream("stdout", io.StringIO()).write("") == 0

    assert log.take() is None


def test_streams_are_routed_once() -> None:
    answer = subprocess.run(
        [sys.executable, PROGRAMS / "routed_twice.py"], capture_output=True, text=True, check=False
    )

    assert (answer.stdout, answer.stderr) == ("out\n", "err\n")


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
    assert '"<cell of run 260101-000000-arun>", line 3' in ending.traceback.splitlines()[1]
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
