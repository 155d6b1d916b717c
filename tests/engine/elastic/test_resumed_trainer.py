"""A script of Hugging Face's Trainer that is resumed on real ranks is the one never interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.trainings import Found

pytest.importorskip("transformers", reason="transformers is no requirement")
pytestmark = [pytest.mark.mpi, pytest.mark.torch]

PROGRAM = Path(__file__).parent / "programs" / "library_training.py"
Train = Callable[..., Found]


@pytest.fixture
def train(on_shared_ranks, tmp_path) -> Train:
    """Train on some ranks with the program's options; what is saved is in one folder."""

    def train(size: int, folder: str = "run", **options: Any) -> Found:
        (place := tmp_path / folder).mkdir(exist_ok=True)
        return on_shared_ranks(PROGRAM, size, json.dumps({"folder": str(place), **options}))

    return train


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
