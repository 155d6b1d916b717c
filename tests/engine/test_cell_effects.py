"""What a cell binds on its rank, and what it does outside, with the compiled hook and in Python."""

from __future__ import annotations

import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.core.run.cell_names import CellEffects, Deed
from workbench.engine import cell_effects
from workbench.engine.cell_effects import note_effects
from workbench.engine.framework import Framework
from workbench.frameworks.torch.hook import announce_files


def effects(source: str, **before: Any) -> CellEffects:
    space: dict[str, Any] = {"__name__": "__main__", **before}
    with note_effects(space) as found:
        exec(compile(source, "<cell of run 1>", "exec"), space)
        noted = found()
    assert noted is not None
    return noted


def test_names_are_known_by_what_became_of_them() -> None:
    noted = effects(
        "import json\nn = 1\ndef f(): pass\nitems = []\ndel old\nsame = same",
        old=1,
        same=[2],
        kept=3,
    )

    assert noted == CellEffects(("items",), ("f", "n"), ("json",), ("old",))


def test_names_in_executed_text_are_read() -> None:
    assert effects("exec('data.append(unknown_to_all)' if 0 else 'data')", data=[]).read == (
        "data",
    )


@pytest.mark.parametrize(
    ("source", "deed"),
    [
        ("open('a', 'w').close()", Deed.WROTE),
        ("import pathlib\npathlib.Path('a').write_text('x')", Deed.WROTE),
        ("import numpy\nnumpy.save('a', 1)", Deed.WROTE),
        ("import os\nos.mkdir('new')", Deed.WROTE),
        ("import sqlite3\nsqlite3.connect('a').close()", Deed.WROTE),
        ("import logging\nlogging.FileHandler('a').close()", Deed.WROTE),
        (
            "import threading\nt = threading.Thread(target=lambda: open('a', 'w').close())\n"
            "t.start()\nt.join()",
            Deed.WROTE,
        ),
        ("import os\nos.remove('there')", Deed.REMOVED),
        ("import os\nos.rename('there', 'b')", Deed.REMOVED),
        ("import os\nos.system('true')", Deed.STARTED),
        ("import subprocess\nsubprocess.run(['true'], check=True)", Deed.STARTED),
        ("import os\nif not (pid := os.fork()): os._exit(0)\nos.waitpid(pid, 0)", Deed.STARTED),
        ("import socket\nsocket.create_connection(address).close()", Deed.CONNECTED),
    ],
)
def test_what_a_cell_does_outside_is_noted(
    source: str, deed: Deed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").touch()
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = effects(source, address=server.getsockname())

    assert found.deeds == (deed,)


@pytest.mark.parametrize(
    "source",
    [
        "open('there').close()",
        "import tempfile\nwith tempfile.TemporaryDirectory() as d: open(d + '/a', 'w').close()",
        "import os\nos.makedirs('folder', exist_ok=True)",
        "import os\nos.makedirs('a/new/one', exist_ok=True)",
        "import pathlib\npathlib.Path('new').mkdir(exist_ok=True)",
        "import os\nopen(os.devnull, 'w').close()",
        "import pathlib\n(pathlib.Path.home() / '.cache' / 'a').write_text('x')",
        "import fresh",
        "import sqlite3\nsqlite3.connect(':memory:').close()",
    ],
)
def test_what_does_no_harm_again_is_not(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("there").touch()
    Path("folder").mkdir()
    Path(".cache").mkdir()
    Path("fresh.py").write_text("x = 1")
    monkeypatch.delitem(sys.modules, "fresh", raising=False)

    assert effects(source).deeds == ()


def test_what_pytorch_writes_in_cpp_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Writer:
        def __init__(self, name: str) -> None:
            self.name = name

    monkeypatch.chdir(tmp_path)
    announce_files(SimpleNamespace(_open_zipfile_writer_file=Writer))

    assert effects("Writer('model.pt')", Writer=Writer).deeds == (Deed.WROTE,)


class Gadget(Framework):
    """A made-up framework with a cache."""

    harmless = ("gadget.store",)
    caches = ("GADGET_HOME",)


@pytest.mark.parametrize(("known", "deeds"), [([Gadget()], ()), ([], (Deed.WROTE,))])
def test_a_framework_names_what_does_no_harm(
    known: list[Framework], deeds: tuple[Deed, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_effects, "frameworks", lambda: known)
    monkeypatch.setenv("GADGET_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("cache").mkdir()
    store = {"__name__": "gadget.store"}
    installed = f"{sysconfig.get_path('purelib')}/gadget/store.py"
    exec(compile("def keep(): open('kept', 'w').close()", installed, "exec"), store)

    assert effects("keep()", keep=store["keep"]).deeds == deeds
    assert effects("open('cache/one', 'w').close()").deeds == deeds


def test_an_own_module_acts_for_its_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("uploading.py").write_text("open('sent', 'w').close()")

    assert effects("import uploading").deeds == (Deed.WROTE,)


def test_the_hook_in_python_notes_the_same(tmp_path: Path) -> None:
    program = (
        "import sys\nsys.modules['workbench.engine.audit_events'] = None\n"
        "from workbench.engine import cell_effects\n"
        "assert cell_effects.audit_events is None\n"
        "space = {}\n"
        "with cell_effects.note_effects(space) as found:\n"
        "    exec(\"open('a', 'w').close()\", space)\n"
        "    print(*found().deeds)\n"
    )

    found = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert found.stdout == "wrote files\n"


def test_too_many_names_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_effects, "MOST_NAMES", 1)

    with note_effects(space := {"a": 1}) as found:
        exec("b = c = 2", space)
        assert found() is None
