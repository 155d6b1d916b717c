"""An error shows the user's frames, with frames of libraries folded into one line each."""

from __future__ import annotations

import linecache
import sysconfig

import pytest

from workbench.engine.output.traceback_format import last_line, library, own_traceback
from workbench.errors import InputError

CELL = "<cell of run 260101-000000-arun>"
HEADER = "Traceback (most recent call last):"


def raised(source: str) -> BaseException:
    linecache.cache[CELL] = (len(source), None, source.splitlines(keepends=True), CELL)
    try:
        exec(compile(source, CELL, "exec"), {})
    except BaseException as error:  # noqa: BLE001  # whatever the cell raises
        return error
    raise AssertionError("the cell raised nothing")


def test_frames_of_libraries_are_one_line() -> None:
    error = raised("import json\ndef read(text):\n    json.loads(text)\nread('{')")

    folded, whole = own_traceback(error, CELL)

    lines = folded.splitlines()
    assert lines[0] == HEADER
    assert lines[1] == f'  File "{CELL}", line 4, in <module>'
    assert f'  File "{CELL}", line 3, in read' in lines
    assert lines[-2].startswith("  … 3 frames in json (last: decoder.py, line ")
    assert lines[-1].startswith("json.decoder.JSONDecodeError: ")
    assert "raw_decode" in whole
    assert len(whole.splitlines()) > len(lines)


def test_what_led_to_an_error_is_folded_too() -> None:
    error = raised(
        "import json\ntry:\n    json.loads('{')\nexcept ValueError as e:\n"
        "    raise KeyError('x') from e"
    )

    folded, _ = own_traceback(error, CELL)

    assert "  … " in folded.split("direct cause")[0]
    assert 'decoder.py", line' not in folded


def test_without_frames_of_libraries_there_is_one_traceback() -> None:
    folded, whole = own_traceback(raised("1 / 0"), CELL)

    assert folded.startswith(f'{HEADER}\n  File "{CELL}", line 1, in <module>')
    assert folded.endswith("ZeroDivisionError: division by zero")
    assert whole == ""


def test_frames_that_led_to_the_users_source_are_not_shown() -> None:
    folded, whole = own_traceback(ValueError("x"), CELL)

    assert (folded, whole) == ("ValueError: x", "")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (CELL, ""),
        ("/data/train.py", ""),
        ("<ipython-input-3-abc>", ""),
        ("src/mpi4py/MPI.src/msgpickle.pxi", "mpi4py"),
        ("/env/lib/python3.12/site-packages/chainer/links/loss.py", "chainer"),
        ("/env/lib/python3.12/site-packages/six.py", "six"),
        (sysconfig.get_path("stdlib") + "/json/decoder.py", "json"),
        (sysconfig.get_path("stdlib") + "/queue.py", "queue"),
        ("<frozen importlib._bootstrap>", "importlib"),
        ("<__array_function__ internals>", "numpy"),
        (library.__code__.co_filename, "workbench"),
    ],
)
def test_files_are_of_libraries_or_the_users_own(path, name) -> None:
    assert library(path) == name


def test_a_sentence_of_ours_is_said_as_it_is() -> None:
    assert last_line(InputError("no such thing", "name another")) == "no such thing; name another"
    assert last_line(ValueError("x")) == "ValueError: x"
