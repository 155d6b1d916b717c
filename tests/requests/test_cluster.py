"""Invalid requests for a cluster fail before anything is started; valid ones are stored."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.requests.conftest import has_started
from workbench.core.cluster.model import ClusterFact, ClusterState, ClusterWish
from workbench.core.cluster.size import Size
from workbench.core.fleet.model import FleetWish
from workbench.core.run.model import RunKind
from workbench.core.run.run_options import RunOptions
from workbench.core.world.world import Host
from workbench.errors import InputError, StateError
from workbench.requests import cluster as requests_cluster
from workbench.requests import environment
from workbench.requests.cluster import (
    ask_cluster,
    ask_down,
    ask_size,
    check_data,
    check_output,
    check_places,
    local_gpus,
    local_hosts,
    local_slots,
    remove_cluster,
    usual_ranks,
)
from workbench.requests.run import ask_run

TOO_MANY = local_slots() + 1
CELL = {"kind": RunKind.CELL, "source": "pass"}

NODES = FleetWish(
    "hosts", nodes=2, hosts=(Host("10.0.0.4", 1), Host("10.0.0.10", 1), Host("10.0.0.11", 1))
)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"cluster": ""}, "'' cannot name a cluster"),
        ({"ranks": 0}, "ranks must be at least 1, not 0"),
        (
            {"ranks": TOO_MANY},
            f"ask for at most {local_slots()}, or let ranks share cores (--oversubscribe)",
        ),
    ],
)
def test_a_cluster_that_is_not_valid_is_not_wished_for(store, home, options, sentence) -> None:
    with pytest.raises(InputError) as refusal:
        ask_cluster(store, **options)

    assert sentence in str(refusal.value)
    assert store.clusters() == []
    assert not has_started(home)


def test_a_cluster_that_no_user_asked_for_is_not_taken_down(store, home) -> None:
    with pytest.raises(StateError) as refusal:
        ask_down(store)

    assert str(refusal.value) == "There is no cluster 'default'; nothing was deleted."
    assert not has_started(home)


def test_a_cluster_gets_all_slots_unless_set_otherwise(store, awake) -> None:
    wish = ask_cluster(store)

    assert (wish.up, wish.ranks) == (True, max(2, local_slots()))
    assert wish.oversubscribe == (local_slots() < 2)


def test_asking_for_the_observed_state_is_no_new_wish(store, awake) -> None:
    ask_cluster(store, 1)

    assert ask_cluster(store, 1).revision == 1
    assert ask_cluster(store).revision == 1


def test_asking_for_another_size_is_a_new_wish(store, awake) -> None:
    ask_cluster(store, 1)

    wish = ask_cluster(store, TOO_MANY, oversubscribe=True)

    assert (wish.ranks, wish.oversubscribe, wish.revision) == (TOO_MANY, True, 2)


def test_a_cluster_that_was_taken_down_comes_back_as_it_was(store, awake) -> None:
    ask_cluster(store, TOO_MANY, oversubscribe=True)
    ask_down(store)
    assert store.cluster_wish("default").up is False

    wish = ask_cluster(store)

    assert (wish.up, wish.ranks, wish.oversubscribe, wish.revision) == (True, TOO_MANY, True, 3)


def test_asking_again_for_a_cluster_that_gave_up_lets_it_try_again(store, awake) -> None:
    ask_cluster(store, 1)
    store.put_cluster_fact(ClusterFact("default", ClusterState.FAILED))

    assert ask_cluster(store, 1).revision == 2


@pytest.mark.parametrize(
    ("gpus", "has_cuda", "slots", "ranks"),
    [(0, True, 8, 8), (0, True, 1, 2), (4, True, 8, 4), (1, True, 8, 1), (4, False, 8, 8)],
)
def test_a_new_cluster_has_a_rank_for_each_gpu_or_else_for_each_core(
    monkeypatch, gpus, has_cuda, slots, ranks
) -> None:
    monkeypatch.setattr(requests_cluster, "local_gpus", lambda: gpus)
    monkeypatch.setattr(requests_cluster, "local_slots", lambda: slots)
    monkeypatch.setattr(environment, "has_cuda_here", lambda: has_cuda)

    assert usual_ranks() == ranks


@pytest.mark.parametrize(
    ("visible", "count"),
    [(None, 2), ("0", 1), ("1,0", 2), ("", 0), ("-1", 0), ("0,-1,1", 1), ("0,1,2,3", 2)],
)
def test_gpus_are_counted_that_cuda_may_use(monkeypatch, visible, count) -> None:
    devices = ["null", "nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"]
    monkeypatch.setattr(os, "listdir", lambda _: devices)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    assert local_gpus() == count


def test_this_machine_is_the_only_host() -> None:
    assert local_hosts() == (Host("localhost", local_slots()),)
    assert local_slots() == len(os.sched_getaffinity(0))


def test_a_deleted_cluster_is_taken_off_the_lists_with_its_setups(store, home) -> None:
    store.wish_cluster("default", up=False, ranks=1)
    store.put_setup("default", "cell", "1")

    remove_cluster(store)

    assert store.clusters() == []
    assert store.setups("default") == []


@pytest.mark.parametrize(("up", "state"), [(True, "ready"), (False, "stopping"), (True, "down")])
def test_a_cluster_that_is_not_deleted_is_not_removed(store, home, up, state) -> None:
    store.wish_cluster("default", up=up, ranks=1)
    store.put_cluster_fact(ClusterFact("default", ClusterState(state)))

    with pytest.raises(StateError, match="not deleted; delete it first"):
        remove_cluster(store)

    assert store.cluster_wish("default") is not None


def test_requests_import_neither_chainer_nor_an_engine() -> None:
    program = (
        "import sys, workbench.requests.run\n"
        "print(*{'chainer', 'mpi4py', 'ipyparallel', 'zmq'} & sys.modules.keys())"
    )

    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert answer.stdout.strip() == ""


def test_a_cluster_is_on_the_nodes_it_was_given(store, awake) -> None:
    wish = ask_cluster(store, fleet=NODES)

    assert (wish.ranks, wish.fleet) == (2, NODES)
    assert ask_cluster(store).fleet == NODES
    assert ask_size(store, Size(nodes=3)).ranks == 3
    assert (ask_size(store, Size(nodes=0)).ranks, ask_size(store, Size(nodes=0)).up) == (0, True)


def test_nodes_of_another_place_are_not_left_behind(store, awake) -> None:
    ask_cluster(store, fleet=NODES)

    with pytest.raises(StateError, match="'default' is on ssh hosts; delete it first"):
        ask_cluster(store, 2, fleet=FleetWish())


def test_this_machine_has_no_number_of_nodes(store, awake) -> None:
    ask_cluster(store, 1)

    with pytest.raises(InputError, match="runs on this machine alone"):
        ask_size(store, Size(nodes=2))


@pytest.mark.parametrize("place", ["hosts", "ec2", "rehearsal"])
@pytest.mark.parametrize(
    "ask",
    [lambda store: ask_run(store, **CELL), lambda store: ask_run(store, RunOptions(1), **CELL),
     ask_cluster, lambda store: ask_cluster(store, 1)],
)  # fmt: skip
def test_after_a_deletion_a_start_takes_this_machine(store, awake, place, ask) -> None:
    fleet = FleetWish(place, nodes=2, hosts=NODES.hosts, budget=3.0, expires=1.0)
    store.wish_cluster("default", up=False, ranks=0, oversubscribe=True, fleet=fleet)

    ask(store)

    wish = store.cluster_wish("default")
    assert (wish.up, wish.fleet) == (True, FleetWish())
    assert wish.ranks in (1, max(2, local_slots()))


def test_a_deleted_cluster_is_not_given_nodes_again_unasked(store, home) -> None:
    store.wish_cluster("default", up=False, ranks=0, fleet=FleetWish("ec2", nodes=2))

    with pytest.raises(StateError, match="'default' is deleted; start a new one"):
        ask_size(store, Size(nodes=1))

    assert not store.cluster_wish("default").up
    assert not has_started(home)


def test_a_deleted_cluster_is_started_with_nodes_that_were_agreed_to(store, awake) -> None:
    fleet = FleetWish("ec2", nodes=2)
    store.wish_cluster("default", up=False, ranks=0, fleet=fleet)

    assert ask_cluster(store, fleet=fleet).fleet == fleet


def test_set_up_cells_go_with_their_cluster(store, awake) -> None:
    ask_cluster(store, 1)
    store.put_setup("default", "network", "pass")
    store.put_setup("other", "network", "pass")

    ask_down(store)

    assert (store.setups("default"), store.setups("other")) == ([], [("network", "pass")])


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
