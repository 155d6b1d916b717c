"""Install the wheel by plain pip in a new environment outside the clone, and use what it brings."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from tests.packaging.programs import run

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600)]
SAID = "is another project, and its files have the places of dist-workbench's"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEM = "/usr/local/bin:/usr/bin:/bin"  # of a demo, whose MPI is not there


class Environment:
    """A new environment, whose demo and commands have a home of their own.

    Args:
        folder: Made here.
        python: Its interpreter.
        pip: The release that it has.
    """

    def __init__(self, folder: Path, python: str, pip: str) -> None:
        self.folder, self.bin = folder, folder / "environment" / "bin"
        run(python, "-m", "venv", folder / "environment", path=SYSTEM)
        self.pip("install", "--upgrade", pip)

    def pip(self, *arguments: str | Path) -> str:
        """Run pip, which compiles no bytecode: most of it is never loaded."""
        command, *rest = arguments
        more = ("--no-compile",) if command == "install" else ()
        return self.run("python", "-m", "pip", command, "--quiet", *more, *rest)

    def run(self, program: str, *arguments: str | Path, status: int = 0) -> str:
        """Run a program of the environment."""
        return run(
            *(self.bin / program, *arguments), cwd=self.folder, path=f"{self.bin}:{SYSTEM}",
            status=status, WORKBENCH_HOME=str(self.folder / "home"),
        )  # fmt: skip

    def has(self, package: str) -> bool:
        """Return whether a package can be imported."""
        code = f"import importlib.util; print(importlib.util.find_spec({package!r}) is not None)"
        return self.run("python", "-c", code).strip() == "True"


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Give an environment that pip 23 has made of the wheel alone."""
    made = Environment(tmp_path_factory.mktemp("plain"), sys.executable, "pip==23.*")
    made.pip("install", wheel)
    return made


@pytest.fixture
def namesake(tmp_path: Path) -> Path:
    """Give the wheel of a project of others, whose package is called as ours."""
    path = tmp_path / "workbench-0.8.506-py3-none-any.whl"
    info = "workbench-0.8.506.dist-info"
    files = {
        "workbench/__init__.py": "__version__ = '0.8.506'\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: workbench\nVersion: 0.8.506\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return path


def test_an_old_pip_installs_the_base_whose_demo_trains_with_numpy(environment):
    said = environment.run("workbench", "demo")

    assert [one for one in ("chainer", "torch", "sklearn") if environment.has(one)] == []
    assert "to train on digits with NumPy." in said
    assert "Test accuracy 9" in said
    assert "curve.png" in said
    assert "Cluster 'demo' is deleted" in said


def test_a_script_that_imports_what_is_not_there_ends_with_the_command(environment):
    (environment.folder / "train.py").write_text("import torch\n")

    said = environment.run("workbench", "run", "--ranks", "1", "train.py", status=1)
    environment.run("workbench", "delete")

    assert "torch is not installed here: `pip install torch` adds it." in said


def test_another_project_of_the_name_is_said_in_both_orders_until_it_is_gone(
    environment, namesake, wheel
):
    for name in ("theirs last", "ours last"):
        if name == "theirs last":
            environment.pip("install", "--no-deps", namesake)
        else:
            environment.pip("install", "--no-deps", "--force-reinstall", wheel)
        assert f"workbench 0.8.506 {SAID}" in environment.run("workbench", "status", status=1), name
        loaded = environment.run("python", "-m", "IPython", "-c", "%load_ext workbench", status=1)
        assert f"MachineError: workbench 0.8.506 {SAID}" in loaded, name
        assert f"workbench 0.8.506 {SAID}" in environment.run("workbench", "doctor", status=1), name

    environment.pip("uninstall", "--yes", "workbench")
    environment.pip("install", "--no-deps", "--force-reinstall", wheel)
    environment.run("workbench", "status")


def test_the_newest_pip_builds_chainer_without_a_constraint(environment, wheel):
    environment.pip("install", "--upgrade", "pip")
    if sys.version_info >= (3, 14):
        pytest.skip("Chainer has no Python 3.14")

    environment.pip("install", f"dist-workbench[chainer] @ {wheel.as_uri()}")

    assert "to train on digits with Chainer." in environment.run("workbench", "demo")


@pytest.mark.weekly
@pytest.mark.parametrize("pip", ["pip==23.*", "pip"])
@pytest.mark.parametrize("version", VERSIONS)
def test_each_python_gets_the_base_by_an_old_pip_and_by_the_newest(version, pip, wheel, tmp_path):
    python = shutil.which(f"python{version}")
    if not python:
        pytest.skip(f"there is no python{version} here")
    made = Environment(tmp_path, python, pip)

    made.pip("install", wheel)

    assert "to train on digits with NumPy." in made.run("workbench", "demo")


def test_a_wheel_for_this_platform_has_compiled_modules_and_trains(dist, tmp_path):
    tag = "cp{}{}".format(*sys.version_info)
    found = [*dist.glob(f"*-{tag}-{tag}-manylinux*.whl")]
    if not found:
        pytest.skip("make dist makes them")
    made = Environment(tmp_path, sys.executable, "pip")
    made.pip("install", f"dist-workbench[lab] @ {found[0].as_uri()}")

    code = "import workbench.engine.exchange.codec_kernels, workbench.engine.timed_calls"
    made.run("python", "-c", code)
    assert "Test accuracy 9" in made.run("workbench", "demo")
    assert "workbench-lab" in made.run("jupyter", "labextension", "list")
