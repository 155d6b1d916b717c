"""Start children with the .pth alone, as in an environment that has the wheel."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import workbench.compat as compat

PTH = Path(compat.__file__).parent / "workbench_compat.pth"
ROOT = PTH.parents[2]
ITERATE = Path(__file__).parent / "programs" / "iterate.py"


@pytest.fixture
def environment(tmp_path):
    """Make an environment whose interpreters read the .pth when they start."""
    (tmp_path / "site").mkdir()
    shutil.copy(PTH, tmp_path / "site")
    (tmp_path / "sitecustomize.py").write_text(
        f"import site; site.addsitedir({str(tmp_path / 'site')!r})\n", encoding="utf-8"
    )
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (tmp_path, ROOT)))}


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_multiprocess_iterator_works_with_each_start_method(environment, method):
    flags = ["-W", "error::DeprecationWarning:chainer.iterators.multiprocess_iterator"]

    done = subprocess.run(
        [sys.executable, *flags, ITERATE, method],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )

    assert done.stdout == "[0, 1, 2, 3, 4, 5, 6, 7]\n", done.stderr


def test_a_multithread_iterator_works():
    from chainer.iterators import MultithreadIterator

    iterator = MultithreadIterator(list(range(8)), 4, repeat=False, shuffle=False, n_threads=2)

    assert list(iterator) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    iterator.finalize()


def test_the_pth_is_silent_where_workbench_is_missing(environment, tmp_path):
    environment["PYTHONPATH"] = str(tmp_path)

    done = subprocess.run(
        [sys.executable, "-c", "print('started')"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.stdout, done.stderr) == ("started\n", "")


def test_the_pth_is_one_line_that_only_imports():
    (line,) = PTH.read_text(encoding="utf-8").splitlines()

    assert line.startswith("import ")
    assert "except ImportError" in line
