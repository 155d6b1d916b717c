"""The wheel for nodes has this package, and is identified by its content."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

from workbench.cloud.rented import environment
from workbench.cloud.rented.environment import package_files, package_folder, package_hash
from workbench.cloud.rented.equipment import wheel, wheel_name
from workbench.core.node.requirements import read_environment


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
