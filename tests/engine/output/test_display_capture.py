"""Displays of a cell go to its run in rich form; outside of a run to the original publisher."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "displaying.py"
PICTURE = ["display", ["image/png", "text/plain"]]
PAGE = ["display", ["text/html", "text/plain"]]
WELL = ["finished", ""]
CELLS = {
    "a figure that was made without pyplot is shown": (
        "from matplotlib.figure import Figure\nfigure = Figure()\nfigure.subplots()\nfigure",
        [PICTURE, WELL],
    ),
    "a figure is shown by show(), in order with the text": (
        "import matplotlib.pyplot as plt\nprint('a')\nplt.plot([1, 2])\nplt.show()\nprint('b')",
        [["stdout", "a\n"], PICTURE, ["stdout", "b\n"], WELL],
    ),
    "a figure that is open at the end is shown": ("plt.plot([1, 2]);", [PICTURE, WELL]),
    "it is shown once": ("plt.plot([1, 2])\nplt.show()", [PICTURE, WELL]),
    "a figure of a cell that fails is shown": (
        "plt.plot([1])\n1 / 0",
        [PICTURE, ["failed", "ZeroDivisionError: division by zero"]],
    ),
    "a script shows its figures": (
        "# script\nimport matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nprint(__name__)",
        [PICTURE, ["stdout", "__main__\n"], WELL],
    ),
    "the last value is shown in its rich form": (
        "from IPython.display import HTML, clear_output, display\n"
        "display(HTML('<b>x</b>'))\nHTML('<i>y</i>')",
        [PAGE, PAGE, WELL],
    ),
    "a last value that is text alone is printed": ("{'a': 1}", [["stdout", "{'a': 1}\n"], WELL]),
    "a semicolon silences a rich value": ("HTML('<i>y</i>');", [WELL]),
    "of a display that is updated the newest counts": (
        "h = display('one', display_id=True)\nh.update('two')",
        [["display", ["text/plain"]], WELL],
    ),
    "clearing takes away, here for the text that follows": (
        "display(HTML('x'))\nclear_output(wait=True)\nprint('y')",
        [["clear", []], ["stdout", "y\n"], WELL],
    ),
    "what displays itself does so once": (
        "class A:\n    def _ipython_display_(self): print('own')\nA()",
        [["stdout", "own\n"], WELL],
    ),
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> dict[str, object]:
    """What the program says of all cells, with no backend chosen by the person."""
    answer = subprocess.run(
        [sys.executable, str(PROGRAM)],
        input=json.dumps([cell for cell, _ in CELLS.values()]),
        capture_output=True, text=True, check=False, timeout=100,
        cwd=tmp_path_factory.mktemp("work"),
        env={name: value for name, value in os.environ.items() if name != "MPLBACKEND"},
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.mark.parametrize("name", CELLS)
def test_what_a_cell_displays_goes_to_its_run(seen, name) -> None:
    number = [*CELLS].index(name)

    assert seen["cells"][number] == CELLS[name][1]


def test_matplotlib_is_imported_by_who_uses_it(seen) -> None:
    assert seen["imported"] is False


def test_outside_of_a_run_displays_go_where_they_went(seen) -> None:
    assert [data["text/html"] for data in seen["past"]] == ["<b>outside</b>"]


def test_a_backend_of_ones_own_is_left_alone(tmp_path) -> None:
    cell = "import matplotlib.pyplot as plt\nplt.plot([1])\nprint(plt.get_backend().lower())"

    answer = subprocess.run(
        [sys.executable, str(PROGRAM)], input=json.dumps([cell]), capture_output=True, text=True,
        check=False, cwd=tmp_path, env=os.environ | {"MPLBACKEND": "agg"}, timeout=100,
    )  # fmt: skip

    assert json.loads(answer.stdout)["cells"] == [[["stdout", "agg\n"], WELL]]
