"""Compiled modules that are of other sources than those beside the package are not used."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from workbench.engine import compiled_modules
from workbench.engine.compiled_modules import is_old, require_current

PROGRAM = Path(__file__).parent / "programs" / "old_modules.py"
NAMES = ["ring_kernels", "codec_kernels", "timed_calls", "audit_events"]
if platform.machine() == "x86_64":
    NAMES.append("checksum")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    return Path(shutil.copytree(compiled_modules.SOURCES, tmp_path / "native"))


def used(sources: Path) -> tuple[list[str], str]:
    """Return the compiled modules that a process uses beside sources, and what it logs."""
    done = subprocess.run(
        [sys.executable, PROGRAM, sources], capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout), done.stderr


def test_modules_of_other_sources_are_left_out_with_one_warning(sources: Path) -> None:
    pytest.importorskip("workbench.engine.timed_calls", reason="built without a C compiler")
    assert used(sources) == (NAMES, "")
    with (sources / "module.h").open("a") as file:
        file.write("/* as after a pull */\n")

    found, warning = used(sources)

    assert found == []
    assert warning.count("\n") == 1
    assert "older than their sources" in warning
    assert "pip install --editable ." in warning


def test_only_the_module_whose_source_has_changed_is_left_out(sources: Path) -> None:
    pytest.importorskip("workbench.engine.timed_calls", reason="built without a C compiler")
    with (sources / "ring_kernels.c").open("a") as file:
        file.write("/* as after a pull */\n")

    assert used(sources)[0] == NAMES[1:]


def test_one_that_was_built_before_modules_said_what_they_are_of_is_old(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_modules, "SOURCES", sources)
    monkeypatch.setattr(compiled_modules, "_refused", ["one"])
    module = ModuleType("workbench.engine.timed_calls")
    module.__file__ = "timed_calls.so"

    with pytest.raises(ImportError, match="older than its sources"):
        require_current(module)


def test_one_of_a_wheel_has_no_sources_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_modules, "SOURCES", tmp_path / "native")

    assert not is_old(ModuleType("workbench.engine.timed_calls"))
