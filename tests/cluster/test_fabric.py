"""Which networks Open MPI looks for at its start."""

from __future__ import annotations

import pytest

from workbench.cluster.engine import has_fabric, without_search


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
