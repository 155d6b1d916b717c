"""Nodes get the packages of the notebook's environment, whatever its kind, without local paths."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.cloud.rented import environment
from workbench.core.node.requirements import Environment, lacking, read_environment, remaining
from workbench.requests.environment import configured_indexes

NODE = Environment("3.11", "", {})
BUILT = {"url": "file:///build/feedstock_root/build_artifacts/numpy_1/work", "dir_info": {}}
MINE = {"url": "file:///home/you/mine", "dir_info": {"editable": True}}


def reported(python):
    """Return what a Python says of its environment, as a node's does."""
    source = Path(environment.__file__).read_text()
    done = subprocess.run(
        [python, "-I", "-"], input=source, capture_output=True, text=True, check=True
    )
    return read_environment(done.stdout)


def put(python, name, version, installer="pip", origin=None):
    """Have a distribution installed, as far as its metadata says."""
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.check_output([python, "-I", "-c", where], text=True).strip())
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "INSTALLER").write_text(f"{installer}\n")
    if origin:
        (folder / "direct_url.json").write_text(json.dumps(origin))


def made(folder, base):
    subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


@pytest.mark.parametrize("prefix", ["/usr", "/usr/local", sys.base_prefix])
def test_an_environment_that_is_the_pythons_own(prefix):
    python = Path(prefix, "bin", "python3")
    if not python.exists():
        pytest.skip(f"no {python} here")

    wanted = lacking(reported(python), NODE)

    assert not [line for line in wanted if prefix in line]
    assert all("==" in line or "@ " in line for line in wanted)


@pytest.mark.parametrize("base", ["/usr/bin/python3", sys.executable], ids=["Debian's", "ours"])
def test_a_virtual_environment(tmp_path, base):
    if not Path(base).exists():
        pytest.skip(f"no {base} here")
    python = made(tmp_path / "venv", base)
    put(python, "numpy", "2.1.0")
    put(python, "mine", "1.0", origin=MINE)

    here = reported(python)

    assert lacking(here, NODE) == ("numpy==2.1.0",)
    assert remaining(here) == ("mine",)


def test_an_environment_of_condas(tmp_path):
    python = made(tmp_path / "conda", sys.executable)
    (tmp_path / "conda" / "conda-meta").mkdir()
    put(python, "numpy", "2.1.0", "conda", BUILT)
    put(python, "pandas", "3.0.0", "conda", {"url": "file:///tmp/build/80754af9/pandas_1/work"})
    put(python, "scipy", "1.17.0")
    put(python, "mine", "1.0", origin=MINE)

    here = reported(python)

    assert here.conda == {"numpy", "pandas"}
    assert lacking(here, NODE) == ("numpy==2.1.0", "pandas==3.0.0", "scipy==1.17.0")
    assert remaining(here) == ("mine",)


def test_the_indexes_of_pip_are_known_by_their_hosts_alone(tmp_path):
    (tmp_path / ".pip").mkdir()
    (tmp_path / ".pip/pip.conf").write_text(
        "[global]\nextra-index-url =\n    https://me:secret@pip.example.org/simple\n"
        "[install]\nindex-url = https://mirror.example.org/simple\n"
    )
    (tmp_path / "broken").write_text("what = this\n")

    found = configured_indexes(
        {
            "HOME": str(tmp_path),
            "PIP_CONFIG_FILE": str(tmp_path / "broken"),
            "UV_INDEX_URL": "https://uv.example.org/simple",
        }
    )

    assert {"mirror.example.org", "pip.example.org", "uv.example.org"} <= {*found}
    assert not [host for host in found if "secret" in host or "/" in host]
