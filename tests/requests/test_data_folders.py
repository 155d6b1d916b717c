"""The folders for data and output are validated before anything is started."""

from __future__ import annotations

import pytest

from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.model import FleetWish
from workbench.errors import InputError, StateError
from workbench.requests.cluster import check_data, check_output, check_places


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Give the name of a folder with a file in it, from the folder that we are in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "digits.npz").touch()
    return "data"


def wish(data: str, *, up: bool = True, provider: str = "hosts") -> ClusterWish:
    return ClusterWish("c", up=up, ranks=0, fleet=FleetWish(provider, data=data))


def test_a_folder_becomes_absolute_and_a_bucket_stays(data, tmp_path):
    assert check_data(data) == str(tmp_path / "data")
    assert check_output("results/deep") == str(tmp_path / "results" / "deep")
    assert check_data("s3://bucket/x") == check_output("s3://bucket/x") == "s3://bucket/x"


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("absent", "There is no data folder "),
        ("data/deep/digits.npz", "There is no data folder "),
        ("empty", "The data folder "),
        ("s3:bucket", "is not a place in S3"),
        ("gs://bucket", "is neither a folder nor a place in S3"),
    ],
)
def test_data_that_is_not_valid_is_refused(data, tmp_path, place, sentence):
    (tmp_path / "empty" / "folder").mkdir(parents=True)

    with pytest.raises(InputError, match=sentence):
        check_data(place)


def test_an_output_below_a_file_is_refused(data):
    with pytest.raises(InputError, match="cannot be written; give another"):
        check_output("data/deep/digits.npz/results")


def test_what_a_cluster_had_before_is_not_asked_for_again():
    fleet = FleetWish("hosts", data="/gone/since", output="/dev/null/x", nodes=2)
    before = ClusterWish("c", up=True, ranks=0, fleet=fleet)

    assert check_places(fleet, before) == fleet


def test_nodes_that_are_up_get_no_other_data(data, tmp_path):
    other = FleetWish("hosts", data=data)

    with pytest.raises(
        StateError, match=r"have the data of /else, not that of .*delete the cluster"
    ):
        check_places(other, wish("/else"))
    with pytest.raises(StateError, match="have no data, not that of"):
        check_places(other, wish(""))

    for before in (None, wish("/else", up=False), wish("", provider="local")):
        assert check_places(other, before).data == str(tmp_path / "data")
    assert check_places(FleetWish("hosts"), wish("/else")).data == ""
