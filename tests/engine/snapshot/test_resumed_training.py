"""A training that is resumed from a snapshot is the training that was never interrupted."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.engine.trainings import Found, losses, once, visits
from tests.waiting import until
from workbench.engine.snapshot.folder import SnapshotFolder

pytestmark = [pytest.mark.mpi, pytest.mark.contract]

PROGRAM = Path(__file__).parent / "programs" / "resumed_training.py"
EXAMPLES = 72
SIZES = pytest.mark.parametrize("size", [1, 2], ids="{} ranks".format)


def iterations(folder: Path) -> list[tuple[int, int, bool]]:
    """Return training and iteration of the snapshots that are kept, and whether it is final."""
    found = SnapshotFolder(folder, "260101-000000-arun").manifests()
    return sorted((one.training, one.iteration, one.final) for one in found)


EXACT: dict[str, dict[str, Any]] = {
    "adam": {},
    "a rate that the code changes": {"optimizer": "momentum"},
    "random numbers": {"draws": True},
    "batch normalization": {"normalize": True},
    "threads": {"iterator": "multithread"},
    "threads that have read ahead": {
        "iterator": "multithread",
        "until": [[24, "iteration"]],
        "examples": 36,
        "stop": 8,
    },
    "links that keep a state": {"recurrent": True},
    "generators of its own": {"own_draws": True},
    "in order": {"shuffle": False},
    "transformed data": {"transform": True},
    "parts of the user's own": {"scatter": "none"},
    "into the second epoch": {"until": [[24, "iteration"]], "stop": 20},
    "by epochs": {"until": [[2, "epoch"]]},
}


@SIZES
@pytest.mark.parametrize("options", EXACT.values(), ids=EXACT)
def test_it_is_the_same_training(train, size, options) -> None:
    stop = options.get("stop", 7)
    whole = train(size, **{**options, "stop": None, "folder": ""})

    first = train(size, **{**options, "stop": stop})
    second = train(size, **{**options, "stop": None, "attempt": 2, "resume": True})

    assert {one["ended"] for one in first} == {"stopped"}
    assert losses(first, second) == losses(whole)
    for mine, theirs in zip(second, whole, strict=True):
        assert mine["boundaries"] == mine["iterations"][0] - stop
        for name in ("ended", "weights", "persistent", "after", "iterations", "lr", "log"):
            assert mine[name] == theirs[name], name


def test_ranks_save_together_when_rank_0_is_asked_to_and_train_on(train) -> None:
    whole = train(2, folder="")

    asked = train(2, every=100, ask=8, fail=10)
    second = train(2, attempt=2, resume=True)

    assert asked[0]["snapshots"] == [5, 8]
    assert {**losses(asked), **losses(second)} == losses(whole)


def test_early_stopping_continues_to_count(train) -> None:
    options = {"early": True, "until": [[100, "iteration"]]}
    whole = train(1, **options, folder="")
    stop = whole[0]["iterations"][0] - 1

    first = train(1, **options, stop=stop)
    second = train(1, **options, attempt=2, resume=True)

    assert second[0]["iterations"] == whole[0]["iterations"] == [stop + 1]
    assert losses(first, second) == losses(whole)


@pytest.mark.parametrize(
    "options",
    [{"compress": "int8"}, {"compress": "topk"}, {"compress": "powersgd"}, {"double": True}],
    ids=["int8", "topk", "powersgd", "double buffering"],
)
def test_what_the_exchange_keeps_from_step_to_step_is_kept(train, options) -> None:
    options = {**options, "units": 128}
    whole = train(2, **{**options, "folder": ""})

    first = train(2, **{**options, "stop": 7})
    second = train(2, **{**options, "attempt": 2, "resume": True})

    assert losses(first, second) == losses(whole)
    assert [one["weights"] for one in second] == [one["weights"] for one in whole]


# -- other ranks

BATCHES = [[4, 4], [3, 3, 2], [8]]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scatter": "random"},
        {"shuffle": False, "transform": True},
        {"iterator": "multithread"},
        {"iterator": "multiprocess"},
    ],
    ids=["shuffled", "scattered differently", "in order", "threads", "processes"],
)
def test_each_example_is_visited_once_in_an_epoch_on_changing_ranks(train, options) -> None:
    two = train(2, **options, stop=3)
    three = train(3, **options, stop=2, attempt=2, resume=True)
    one = train(1, **options, until=[[2, "epoch"]], attempt=3, resume=True)

    assert [found[0]["ended"] for found in (two, three, one)] == ["stopped", "stopped", "finished"]
    assert visits(two, three, one) == once(2, EXAMPLES)
    assert [[rank["batch"] for rank in found] for found in (two, three, one)] == BATCHES
    assert one[0]["iterations"] == [2 * EXAMPLES // 8]
    assert [*losses(two, three, one)] == [f"0 {n}" for n in range(1, 19)]
    assert two[0]["said"] + three[0]["said"] + one[0]["said"] == ""


def counted(*attempts: Found) -> dict[int, Counter[int]]:
    """Return for each epoch that was reported how many examples were visited how often."""
    events = [one for found in attempts for one in found[0]["counted"]]
    assert not any(apart for *_, apart in events)
    return {epoch: Counter(dict(times)) for _, epoch, times, _, _, _ in events}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": False, "transform": True},
        {"iterator": "multithread"},
        {"iterator": "multiprocess"},
        {"iterator": "ahead"},
        {"batches": "per-rank"},
    ],
    ids=["shuffled", "in order", "threads", "processes", "read ahead", "own batch"],
)
def test_the_visits_of_an_epoch_are_counted_over_ranks_and_attempts(train, options) -> None:
    two = train(2, **options, stop=3)
    lost = train(2, **options, fail=10, attempt=2, resume=True)
    three = train(3, **options, stop=2, attempt=3, resume=True)
    one = train(1, **options, until=[[2, "epoch"]], attempt=4, resume=True)

    done = [{**rank, "visited": rank["visited"][:5]} for rank in lost]  # up to its snapshot
    assert lost[0]["snapshots"] == [8]
    found = counted(two, lost, three, one)
    recorded = visits(two, done, three, one)
    assert found == {n: Counter(recorded[n][one] for one in range(EXAMPLES)) for n in (0, 1)}


def test_visits_are_counted_where_batches_reach_over_the_end_of_an_epoch(train) -> None:
    two = train(2, examples=71, stop=10)
    three = train(3, examples=71, until=[[3, "epoch"]], attempt=2, resume=True)

    found = counted(two, three)
    assert found == {0: Counter({1: 70, 2: 1}), 1: Counter({1: 71}), 2: Counter({1: 71})}


@pytest.mark.parametrize(
    ("options", "size", "times"),
    [
        ({"scatter": "each"}, 2, {2: 72}),
        ({"scatter": "split"}, 1, {1: 36}),
        ({"scatter": "split"}, 3, {1: 36}),
        ({"iterator": "own sampler", "batch": 7}, 1, {1: 72}),
        ({"batch": 100}, 1, {1: 72}),
        ({"batch": 200}, 1, None),
    ],
    ids=[
        "all on each rank",
        "a part of the data",
        "on three ranks",
        "another order",
        "two epochs at once",
        "more",
    ],
)
def test_visits_are_those_of_the_examples_that_the_ranks_have(train, options, size, times) -> None:
    found = counted(train(size, **options, until=[[2, "epoch"]]))
    assert found == ({0: Counter(times), 1: Counter(times)} if times else {})


def test_each_rank_counts_its_own_where_its_data_is_not_known_to_be_a_part(train) -> None:
    options = {"scatter": "none", "until": [[2, "epoch"]]}
    first = train(2, **options, stop=12)
    second = train(2, **options, attempt=2, resume=True)

    found = [*first[0]["counted"], *second[0]["counted"]]
    assert {(epoch, str(times)) for _, epoch, times, *_ in found} == {
        (0, "[[1, 72]]"), (1, "[[1, 72]]")
    }  # fmt: skip
    assert all(apart for *_, apart in found)


def test_nothing_is_counted_of_an_iterator_of_the_users_own(train) -> None:
    assert train(2, iterator="sequential", until=[[2, "epoch"]])[0]["counted"] == []


def test_each_example_is_visited_once_where_a_rank_keeps_its_batch(train) -> None:
    options = {"batches": "per-rank"}
    two = train(2, **options, stop=3)
    three = train(3, **options, stop=2, attempt=2, resume=True)
    one = train(1, **options, until=[[2, "epoch"]], attempt=3, resume=True)

    assert visits(two, three, one) == once(2, EXAMPLES)
    assert one[0]["iterations"] == [3 + 2 + 6 + 18]
    assert {rank["batch"] for found in (two, three, one) for rank in found} == {4}


@pytest.mark.parametrize(
    "options",
    [
        {"clip": True},
        {"overlap": True, "units": 64},
        {"double": True},
        pytest.param({"updater": "own"}, marks=pytest.mark.weekly),
        {"updater": "two names"},
        {"iterator": "multithread", "examples": 30, "until": [[14, "iteration"]]},
        pytest.param({"divides": True, "batch": 8}, marks=pytest.mark.weekly),
    ],
    ids=[
        "ChainerMN's",
        "overlapped",
        "double buffering",
        "a custom updater",
        "one optimizer by two names",
        "batches of two epochs",
        "divided by the code",
    ],
)
def test_a_training_is_the_same_on_any_ranks_that_it_moves_to(train, snapshots, options) -> None:
    train(2, **options, stop=3)
    moved = {size: snapshots.with_name(f"on {size} ranks") for size in (3, 1)}
    for folder in moved.values():
        shutil.copytree(snapshots, folder)

    three, one = (
        train(size, **options, attempt=2, resume=True, folder=str(folder))
        for size, folder in moved.items()
    )

    assert three[0]["parameters"] == three[2]["parameters"]
    assert three[0]["parameters"] == pytest.approx(one[0]["parameters"], rel=1e-4, abs=1e-5)
    assert [rank["batch"] for rank in three] == BATCHES[1]
    assert three[0]["iterations"] == one[0]["iterations"]


@pytest.mark.parametrize("shift", ["", "scaling"], ids=["by the code", "by LinearScaling"])
def test_a_rate_for_the_batch_of_all_ranks_stays_with_it(train, shift) -> None:
    options = {"optimizer": "momentum", "scaled": not shift, "shift": shift}
    whole = train(2, **options, folder="")

    train(2, **options, stop=5)
    found = train(3, **options, attempt=2, resume=True)

    assert found[0]["rates"] == {name: whole[0]["rates"][name] for name in found[0]["rates"]}
    assert len({*whole[0]["rates"].values()}) > 1


@pytest.mark.parametrize("scaled", [False, True], ids=["constant", "scaled by the code"])
def test_the_rate_rises_with_the_batch_where_a_rank_keeps_its_own(train, scaled) -> None:
    options = {"batches": "per-rank", "optimizer": "momentum", "scaled": scaled}
    options |= {"until": [[40, "iteration"]], "examples": 36, "shift": "none"}
    two = train(2, **options, stop=5)
    rate = two[0]["rates"]["5"]

    four = train(4, **options, stop=8, attempt=2, resume=True)
    again = train(4, **options, attempt=3, resume=True)

    rates = [*(four[0]["rates"] | again[0]["rates"]).values()]
    rise = round(5 * 36 / 16)  # five epochs in batches of all ranks
    assert rates[:rise] == pytest.approx([rate * (1 + n / rise) for n in range(1, 1 + rise)])
    assert rates[rise:] == pytest.approx([2 * rate] * (35 - rise))
    assert "16 examples in a step, and had 8; lr becomes 2 times as large in 11" in four[0]["said"]
    assert again[0]["said"] == ""


def test_the_rate_falls_at_once_with_the_batch(train) -> None:
    options = {"batches": "per-rank", "optimizer": "momentum", "shift": "none"}
    two = train(2, **options, stop=5)

    one = train(1, **options, attempt=2, resume=True)

    assert one[0]["rates"]["6"] == pytest.approx(two[0]["rates"]["5"] / 2)
    assert {*one[0]["rates"].values()} == {one[0]["rates"]["6"]}
    assert "lr becomes 0.5 times as large at once" in one[0]["said"]


@pytest.mark.parametrize(
    ("options", "batches"),
    [
        ({}, [[4], [4, 4, 4], [6, 6]]),
        ({"divides": True, "batch": 6}, [[6], [2, 2, 2], [3, 3]]),
        ({"batches": "global"}, [[4], [2, 1, 1], [2, 2]]),
    ],
    ids=["for each rank", "divided by the code", "that of the first ranks"],
)
def test_a_training_that_began_early_grows_until_it_has_the_ranks_that_were_asked_for(
    train, options, batches
) -> None:
    options = {"wanted": 3, "optimizer": "momentum", "shift": "none", **options}
    one = train(1, **options, stop=3)
    three = train(3, **options, stop=2, attempt=2, resume=True)
    two = train(2, **options, until=[[2, "epoch"]], attempt=3, resume=True)

    assert [[rank["batch"] for rank in found] for found in (one, three, two)] == batches
    assert visits(one, three, two) == once(2, EXAMPLES)
    grown = "all ranks have 12 examples in a step, and had 4; lr becomes 3 times as large"
    assert (grown in three[0]["said"]) == (batches[1] == [4, 4, 4])
    assert two[0]["said"] == ""


@pytest.mark.parametrize(
    ("shift", "batches"),
    [
        ("exponential", "global"),
        ("exponential", "per-rank"),
        ("warmup", "global"),
        pytest.param("warmup", "per-rank", marks=pytest.mark.weekly),
    ],
)
def test_a_rate_that_an_extension_sets_is_left_to_it(train, shift, batches) -> None:
    options = {"optimizer": "momentum", "shift": shift, "batches": batches}
    whole = train(2, **options, folder="")

    train(2, **options, stop=5)
    found = train(3, **options, attempt=2, resume=True)

    assert found[0]["rates"] == {
        name: pytest.approx(whole[0]["rates"][name]) for name in found[0]["rates"]
    }
    assert ("Shift sets the learning rate" in found[0]["said"]) == (batches == "per-rank")


def test_checkpoints_of_other_ranks_are_left_to_the_snapshot(train, tmp_path) -> None:
    options = {"checkpoints": str(tmp_path / "checkpoints")}
    first = train(3, **options, stop=5)
    second = train(2, **options, attempt=2, resume=True)

    assert first[0]["ended"] == "stopped"
    assert (second[0]["ended"], second[0]["iterations"]) == ("finished", [12])
    assert [*second[0]["losses"]] == [f"0 {n}" for n in range(6, 13)]


def test_what_each_rank_has_for_itself_goes_to_other_ranks(train) -> None:
    options = {"normalize": True, "evaluates": True, "until": [[2, "epoch"]]}
    two = train(2, **options, stop=11)
    three = train(3, **options, stop=0, attempt=2, resume=True)

    # The running means of batch normalization; a rank that is new has those of the first.
    before = [rank["persistent"] for rank in two]
    assert before[0] != before[1]
    assert [rank["persistent"] for rank in three] == [*before, before[0]]

    last = train(3, **options, attempt=3, resume=True)
    assert last[0]["iterations"] == [18]
    assert last[0]["log"] == [*range(2, 19, 2)]
    assert len({rank["validation"] for rank in last}) == 1
    assert last[0]["validation"] > 0


def test_a_batch_that_the_code_changes_is_the_new_one(train) -> None:
    train(2, stop=3)

    found = train(3, batch=6, attempt=2, resume=True)

    assert [rank["batch"] for rank in found] == [6, 6, 6]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"iterator": "own sampler"}, "order sampler of its own"),
        ({"iterator": "own"}, "not all iterators of its updater are Chainer's own"),
        ({"scatter": "none"}, "the data is not divided by chainermn.scatter_dataset"),
    ],
    ids=["a sampler", "an iterator", "parts of the user's own"],
)
def test_a_batch_that_cannot_be_divided_stays_that_of_a_rank(train, options, why) -> None:
    train(2, **options, stop=3)

    found = train(3, **options, attempt=2, resume=True)

    assert found[0]["iterations"] == [12]
    assert [rank["batch"] for rank in found] == [4, 4, 4]
    assert "each rank keeps its batch" in found[0]["said"]
    assert why in found[0]["said"]


def test_what_begins_again_on_other_ranks_or_in_other_processes_is_said(train) -> None:
    options = {"recurrent": True, "own_draws": True, "iterator": "multiprocess"}
    train(2, **options, stop=3)
    found = train(1, **options, attempt=2, resume=True)

    assert "hidden states of recurrent links begin again on other ranks" in found[0]["said"]
    assert "draws in other processes" in found[0]["said"]


def test_an_iterator_that_cannot_be_divided_says_what_becomes_of_its_epoch(train) -> None:
    first = train(2, iterator="sequential", stop=3)
    second = train(3, iterator="sequential", attempt=2, resume=True)

    assert first[0]["undivided"] == ["SequentialIterator"]
    assert "epoch 0.33 → 0.50" in second[0]["said"]
    assert "on 3 ranks than on 2" in second[0]["said"]


def test_each_example_is_visited_once_if_it_was_scattered_differently(train) -> None:
    first = train(2, scatter="random", stop=3)
    second = train(2, scatter="random", until=[[2, "epoch"]], attempt=2, resume=True)

    assert visits(first, second) == once(2, EXAMPLES)


def test_parts_that_we_cannot_divide_are_reported(train) -> None:
    first = train(2, scatter="none", stop=3)
    second = train(1, scatter="none", attempt=2, resume=True)

    assert first[0]["ended"] == "stopped"
    assert second[0]["iterations"] == [12]
    assert "not divided by chainermn.scatter_dataset" in second[0]["said"]


def test_one_node_of_several_suffices(train, snapshots) -> None:
    options = {"nodes": True, "folder": str(snapshots / "{rank}"), "normalize": True}
    whole = train(2, **{**options, "folder": ""})
    first = train(2, **options, stop=7)
    for rank in range(2):
        assert iterations(snapshots / str(rank)) == [(1, 5, False), (1, 7, False)]

    shutil.rmtree(snapshots / "0")
    second = train(2, **options, attempt=2, resume=True)

    assert losses(first, second) == losses(whole)
    assert [one["persistent"] for one in second] == [one["persistent"] for one in whole]


def test_nodes_may_share_their_folder(train, snapshots) -> None:
    first = train(2, nodes=True, stop=7)

    assert first[0]["snapshots"] == [5, 7]
    assert iterations(snapshots) == [(1, 5, False), (1, 7, False)]
    assert first[0]["said"] + first[1]["said"] == ""


def test_a_training_that_moves_and_is_killed_stays_on_its_curve(
    train, start_ranks, snapshots
) -> None:
    options = {"until": [[4, "epoch"]], "clip": True, "double": True}
    two = train(2, **options, stop=3)
    other = snapshots.with_name("undisturbed")
    shutil.copytree(snapshots, other)
    whole = train(1, **options, attempt=2, resume=True, folder=str(other))

    four = train(4, **options, stop=5, attempt=2, resume=True)  # as at an interruption notice
    killed = {**options, "folder": str(snapshots), "attempt": 3, "resume": True, "kill": [1, 17]}
    world = start_ranks(PROGRAM, 3, json.dumps(killed))
    until((world.folder / "killed").exists, said=lambda: world.said)
    world.close()
    one = train(1, **options, stop=4, attempt=4, resume=True)
    last = train(4, **options, attempt=5, resume=True)

    kept = int(next(iter(one[0]["losses"])).split()[1]) - 1 - 8
    three = [
        {"visited": json.loads((world.folder / f"visited-{rank}.json").read_text())[:kept]}
        for rank in range(3)
    ]
    assert 0 < kept < 17 - 8
    assert visits(two, four, three, one, last) == once(4, EXAMPLES)
    assert [*losses(two, four, one, last)][-1] == [*losses(whole)][-1] == "0 36"
    assert last[0]["parameters"] == last[3]["parameters"]
    assert last[0]["parameters"] == pytest.approx(whole[0]["parameters"], rel=1e-3, abs=1e-5)


# -- interruptions


@SIZES
def test_a_failed_run_resumes_from_its_newest_snapshot(train, snapshots, size) -> None:
    whole = train(size, folder="")

    first = train(size, fail=10)
    second = train(size, attempt=2, resume=True)

    assert first[0]["ended"] == "the training fails here"
    assert first[0]["snapshots"] == [5, 8]
    assert [*second[0]["losses"]] == [f"0 {n}" for n in range(9, 13)]
    assert losses(first, second) == losses(whole)
    assert iterations(snapshots) == [(1, 8, False), (1, 12, True)]


def test_a_killed_rank_costs_the_steps_since_the_newest_snapshot(
    train, start_ranks, snapshots
) -> None:
    whole = train(2, folder="")

    world = start_ranks(PROGRAM, 2, json.dumps({"folder": str(snapshots), "kill": [1, 10]}))
    until((world.folder / "killed").exists, said=lambda: world.said)
    world.close()  # with its node, the other rank is lost or not
    second = train(2, attempt=2, resume=True)

    assert {**losses(whole), **losses(second)} == losses(whole)
    assert [*second[0]["losses"]] == [f"0 {n}" for n in range(9, 13)]


def test_a_rank_that_waits_for_the_others_to_save_is_freed(train, ulfm, snapshots) -> None:
    whole = train(2, folder="")

    ended = [one["ended"] for one in train(2, revoke=True)]
    again = train(2, attempt=2)

    assert ended == ["revoked", "rank 1 fails here"]
    assert losses(again) == losses(whole)
    assert again[0]["snapshots"] == [5, 8, 11, 12]


def test_a_damaged_snapshot_is_passed_over(train, snapshots) -> None:
    whole = train(1, folder="")
    train(1, fail=10)
    newest = snapshots / "attempt-1-training-1-iteration-8" / "trainer.npz"
    newest.write_bytes(newest.read_bytes()[:-100])

    second = train(1, attempt=2, resume=True)

    assert {**losses(whole), **losses(second)} == losses(whole)
    assert [*second[0]["losses"]] == [f"0 {n}" for n in range(6, 13)]
    assert second[0]["said"].count("trainer.npz has ") == 1


def test_a_full_disk_does_not_end_the_training(train, snapshots) -> None:
    found = train(2, limit=2_000)

    assert found[0]["iterations"] == [12]
    assert found[0]["snapshots"] == []
    assert found[0]["said"].count("could not be written") == 1
    assert [path for path in snapshots.iterdir() if path.is_dir()] == []


# -- several trainings, and trainings that have ended


@SIZES
def test_a_run_resumes_in_its_second_training(train, snapshots, size) -> None:
    options = {"until": [[12, "iteration"], [9, "iteration"]]}
    whole = train(size, **options, folder="")

    first = train(size, **options, stop=18)
    second = train(size, **options, attempt=2, resume=True)

    assert losses(first, second) == losses(whole)
    assert second[0]["iterations"] == [12, 9]
    assert second[0]["boundaries"] == 3
    assert second[0]["resumed"] == [[6, 2.0]]
    assert second[0]["after"] == whole[0]["after"]
    assert {(1, 12, True), (2, 9, True)} <= {*iterations(snapshots)}


@SIZES
def test_a_training_that_has_ended_is_not_repeated(train, size) -> None:
    first = train(size)
    second = train(size, attempt=2, resume=True)

    assert second[0]["boundaries"] == 0
    for name in ("iterations", "weights", "log", "after"):
        assert second[0][name] == first[0][name], name


@SIZES
@pytest.mark.parametrize("unit", ["iteration", "epoch"])
def test_a_longer_training_continues_where_the_shorter_one_ended(train, size, unit) -> None:
    short, long = (12, 18) if unit == "iteration" else (1, 2)
    whole = train(size, until=[[long, unit]], folder="")

    first = train(size, until=[[short, unit]])
    second = train(size, until=[[long, unit]], attempt=2, resume=True)

    assert losses(first, second) == losses(whole)
    assert second[0]["weights"] == whole[0]["weights"]


def test_a_training_that_ended_early_has_ended(train) -> None:
    first = train(1, early=True, until=[[100, "iteration"]])
    second = train(1, early=True, until=[[200, "iteration"]], attempt=2, resume=True)

    assert first[0]["iterations"][0] < 100
    assert second[0]["iterations"] == first[0]["iterations"]


def test_the_newest_snapshots_and_the_final_one_are_kept(train, snapshots) -> None:
    train(1, until=[[8, "iteration"], [12, "iteration"]], every=2)

    assert iterations(snapshots) == [(1, 8, True), (2, 11, False), (2, 12, True)]


# -- what is not saved


def test_ranks_that_train_on_their_own_are_not_saved(train, snapshots) -> None:
    first = train(2, alone=True)
    second = train(2, alone=True, attempt=2, resume=True)

    assert not snapshots.exists()
    assert first[0]["iterations"] == [12]
    assert "is not ChainerMN's multi-node optimizer" in second[0]["ended"]


def test_a_run_without_snapshots_cannot_be_resumed(train) -> None:
    for one in train(2, attempt=2, resume=True):
        assert one["ended"].startswith("No complete snapshot of this run is on its nodes")


def test_a_snapshot_of_another_model_is_refused(train) -> None:
    train(1, stop=7)

    (found,) = train(1, units=4, attempt=2, resume=True)

    assert "is not of this training" in found["ended"]
