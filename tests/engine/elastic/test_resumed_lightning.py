"""A script of Lightning's Trainer that is resumed on real ranks is the one never interrupted."""

from __future__ import annotations

import json
import time
from collections import Counter

import pytest

from tests.engine.elastic.test_resumed_trainer import (
    PROGRAM,
    SECONDS,
    Train,
    attempts,
    once,
    train,
    visits,
)
from tests.engine.trainings import Found

torch = pytest.importorskip("torch", reason="torch is an extra that the tests do without")
pytest.importorskip("lightning", reason="lightning is no requirement")
pytestmark = [pytest.mark.mpi, pytest.mark.torch, pytest.mark.timeout(400)]
__all__ = ["train"]

WEEKLY = pytest.mark.weekly
KIND = {"kind": "lightning_script"}


def assert_same(found: Found, whole: Found, rel: float = 1e-5) -> None:
    """Assert that a fit ended with the numbers of the one that was never interrupted."""
    for name in ("losses", "rates", "means", "evaluated", "score", "after"):
        assert found[0][name] == pytest.approx(whole[0][name], rel=rel), name
    assert found[0]["best"] == whole[0]["best"]
    assert found[0]["weights"] == pytest.approx(whole[0]["weights"], rel=rel, abs=1e-6)


@WEEKLY
@pytest.mark.parametrize("stop", [1, 6, 7])
def test_it_is_the_same_fit_on_as_many_ranks(train: Train, stop) -> None:
    """It stops in its first step, at the end of an epoch, and in the middle of one."""
    options = {"dropout": 0.3, "noise": 0.1, **KIND}
    whole = train(2, "whole", **options)

    *_, second = attempts(train, [2, 2], [stop], **options)

    assert second[0]["losses"] == whole[0]["losses"]
    assert [one["last"] for one in second] == [one["last"] for one in whole]
    assert second[0]["counted"] == whole[0]["counted"]
    assert_same(second, whole, rel=1e-12)


def test_the_numbers_are_the_same_on_changing_ranks(train: Train, tmp_path) -> None:
    whole = train(2, "whole", saves=False, **KIND)  # as Lightning trains without us

    *_, one = attempts(train, [2, 1, 2], [4, 3], **KIND)

    assert_same(one, whole)
    assert visits(tmp_path / "run", 6) == once(2)


SIZES, STOPS = [2, 4, 3, 1, 4], [4, 3, 5, 3]


@WEEKLY
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_fit_converges_alike_on_two_four_three_one_and_four_ranks(
    train: Train, tmp_path, seed
) -> None:
    given = {"epochs": 3, "seed": seed, **KIND}
    whole = train(2, "whole", saves=False, **given)

    *_, last = attempts(train, SIZES, STOPS, **given)

    ends = [[*one[0]["evaluated"].values()][-1] for one in (whole, last)]
    losses = [one[0]["losses"] for one in (whole, last)]
    worst = max(abs(losses[1][step] / one - 1) for step, one in losses[0].items())
    print(f"seed {seed}: {ends[0]:.9f} undisturbed, {ends[1]:.9f} on changing ranks")
    print(f"{len(losses[1])} updates, whose losses differ by {worst:.1e} at most")
    assert_same(last, whole)
    assert visits(tmp_path / "run", 6) == once(3)


@WEEKLY
@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("trainer_script", {"save_strategy": "epoch"}),
        ("lightning_script", {}),
        ("accelerate_script", {}),
    ],
)
def test_a_resume_of_the_librarys_own_visits_examples_otherwise(
    train: Train, tmp_path, kind, arguments
) -> None:
    """It prints a column of a table in ``docs/pytorch.md``."""
    given = {"kind": kind, "arguments": arguments, "epochs": 3}
    whole = train(2, "whole", saves=False, **given)

    for attempt, (size, stop) in enumerate(zip(SIZES, [*STOPS, None], strict=True), 1):
        last = train(size, stop=stop, attempt=attempt, own=True, **given)

    wanted, found = (visits(tmp_path / one, 1) for one in ("whole", "run"))
    often = Counter(sum(found.values(), Counter()).values())
    first = next(step for step in wanted if found.get(step) != wanted[step])
    print(f"{kind}: examples by how often they were visited: {sorted(often.items())}")
    print(f"{len(found)} updates, others from update {first + 1}; it {last[0]['ended']}")
    for name in ("evaluated", "train_loss"):
        print(f"{name}: {last[0].get(name)}, undisturbed {whole[0].get(name)}")
    assert often != {3: 48}


KILLS = {
    "in a validation": [0, "evaluate", 6],
    "in a checkpoint": [0, "save", 6],
    "in its last step": [1, "train", 11],
    "at its end": [0, "end", 12],
}
EARLY = {"epochs": 3, "patience": [1e9, 1]}  # it ends after two of them


@WEEKLY
@pytest.mark.parametrize(
    ("kill", "options"),
    [*((one, {}) for one in KILLS.values()), (KILLS["at its end"], EARLY)],
    ids=[*KILLS, "at its early end"],
)
def test_a_rank_that_is_killed_costs_the_step(
    train: Train, start_ranks, tmp_path, kill, options
) -> None:
    given = {**options, **KIND}
    whole = train(2, "whole", saves=False, **given)
    (place := tmp_path / "run").mkdir()

    lost = start_ranks(
        PROGRAM, 2, json.dumps({"folder": str(place), "every": 1, "kill": kill, **given})
    )
    deadline = time.monotonic() + SECONDS
    while not (place / "killed").exists():
        assert time.monotonic() < deadline, lost.said
        time.sleep(0.05)
    lost.close()
    (one,) = train(1, attempt=2, resume=True, **given)

    assert one["resumed"][0] in (kill[2] - 1, kill[2])
    one["best"] = one["best"].replace("-v1", "")
    assert_same([one], whole)
    assert visits(place, 6) == once(2)


HISTORIES = {
    "accumulated gradients": {"accumulate": 3, "batch": 2, "val_check_interval": 3},
    "processes that read": {"workers": 2},
    "a last batch that is smaller": {"examples": 50},
    "validations within an epoch": {"val_check_interval": 0.34},
    "a part of each epoch": {"limit_train_batches": 5},
    "a number of steps": {"max_steps": 9, "max_epochs": -1},
    "a stream": {"streams": True, "examples": 50},
    "accumulated gradients of a stream": {"streams": True, "accumulate": 3, "batch": 2},
    "a part of each epoch of a stream": {"streams": True, "limit_train_batches": 5},
    "some batches of a validation": {"limit_val_batches": 3},
    "a part of a validation": {"limit_val_batches": 0.4},
    "overfitted batches": {"overfit_batches": 2, "epochs": 5},
    "clipped gradients": {"gradient_clip_val": 0.5},
    "a limit of time": {"max_time": "00:01:00:00"},
    "loggers": {"logger": True, "log_every_n_steps": 1},
    "a data module": {"ways": ["data module"]},
    "a compiled module": {"ways": ["compiled"]},
    "its last checkpoint": {"ways": ["last"]},
    "two fits": {"ways": ["two fits"], "stops": [14, 4]},
    "half precision": {"precision": "bf16-mixed", "rel": 0.02},
    "a rate that follows validations": {"ways": ["plateau"], "epochs": 3},
    "a metric of its own": {"ways": ["metric"], "stops": [2, 6]},
}


@WEEKLY
@pytest.mark.parametrize("options", HISTORIES.values(), ids=HISTORIES)
def test_the_numbers_are_the_same_with(train: Train, options) -> None:
    own = {"accumulate", "batch", "workers", "examples", "streams", "epochs", "ways"}
    given = {name: value for name, value in options.items() if name in own}
    ours = own | {"stops", "rel"}
    given["arguments"] = {name: one for name, one in options.items() if name not in ours}
    # Without us, each rank would train on all of a stream.
    whole = train(2, "whole", saves="streams" in options, **given, **KIND)

    *_, one = attempts(train, [2, 1, 2], options.get("stops", [3, 4]), **given, **KIND)

    assert_same(one, whole, rel=options.get("rel", 1e-5))
    assert {rank["said"] for rank in one} == {""}


UNSAVED = {
    "it optimizes by hand (automatic_optimization = False)": {"ways": ["by hand"]},
    "its data is no DataLoader": {"ways": ["two loaders"]},
    "its StochasticWeightAveraging replaces the scheduler": {"ways": ["stochastic averages"]},
    "its data is loaded again after some epochs (reload_dataloaders_every_n_epochs)": {
        "arguments": {"reload_dataloaders_every_n_epochs": 1}
    },
    "each rank trains on all of its data (use_distributed_sampler=False)": {
        "arguments": {"use_distributed_sampler": False}
    },
}


@WEEKLY
@pytest.mark.parametrize("why", UNSAVED)
def test_what_cannot_be_saved_is_named_before_it_trains_as_without_us(train: Train, why) -> None:
    whole = train(2, "whole", saves=False, **UNSAVED[why], **KIND)

    found = train(2, **UNSAVED[why], **KIND)

    said = f"workbench: this training is not saved, because {why}."
    assert [one["said"] for one in found] == [said, ""]
    assert [one["snapshots"] for one in found] == [[], []]
    assert found[0]["losses"] == whole[0]["losses"]
    assert_same(found, whole, rel=1e-12)


@WEEKLY
def test_a_script_that_restarts_saves_a_checkpoint_of_its_own_before_it_leaves(
    train: Train, tmp_path
) -> None:
    whole = train(2, "whole", saves=False, **KIND)

    first = train(2, stop=4, own=True, **KIND)
    second = train(2, attempt=2, loads=True, **KIND)

    assert {one["ended"] for one in first} == {"stopped"}
    later = {step: one for step, one in whole[0]["losses"].items() if int(step) > 4}
    assert second[0]["losses"] == pytest.approx(later, rel=1e-5)
    assert second[0]["weights"] == pytest.approx(whole[0]["weights"], rel=1e-5, abs=1e-6)
    assert visits(tmp_path / "run", 6) == once(2)


@WEEKLY
def test_a_checkpoint_of_another_number_of_ranks_is_named_before_training(train: Train) -> None:
    train(2, stop=4, own=True, **KIND)

    (found,) = train(1, attempt=2, own=True, **KIND)

    assert "last.ckpt was saved on 2 ranks and is loaded on 1." in found["said"]
