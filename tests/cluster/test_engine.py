"""An engine keeps its streams from before its first import, and looks for no absent network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from workbench.cluster.engine import has_fabric, without_search

PROGRAM = Path(__file__).parent / "programs" / "early_stream.py"


def test_what_bound_a_stream_early_continues_by_it() -> None:
    answer = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)

    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == ""
    assert [line.rpartition(" ")[2] for line in answer.stderr.splitlines()] == ["before", "after"]


def test_a_host_has_a_fabric_if_a_device_is_listed(tmp_path) -> None:
    folders = tmp_path / "infiniband", tmp_path / "cxi"
    assert not has_fabric(folders)

    folders[0].mkdir()
    assert not has_fabric(folders)

    (folders[0] / "efa_0").mkdir()
    assert has_fabric(folders)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"OMPI_MCA_btl": "^ofi", "OMPI_MCA_mtl": "^ofi"}),
        ({"OMPI_MCA_btl": "^tcp"}, {"OMPI_MCA_btl": "^tcp,ofi", "OMPI_MCA_mtl": "^ofi"}),
        ({"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_mtl": "^ofi,psm2"}, {"OMPI_MCA_mtl": "^ofi,psm2"}),
        ({"OMPI_MCA_mtl": "ofi"}, {"OMPI_MCA_btl": "^ofi"}),
    ],
)
def test_the_search_is_left_out_unless_components_are_named(before, after) -> None:
    assert without_search(before) == after
