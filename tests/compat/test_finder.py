import inspect
import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import workbench.compat as compat
from workbench.compat.finder import Loader, finder, incompatibility

ROOT = Path(compat.__file__).parents[2]


def run(code: str, *path: Path, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh Python that finds the packages in ``path`` first."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT)))}
    return subprocess.run(
        [sys.executable, *flags, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def package(folder: Path, version: str = "7.8.1", init: str = "", **modules: str) -> Path:
    """Write a package that is called chainer."""
    (folder / "chainer").mkdir()
    modules |= {"__init__": init, "_version": f"__version__ = '{version}'"}
    for name, text in modules.items():
        (folder / "chainer" / f"{name}.py").write_text(text + "\n", encoding="utf-8")
    return folder


def test_importing_it_twice_registers_one_finder():
    compat.install()
    compat.install()

    assert sys.meta_path.count(finder) == 1


def test_it_leaves_every_other_import_alone():
    assert finder.find_spec("numpy") is None
    assert finder.find_spec("chainer.functions.math.sum", []) is None


def test_a_traceback_shows_the_real_file_and_the_text_that_runs():
    from chainer.training.extensions import micro_average

    extension = micro_average.MicroAverage("n", "d", "r")
    try:
        extension(None)
    except AttributeError as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]

    assert frame.filename.endswith("chainer/training/extensions/micro_average.py")
    assert frame.line == "observation = trainer.observation"
    assert "numpy.int64(1)" in inspect.getsource(micro_average.MicroAverage.__call__)


def test_a_module_whose_text_differs_is_refused_with_version_and_remedy(tmp_path):
    package(tmp_path, reporter="class Summary: pass")
    path = str(tmp_path / "chainer" / "reporter.py")

    with pytest.raises(compat.CompatError) as caught:
        Loader("chainer.reporter", path).get_code("chainer.reporter")

    assert "chainer.reporter of chainer 7.8.1 differs" in str(caught.value)
    assert "occurs 0 times instead of 1" in str(caught.value)
    assert "pip install --force-reinstall --no-deps chainer==7.8.1" in str(caught.value)


def test_an_import_of_a_tampered_module_fails_as_a_whole(tmp_path):
    package(tmp_path, init="from chainer import reporter", reporter="class Summary: pass")

    done = run("import workbench.compat, chainer", tmp_path)

    assert done.returncode == 1
    assert "CompatError: chainer.reporter of chainer 7.8.1 differs" in done.stderr


def test_another_chainer_is_refused_in_one_sentence(tmp_path):
    package(tmp_path, version="6.7.0")

    done = run("import workbench.compat, chainer", tmp_path)

    assert "CompatError: chainer 6.7.0 is installed, but" in done.stderr
    assert "pip install chainer==7.8.1" in done.stderr


def test_another_chainer_can_be_looked_for_without_an_error(tmp_path):
    package(tmp_path, version="6.7.0")

    done = run(
        "import workbench.compat, importlib.util; print(importlib.util.find_spec('chainer').name)",
        tmp_path,
    )

    assert done.stdout == "chainer\n"


def test_another_chainer_can_be_had_after_uninstall(tmp_path):
    package(tmp_path, version="6.7.0")

    done = run("import workbench.compat as c; c.uninstall(); import chainer; print('in')", tmp_path)

    assert done.stdout == "in\n"


def test_no_bytecode_of_a_replaced_module_is_read_or_written(tmp_path):
    package(tmp_path, init="x = 1")

    done = run("import workbench.compat, chainer", tmp_path)

    assert done.returncode == 0
    assert not (tmp_path / "chainer" / "__pycache__" / "__init__.pyc").exists()
    assert not list(tmp_path.glob("chainer/__pycache__/__init__*"))


def test_a_late_import_says_that_chainer_runs_unpatched(tmp_path):
    package(tmp_path)

    done = run(
        "import sys, workbench.compat as c; c.uninstall()\n"
        "import chainer; del sys.modules['workbench.compat']; import workbench.compat",
        tmp_path,
    )

    assert "CompatError: chainer was imported before workbench.compat" in done.stderr
    assert "restart Python" in done.stderr


def test_what_a_failed_import_left_behind_is_forgotten(tmp_path):
    package(
        tmp_path,
        init="import sys; from chainer import part\nif 'fixed' not in sys.argv: raise ImportError",
        part="",
    )

    done = run(
        "import workbench.compat as c, sys\n"
        "c.uninstall()\n"
        "try:\n import chainer\nexcept ImportError: pass\n"
        "assert 'chainer.part' in sys.modules\n"
        "c.install(); assert 'chainer.part' not in sys.modules\n"
        "sys.argv.append('fixed'); import chainer; print(chainer.part.__name__)",
        tmp_path,
    )

    assert done.stdout == "chainer.part\n", done.stderr


@pytest.mark.parametrize("python", [(3, 11), (3, 12), (3, 13)])
def test_the_pinned_chainer_is_accepted_on_every_supported_python(python):
    assert incompatibility("7.8.1", python) is None


@pytest.mark.parametrize("python", [(3, 14), (3, 15)])
def test_a_newer_python_is_refused_with_the_ones_that_work(python):
    sentence = incompatibility("7.8.1", python)

    assert sentence == (
        f"chainer does not run on Python 3.{python[1]}; "
        "use Python 3.11, 3.12 or 3.13 for this environment."
    )


def test_a_compiled_only_module_is_refused(tmp_path):
    package(tmp_path, init="from chainer import reporter", reporter="class Summary: pass")
    compiled = (
        "import py_compile, pathlib; p = pathlib.Path(r'{}')\n"
        "py_compile.compile(str(p), cfile=str(p.with_suffix('.pyc'))); p.unlink()"
    ).format(tmp_path / "chainer" / "reporter.py")

    done = run(f"{compiled}\nimport workbench.compat, chainer", tmp_path)

    assert "is not a plain source file" in done.stderr


def test_at_the_start_of_python_the_package_loads_nothing_but_its_finder():
    code = (
        "import sys, workbench; before = set(sys.modules); import workbench.compat; "
        "print(sorted(set(sys.modules) - before - {'workbench.compat'}))"
    )

    done = run(code, flags=("-S",))

    assert done.stdout == "['workbench.compat.finder']\n", done.stderr
