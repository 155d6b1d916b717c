"""The compiled modules under AddressSanitizer and UBSan, and with what CFLAGS may say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("workbench.engine.timed_calls", reason="built without a C compiler")
pytestmark = [pytest.mark.weekly, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests" / "engine" / "programs" / "build_native.py"
SANITIZED = "-g -fsanitize=address,undefined -fno-sanitize-recover=undefined"
TESTS = (
    "tests/engine/exchange/test_kernel_faults.py",
    "tests/engine/exchange/test_ring_kernels.py",
    "tests/engine/exchange/test_codecs.py",
    "tests/engine/timing/test_call_timing.py",
    "tests/engine/snapshot/test_checksum.py",
)


def built(folder: Path, options: str) -> Path:
    """Compile a copy of the package with more options of the compiler."""
    for name in ("native", "workbench"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.so"))
    subprocess.run(
        [sys.executable, PROGRAM],
        cwd=folder,
        env=os.environ | {"CFLAGS": options},
        check=True,
        capture_output=True,
        timeout=300,
    )
    assert len([*(folder / "workbench").rglob("*.so")]) == 5
    return folder


def said_by_tests(tree: Path, **environment: str) -> str:
    """Run the tests with a tree's package; return what they print where they fail."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(tree)} | environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=800,
    )
    return "" if done.returncode == 0 else done.stdout[-6000:] + done.stderr[-6000:]


def library(name: str) -> str:
    """Return the path of one of the compiler's libraries; without it the test is skipped."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("the sanitizers are those of GCC")
    command = [compiler, f"-print-file-name={name}"]
    path = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(path):
        pytest.skip(f"this compiler has no {name}")
    return path


def test_no_test_of_the_compiled_modules_meets_an_error_of_memory(tmp_path: Path) -> None:
    preloaded = " ".join(map(library, ("libasan.so", "libubsan.so")))

    # Python keeps memory to the end, and MPI's library more.
    found = said_by_tests(
        built(tmp_path, SANITIZED), LD_PRELOAD=preloaded, ASAN_OPTIONS="detect_leaks=0"
    )

    assert found == ""


def test_they_know_what_is_not_finite_whatever_the_compiler_is_asked_for(tmp_path: Path) -> None:
    found = said_by_tests(built(tmp_path, "-ffast-math"))

    assert found == ""
