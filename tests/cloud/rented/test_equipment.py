"""A rented node gets what it lacks of this environment, and nothing that it has."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from workbench.cloud.rented import environment, userdata
from workbench.cloud.rented.environment import package_files, package_folder, package_hash
from workbench.cloud.rented.equipment import (
    equip,
    find_unreached,
    not_installed,
    not_set_up,
    wheel,
    wheel_name,
)
from workbench.core.fleet.offers import CUDA
from workbench.core.node.requirements import read_environment
from workbench.core.world.remote import Completed
from workbench.core.world.world import Host
from workbench.errors import MachineError

DONE = Completed(0, "", "")


class Session:
    """A node whose environment is what a test says."""

    host = Host("10.0.0.4", 1)

    def __init__(self, **changes):
        reported = environment.collect_environment()
        self.reported = reported | changes
        self.ready = self.installed = DONE
        self.brought = DONE
        self.sent = {}
        self.scripts = []
        self.by_root = []

    def run(self, command, *, input="", seconds=60.0):
        if command[:2] == ["sh", "-c"]:
            return self.ready
        if command[0] == "sudo":
            self.by_root.append(command[-1])
            return self.brought
        if command == [sys.executable, "-I", "-"]:
            return Completed(0, f"Welcome!\n{json.dumps(self.reported)}\n", "")
        self.scripts.append(input)
        return self.installed

    def put(self, data, path, mode=0o600):
        self.sent[path] = data


def held(**changes):
    """What is installed here, with some of it otherwise; None for what is not there."""
    found = environment.collect_environment()["distributions"] | changes
    return {name: value for name, value in found.items() if value is not None}


def test_a_node_that_has_all_is_left_as_it_is():
    session, said = Session(), []

    assert equip(session, said.append) is False
    assert (session.sent, session.scripts) == ({}, [])
    assert said == ["It is being set up."]


def test_what_is_lacking_is_named_and_installed():
    session, said = Session(distributions=held(numpy=["1.0", ""], psutil=None)), []

    assert equip(session, said.append) is True

    wanted = session.sent[".workbench/wanted.txt"].decode().splitlines()
    assert [line.partition("==")[0] for line in wanted] == ["numpy", "psutil"]
    assert said[-1] == "It gets numpy, psutil."
    assert "-r wanted.txt" in session.scripts[0]
    assert session.sent[".workbench/built-with.txt"] == b"setuptools<81\n"


def test_what_does_not_take_the_nodes_python_is_installed_in_another_version():
    reported = environment.collect_environment()
    reported["pythons"] = {"numpy": ">=3.11.5"}
    here = read_environment(json.dumps(reported))
    session, said = Session(release="3.11.2", distributions=held(numpy=None)), []

    assert equip(session, said.append, here) is True

    assert session.sent[".workbench/wanted.txt"] == b"numpy\n"
    assert said[-1] == "It gets numpy. Of numpy it gets a version that its Python 3.11.2 takes."


def test_another_version_of_this_package_is_replaced_by_ours():
    session, said = Session(package="another"), []

    assert equip(session, said.append) is True

    assert session.sent[f".workbench/{wheel_name()}"].startswith(b"PK")
    assert f"--no-deps --force-reinstall {wheel_name()}" in session.scripts[0]
    assert said[-1] == "It gets this version of workbench."


def test_a_node_that_was_not_set_up_says_why():
    session = Session()
    session.ready = Completed(1, "", "E: Unable to locate package\n")

    with pytest.raises(MachineError, match="Unable to locate package"):
        equip(session, lambda _: None)


def test_another_python_is_refused_with_the_remedy():
    with pytest.raises(MachineError, match=r"has Python 3\.9 at .*; bake the image again"):
        equip(Session(python="3.9"), lambda _: None)


def test_what_cannot_be_installed_is_reported():
    session = Session(distributions=held(numpy=None))
    session.installed = Completed(1, "", "no such version")

    with pytest.raises(MachineError, match=r"could not install this environment \(no such version"):
        equip(session, lambda _: None)


def test_no_python_at_all_is_reported():
    session = Session()
    session.reported = "nothing"

    with pytest.raises(MachineError, match="has no Python at"):
        equip(session, lambda _: None)


SHELL_UV = """\
#!/bin/sh
echo "torch=$UV_TORCH_BACKEND $*" >> {reported}
[ -z "$UV_TORCH_BACKEND" ] || [ ! -e {away} ]
"""


@pytest.mark.parametrize(
    ("gpus", "away", "expected"),
    [(False, False, ["cpu"]), (True, False, [""]), (False, True, ["cpu", ""])],
    ids=["CPUs", "GPUs", "no index of PyTorch's"],
)
def test_pytorch_for_cpus_stays_so_on_nodes_without_gpus(tmp_path, gpus, away, expected):
    session = Session(distributions=held(torch=None))
    here = read_environment(
        json.dumps(session.reported | {"distributions": {"torch": ["2.1+cpu", ""]}})
    )
    equip(session, lambda _: None, here)
    [script, *_] = session.scripts
    reported, gone = tmp_path / "environment", tmp_path / "away"
    (tmp_path / "uv").write_text(SHELL_UV.format(reported=reported, away=gone))
    (tmp_path / "uv").chmod(0o700)
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    (tmp_path / "nvidia-smi").chmod(0o700 if gpus else 0o600)
    if away:
        gone.touch()

    script = script.replace(f"{userdata.UV}/bin/uv", str(tmp_path / "uv"))
    script = script.replace("cd .workbench", f"cd {tmp_path}")
    path = f"{tmp_path}:/usr/bin:/bin"
    subprocess.run(["sh"], input=script, text=True, check=True, env={"PATH": path})

    calls = reported.read_text().splitlines()
    assert [line.split()[0] for line in calls] == [f"torch={one}" for one in expected]


def test_cupy_is_installed_where_it_was_wished_for():
    session = Session()

    assert equip(session, lambda _: None, more=CUDA) is True

    assert session.sent[".workbench/wanted.txt"].decode().splitlines() == list(CUDA)


FROM_GIT = json.dumps({"url": "https://h/r", "vcs_info": {"vcs": "git", "commit_id": "abc"}})


@pytest.mark.parametrize(("origin", "brought"), [(FROM_GIT, 1), ("", 0)], ids=["git", "index"])
def test_git_comes_first_where_something_is_installed_by_it_and_only_there(origin, brought):
    session = Session()
    reported = session.reported | {"distributions": {"mine": ["1.0", origin]}}

    equip(session, lambda _: None, read_environment(json.dumps(reported)))

    assert len(session.by_root) == brought
    assert all("git" in script for script in session.by_root)


def test_without_git_a_node_says_which_host_it_could_not_reach():
    session = Session()
    session.brought = Completed(1, "", "  Temporary failure resolving 'deb.example'\n")
    reported = session.reported | {"distributions": {"mine": ["1.0", FROM_GIT]}}

    with pytest.raises(MachineError, match=r"could not reach deb\.example"):
        equip(session, lambda _: None, read_environment(json.dumps(reported)))


APT = """\
Err:1 http://deb.example/debian bookworm InRelease
  Temporary failure resolving 'deb.example'
E: Package 'python3-venv' has no installation candidate
+ left=0
+ exit 1
"""
APT_REFUSED = (
    "  Could not connect to deb.example:80 (10.0.0.9). - connect (111: Connection refused)\n"
)
APT_SLOW = "W: Failed to fetch http://deb.example/dists/x  Unable to connect to deb.example:http:\n"
PIP = (
    "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError("
    "\"HTTPSConnection(host='index.example', port=443): Failed to establish a new connection\")'\n"
    "ERROR: Could not find a version that satisfies the requirement uv==1 (from versions: none)\n"
)
PIP_POOL = "HTTPSConnectionPool(host='index.example', port=443): Max retries exceeded\n"
UV = """\
error: Request failed after 3 retries in 7.2s
  cause: Failed to fetch: `https://index.example/simple/numpy/`
  cause: error sending request for url (https://index.example/simple/numpy/)
  cause: dns error
"""
PIP_23 = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<Connection
object at 0x7f>: [Errno -2] Name or service not known')': /simple/uv/
ERROR: No matching distribution found for uv==1
"""
GIT = "fatal: unable to access 'https://git.example/r/': Could not resolve host: git.example\n"


@pytest.mark.parametrize(
    ("text", "host"),
    [
        (APT, "deb.example"),
        (APT_REFUSED, "deb.example"),
        (APT_SLOW, "deb.example"),
        (PIP, "index.example"),
        (PIP_23, "the package index"),
        (PIP_POOL, "index.example"),
        (UV, "index.example"),
        (GIT, "git.example"),
        ("error: no version of numpy==99", ""),
        ("", ""),
    ],
)
def test_the_host_that_could_not_be_reached_is_found(text, host):
    assert find_unreached(text) == host


def test_the_sentence_says_which_host_and_what_to_see_to():
    said = not_set_up("10.0.0.4", APT)

    assert said.startswith("10.0.0.4 was not set up: it could not reach deb.example; check that")
    assert "because index.example is unreachable; check" in not_installed("10.0.0.4", UV)


def test_without_such_a_host_the_last_line_is_reported_and_no_trace_of_a_script():
    assert not_set_up("10.0.0.4", "E: no space left\n+ exit 1\n+ touch failed\n").endswith(
        "set up: E: no space left"
    )
    assert "(no such version)" in not_installed("10.0.0.4", "no such version\n")
    assert "it gave no output" in not_set_up("10.0.0.4", "+ exit 1\n")


def test_a_node_that_has_it_has_the_same(tmp_path):
    folder = package_folder()
    with zipfile.ZipFile(io.BytesIO(wheel(folder))) as archive:
        archive.extractall(tmp_path)
        record = archive.read(next(n for n in archive.namelist() if n.endswith("/RECORD")))

    reported = subprocess.run(
        [sys.executable, "-B", "-"],  # bytecode would be more files than those that came
        check=True,
        capture_output=True,
        text=True,
        input=Path(environment.__file__).read_text(),
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )

    assert read_environment(reported.stdout).package == package_hash(folder)
    assert (tmp_path / "workbench_compat.pth").exists()
    listed = {line.partition(",")[0] for line in record.decode().splitlines()}
    assert listed == {
        p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()
    }
    assert wheel_name() == f"dist_workbench-{version('dist-workbench')}-py3-none-any.whl"


def test_the_same_files_make_the_same_wheel_and_no_browsers_are_in_it():
    folder = package_folder()
    names = {path.relative_to(folder).parts[0] for path in package_files(folder)}

    assert wheel(folder) == wheel(folder)
    assert len(wheel(folder)) < 2_000_000
    assert "labextension" not in names


def test_a_changed_file_is_another_content(tmp_path):
    (tmp_path / "a.py").write_text("one")
    before = package_hash(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("cache")
    same = package_hash(tmp_path)
    (tmp_path / "a.py").write_text("two")

    assert same == before
    assert package_hash(tmp_path) != before


def test_the_description_of_this_environment_can_be_read():
    here = read_environment(json.dumps(environment.collect_environment()))

    assert here.python == "{}.{}".format(*sys.version_info)
    assert here.distributions["dist-workbench"][0]
    assert here.package
