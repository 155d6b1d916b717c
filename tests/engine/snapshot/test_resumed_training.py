"""A training that is resumed from a snapshot is the training that was never interrupted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.mpi

PROGRAM = Path(__file__).parent / "programs" / "resumed_training.py"
Found = list[dict[str, Any]]
SIZES = pytest.mark.parametrize("size", [1, 2], ids="{} ranks".format)


@pytest.fixture
def train(on_shared_ranks, tmp_path) -> Callable[..., Found]:
    """Train on some ranks with the program's options; snapshots are in one folder."""

    def train(size: int, **options: Any) -> Found:
        folder = str(tmp_path / "snapshots")
        return on_shared_ranks(PROGRAM, size, json.dumps({"folder": folder, **options}))

    return train


def losses(*attempts: Found) -> dict[str, float]:
    """Return rank 0's losses by training and iteration, of several attempts together."""
    return {name: value for found in attempts for name, value in found[0]["losses"].items()}


EXACT: dict[str, dict[str, Any]] = {
    "adam": {},
    "momentum, with a rate that the code changes": {"optimizer": "momentum"},
    "random numbers": {"draws": True},
    "batch normalization": {"normalize": True},
    "threads": {"iterator": "multithread"},
    "in order": {"shuffle": False},
    "transformed data": {"transform": True},
    "scattered differently": {"scatter": "random"},
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
    if options.get("scatter") != "random":
        assert losses(first, second) == losses(whole)
    for mine, theirs in zip(second, whole, strict=True):
        assert mine["ended"] == "finished"
        if options.get("scatter") != "random":
            assert mine["weights"] == theirs["weights"]
            assert mine["persistent"] == theirs["persistent"]
            assert mine["after"] == theirs["after"]
        assert mine["iterations"] == theirs["iterations"]
        assert mine["lr"] == theirs["lr"]
        assert mine["log"] == theirs["log"]
        assert mine["boundaries"] == mine["iterations"][0] - stop
