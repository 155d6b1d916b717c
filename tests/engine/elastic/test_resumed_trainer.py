"""A script of Hugging Face's Trainer that is resumed on real ranks is the one never interrupted."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.trainings import Found

torch = pytest.importorskip("torch", reason="torch is an extra that the tests do without")
pytest.importorskip("transformers", reason="transformers is no requirement")
pytestmark = [pytest.mark.mpi, pytest.mark.torch, pytest.mark.timeout(400)]

SECONDS = 200
WEEKLY = pytest.mark.weekly
PROGRAM = Path(__file__).parent / "programs" / "library_training.py"
Train = Callable[..., Found]


@pytest.fixture
def train(on_shared_ranks, tmp_path) -> Train:
    """Train on some ranks with the program's options; what is saved is in one folder."""

    def train(size: int, folder: str = "run", **options: Any) -> Found:
        (place := tmp_path / folder).mkdir(exist_ok=True)
        return on_shared_ranks(PROGRAM, size, json.dumps({"folder": str(place), **options}))

    return train


def attempts(train: Train, sizes: list[int], stops: list[int], **options: Any) -> list[Found]:
    """Return attempts on sizes after one another; each but the last is stopped by its own count."""
    found = []
    for number, (size, stop) in enumerate(zip(sizes, [*stops, None], strict=True), 1):
        found.append(train(size, stop=stop, attempt=number, resume=number > 1, **options))
        assert {one["ended"] for one in found[-1]} == {"finished" if stop is None else "stopped"}
    return found


def visits(place: Path, updates: int) -> dict[int, Counter[int]]:
    """Return for each epoch how often each example was trained on; steps done again count once."""
    steps: dict[int, tuple[int, Counter[int]]] = {}
    for path in place.glob("visits-*"):
        attempt = int(path.name.split("-")[1])
        for line in path.read_text().splitlines():
            step, numbers = json.loads(line)
            if attempt > steps.get(step, (0, Counter()))[0]:
                steps[step] = attempt, Counter[int]()
            if attempt == steps[step][0]:
                steps[step][1].update(numbers)
    epochs: dict[int, Counter[int]] = {}
    for step, (_, numbers) in steps.items():
        epochs.setdefault(step // updates, Counter()).update(numbers)
    return epochs


def once(epochs: int, examples: int = 48) -> dict[int, Counter[int]]:
    return {epoch: Counter(range(examples)) for epoch in range(epochs)}


def assert_same(found: Found, whole: Found, rel: float = 1e-5) -> None:
    """Assert that a training ended with the numbers of the one that was never interrupted."""
    for name in ("losses", "evaluated", "rates"):
        assert found[0][name] == pytest.approx(whole[0][name], rel=rel), name
    for name in ("train_loss", "counted", "count", "error"):
        assert found[0][name] == pytest.approx(whole[0][name], rel=rel), name
    for name in ("weights", "average"):
        assert found[0][name] == pytest.approx(whole[0][name], rel=rel, abs=1e-6), name
    assert found[0]["last"][1] == pytest.approx(whole[0]["last"][1], rel=rel)


@pytest.mark.parametrize(
    "further", [{}, {"streams": True, "arguments": {"max_steps": 12, "eval_strategy": "no"}}]
)
@pytest.mark.parametrize("stop", [pytest.param(1, marks=WEEKLY), pytest.param(6, marks=WEEKLY), 7])
def test_it_is_the_same_training_on_as_many_ranks(train, stop, further) -> None:
    """It stops in its first step, at the end of an epoch, and in the middle of one."""
    options = {"dropout": 0.3, "noise": 0.1, **further}
    whole = train(2, "whole", saves="streams" in options, **options)

    *_, second = attempts(train, [2, 2], [stop], **options)

    assert second[0]["losses"] == whole[0]["losses"]
    assert [one["last"] for one in second] == [one["last"] for one in whole]
    assert_same(second, whole, rel=1e-12)
    assert second[0]["said"] == ""


def test_the_numbers_are_the_same_on_changing_ranks(train, tmp_path) -> None:
    whole = train(2, "whole", saves=False)

    *_, one = attempts(train, [2, 1, 2], [4, 3])

    assert_same(one, whole)
    assert visits(tmp_path / "run", 6) == once(2)


@WEEKLY
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_training_converges_alike_on_two_four_three_one_and_four_ranks(
    train, tmp_path, seed
) -> None:
    whole = train(2, "whole", saves=False, epochs=3, seed=seed)

    *_, last = attempts(train, [2, 4, 3, 1, 4], [4, 3, 5, 3], epochs=3, seed=seed)

    ends = [[*one[0]["evaluated"].values()][-1] for one in (whole, last)]
    print(f"seed {seed}: {ends[0]:.9f} undisturbed, {ends[1]:.9f} on changing ranks")
    assert_same(last, whole)
    assert visits(tmp_path / "run", 6) == once(3)


KILLS = {
    "in its first step": [1, "train", 2],  # of those before which there is a snapshot
    "in an evaluation": [0, "evaluate", 6],
    "in a checkpoint": [0, "save", 8],
    "in its last step": [1, "train", 11],
}


@WEEKLY
@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS)
def test_a_rank_that_is_killed_costs_the_step(train, start_ranks, tmp_path, kill) -> None:
    saves = {"arguments": {"save_strategy": "steps", "save_steps": 4}}
    whole = train(2, "whole", saves=False, **saves)
    (place := tmp_path / "run").mkdir()

    given = {"folder": str(place), "every": 1, "kill": kill, **saves}
    lost = start_ranks(PROGRAM, 2, json.dumps(given))
    deadline = time.monotonic() + SECONDS
    while not (place / "killed").exists():
        assert time.monotonic() < deadline, lost.said
        time.sleep(0.05)
    lost.close()
    (one,) = train(1, attempt=2, resume=True, **saves)

    # The other rank may not have written its newest one yet.
    assert one["resumed"][0] in (kill[2] - 1, kill[2])
    assert_same([one], whole)
    assert visits(place, 6) == once(2)


HISTORIES = {
    "accumulated gradients": {"accumulate": 3, "batch": 2},
    "processes that read": {"workers": 2},
    "a last batch that is smaller": {"examples": 50},
    "batches that are split": {"accelerator_config": {"split_batches": True}},
    "an order that follows no seed": {"accelerator_config": {"use_seedable_sampler": False}},
    "a sampler that divides the data": {"divides": True},
    "a number of items that the model ignores": {"items": "ignored", "accumulate": 2, "batch": 2},
    "ignored items, a smaller last batch": {"items": "ignored", "examples": 50},
    "a number of items that it divides by": {"items": "divided by", "examples": 50},
    "a number of steps": {"max_steps": 9, "eval_strategy": "no"},
    "processes that stay": {"workers": 1, "evaluated": 45, "dataloader_persistent_workers": True},
}


@WEEKLY
@pytest.mark.parametrize("options", HISTORIES.values(), ids=HISTORIES)
def test_the_numbers_are_the_same_with(train, options) -> None:
    own = {"accumulate", "batch", "workers", "examples", "evaluated", "divides", "items"}
    given = {name: value for name, value in options.items() if name in own}
    given["arguments"] = {name: one for name, one in options.items() if name not in own}
    whole = train(2, "whole", **given)

    *_, one = attempts(train, [2, 1, 2], [3, 4], **given)

    assert_same(one, whole)


EVALUATIONS = {
    "examples that are left over": {},
    "fewer examples than a batch": {"evaluated": 3},
    "a number of items that it divides by": {"items": "divided by"},
    "a number of items that it ignores": {"items": "ignored"},
    "a last batch that is left out": {"arguments": {"dataloader_drop_last": True}},
    "all that is gathered": {"ways": ["sequences"]},
}


@pytest.mark.parametrize(
    "sizes", [[2, 1, 3], *(pytest.param(few, marks=WEEKLY) for few in ([1, 2], [3, 2]))], ids=str
)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(given, id=name, marks=WEEKLY if given else ())
        for name, given in EVALUATIONS.items()
    ],
)
def test_an_evaluation_is_that_of_the_first_ranks_with(train, options, sizes) -> None:
    given = {"evaluated": 45, "batch": 8 // sizes[0], **options}
    whole = train(sizes[0], "whole", saves=False, **given)  # as the Trainer does without us

    *_, last = attempts(train, sizes, [4, 3][: len(sizes) - 1], **given)

    assert_same(last, whole)


STEPS = {"max_steps": 13, "eval_strategy": "no"}


def test_a_stream_is_the_same_on_changing_ranks(train, tmp_path) -> None:
    given = {"streams": True, "arguments": STEPS}
    whole = train(2, "whole", saves=False, **given)  # as the Trainer does without us

    *_, one = attempts(train, [2, 1], [4], **given)

    assert_same(one, whole)
    assert one[0]["said"] == ""
    assert {*visits(tmp_path / "run", 6)[0].values()} == {1}


STREAMS = {
    "accumulated gradients": ({"accumulate": 3, "batch": 2}, {}, 5),
    "each rank reads it": ({}, {"accelerator_config": {"dispatch_batches": False}}, 7),
    "split batches": ({"batch": 8}, {"accelerator_config": {"split_batches": True}}, 7),
}


@WEEKLY
@pytest.mark.parametrize(("options", "arguments", "updates"), STREAMS.values(), ids=STREAMS)
def test_a_stream_is_the_same_on_two_four_three_one_and_four_ranks(
    train, tmp_path, options, arguments, updates
) -> None:
    """Its last update in an epoch has one example."""
    given = {"streams": True, "examples": 49, **options, "arguments": {**STEPS, **arguments}}
    whole = train(2, "whole", **given)

    *_, last = attempts(train, [2, 4, 3, 1, 4], [3, 2, 4, 2], **given)

    assert_same(last, whole)
    (_, fills), *others = visits(tmp_path / "run", updates)[0].most_common()
    assert fills >= 1  # it is given to ranks whose parts of the last update are empty
    assert [count for _, count in others] == [1] * 48


UNSAVED = {
    "one rank reads the data of all": {
        "arguments": {"accelerator_config": {"dispatch_batches": True}}
    },
    "its data is read in other processes": {
        "arguments": {"max_steps": 6},
        "streams": True,
        "workers": 1,
    },
}


@WEEKLY
@pytest.mark.parametrize("why", UNSAVED)
def test_what_cannot_be_saved_is_named_before_training(train, why) -> None:
    first, _ = train(2, **UNSAVED[why])

    assert f"this training is not saved, because {why}" in first["said"]
    assert first["ended"] == "finished"
    assert first["snapshots"] == []


@pytest.mark.parametrize("kind", ["plain", pytest.param("sft", marks=WEEKLY)])
def test_adapters_alone_are_saved(train, tmp_path, kind) -> None:
    pytest.importorskip("trl" if kind == "sft" else "peft")
    options = {"kind": "adapter_script", "model": kind}
    whole = train(2, "whole", saves=False, **options)

    *_, one = attempts(train, [2, 1, 3], [4, 3], **options)

    assert one[0]["frozen"]
    for name in ("losses", "train_loss", "weights"):
        assert one[0][name] == pytest.approx(whole[0][name], rel=1e-4, abs=1e-5), name
    newest = max((tmp_path / "run").rglob("state.pt"), key=lambda path: path.stat().st_mtime)
    assert {"lora" in name for name in torch.load(newest)["model"]} == {True}


# An epoch has 13 batches, so that its last update has one.
ACCUMULATES = {"accumulate": 3, "batch": 2, "examples": 52}


@pytest.mark.parametrize(
    "options",
    [
        {},
        ACCUMULATES,
        *(
            pytest.param(one, marks=WEEKLY)
            for one in (
                {"splits": True, "batch": 12},
                {"workers": 1},
                {"streams": True},
                {"streams": True, **ACCUMULATES},
            )
        ),
    ],
)
def test_a_loop_of_accelerate_is_the_same_on_changing_ranks(train, tmp_path, options) -> None:
    given = {"kind": "accelerate_script", "examples": 46, **options}
    whole = train(2, "whole", **given)

    *_, one = attempts(train, [2, 1, 3], [4, 3], **given)

    for name in ("losses", "rate", "weights"):
        assert one[0][name] == pytest.approx(whole[0][name], rel=1e-5, abs=1e-6), name
    updates = len(whole[0]["losses"]) // 2
    assert visits(tmp_path / "run", updates) == once(2, given["examples"])


@pytest.mark.parametrize(
    "further",
    [
        ACCUMULATES,
        *(pytest.param(one, marks=WEEKLY) for one in ({}, {"workers": 1}, {"streams": True})),
    ],
)
@pytest.mark.parametrize("stop", [pytest.param(1, marks=WEEKLY), pytest.param(6, marks=WEEKLY), 7])
def test_a_loop_of_accelerate_is_the_same_on_as_many_ranks(train, stop, further) -> None:
    noise = 0.0 if "workers" in further else 0.1  # processes that read begin with another seed
    given = {"kind": "accelerate_script", "dropout": 0.3, "noise": noise, **further}
    whole = train(2, "whole", **given)

    *_, second = attempts(train, [2, 2], [stop], **given)

    for name in ("losses", "rate", "weights"):
        assert second[0][name] == whole[0][name], name


@WEEKLY
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_loop_of_accelerate_converges_alike_on_two_four_three_one_and_four_ranks(
    train, tmp_path, seed
) -> None:
    given = {"kind": "accelerate_script", "epochs": 3, "seed": seed}
    whole = train(2, "whole", own=True, **given)  # as accelerate trains without us

    *_, last = attempts(train, [2, 4, 3, 1, 4], [4, 3, 5, 3], **given)

    ends, losses = ([one[0][name] for one in (whole, last)] for name in ("evaluated", "losses"))
    worst = max(abs(losses[1][step] / one - 1) for step, one in losses[0].items())
    print(f"seed {seed}: {ends[0]:.9f} undisturbed, {ends[1]:.9f} on changing ranks")
    print(f"{len(losses[1])} updates, whose losses differ by {worst:.1e} at most")
    for name in ("losses", "rate", "weights", "evaluated"):
        assert last[0][name] == pytest.approx(whole[0][name], rel=1e-5, abs=1e-6), name
    assert visits(tmp_path / "run", 6) == once(3)


def test_a_script_that_restarts_saves_a_checkpoint_of_its_own_before_it_leaves(train) -> None:
    own = {"own": True, "arguments": {"save_strategy": "epoch"}}
    whole = train(2, "whole")

    first = train(2, stop=4, **own)
    second = train(2, attempt=2, **own)

    assert {one["ended"] for one in first} == {"stopped"}
    assert second[0]["losses"] == whole[0]["losses"]
    assert second[0]["said"] == ""


def test_a_checkpoint_of_another_number_of_ranks_is_named_before_training(train) -> None:
    own = {"own": True, "arguments": {"save_strategy": "epoch"}}
    train(2, stop=4, **own)

    (found,) = train(1, attempt=2, **own)

    assert "checkpoint-4 was saved on 2 ranks and is loaded on 1." in found["said"]
