"""Install the wheel where there is no Node, and ask Jupyter what it has."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packaging.programs import ROOT, run

BUILT = ROOT / "workbench" / "labextension"
BUNDLE = ROOT / "workbench" / "notebook" / "static"
SERVED = "share/jupyter/labextensions/workbench-lab"
UV = shutil.which("uv") or str(ROOT / ".venv-uv" / "bin" / "uv")

pytestmark = [
    pytest.mark.packaging,
    pytest.mark.skipif(
        not (BUILT / "package.json").exists(), reason="make extension has not been run"
    ),
]


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a fresh environment with the wheel and JupyterLab, without Node."""
    if not Path(UV).exists():
        pytest.skip("there is no uv to make an environment with: make test brings it")
    folder = tmp_path_factory.mktemp("environment")
    run(UV, "venv", "--quiet", "--python", sys.executable, folder)
    constraints = ROOT / "constraints.txt"
    run(
        *(UV, "pip", "install", "--quiet", "--python", folder / "bin" / "python"),
        *("--constraints", constraints, "--build-constraints", constraints),
        f"{wheel}[lab]",
    )
    return folder


def test_the_wheel_carries_what_was_built_and_nothing_twice(wheel):
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()

    built = {path.relative_to(BUILT).as_posix() for path in BUILT.rglob("*") if path.is_file()}
    served = {name.partition(f"{SERVED}/")[2] for name in names if SERVED in name}
    assert served == built | {"install.json"}
    assert {path.relative_to(ROOT).as_posix() for path in BUNDLE.rglob("*.*")} <= set(names)
    assert [name for name in names if name.startswith(("extension/", "workbench/labext"))] == []


def test_a_wheel_has_compiled_modules_where_there_is_a_compiler(source, wheel, tmp_path):
    if not shutil.which("cc"):
        (pytest.fail if os.environ.get("CI") else pytest.skip)("there is no C compiler")

    hatchling = (sys.executable, "-m", "hatchling", "build", "-d", tmp_path, "-t", "wheel")
    run(*hatchling, cwd=source, path=os.environ["PATH"])
    (compiled,) = tmp_path.glob("*.whl")

    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    kernels = (f"exchange/{name}_kernels" for name in ("codec", "ring"))
    modules = ("audit_events", *kernels, "snapshot/checksum", "timed_calls")
    assert compiled_in(compiled) == [f"workbench/engine/{name}{suffix}" for name in modules]
    assert f"cp{sys.version_info[0]}{sys.version_info[1]}" in compiled.name
    assert compiled_in(wheel) == []


def compiled_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as files:
        return sorted(name for name in files.namelist() if name.endswith(".so"))


def test_the_sdist_carries_no_installed_package(dist):
    with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        names = sdist.getnames()

    assert any(name.endswith("extension/src/index.ts") for name in names)
    assert [name for name in names if "node_modules" in name or "/lib/" in name] == []


def test_jupyterlab_finds_the_extension_without_node(environment):
    said = run(environment / "bin" / "jupyter", "labextension", "list", path=f"{environment}/bin")

    assert re.search(r"workbench-lab v[\d.]+ enabled +OK \(python, dist-workbench\)", said), said


def test_jupyter_server_loads_our_part_without_node(environment):
    said = run(
        environment / "bin" / "jupyter", "server", "extension", "list", path=f"{environment}/bin"
    )

    assert "workbench.server enabled" in said
    assert re.search(r"workbench\.server \S* *OK", said), said
