"""PyTorch's values are read as they were, their large tensors where the training has them."""

from __future__ import annotations

import io
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

import numpy as np  # noqa: E402  # after PyTorch was found

from workbench.engine.snapshot.saved_bytes import make_room, view  # noqa: E402  # likewise
from workbench.frameworks.torch.tensor_file import TENSORS  # noqa: E402  # likewise

LARGE = 100_000


class Own:
    """An object that PyTorch does not know."""

    number = 3


def written(values: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    TENSORS.write(values, file)
    return file.getvalue()


def read(content: bytes, places: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a file whose bytes come into present tensors where they fit."""
    room = make_room(len(content), TENSORS.find_spots(view(content)), TENSORS.find_places(places))
    given = memoryview(content)
    for message in room.messages():
        message[:] = np.frombuffer(given[: len(message)], "u1")
        given = given[len(message) :]
    return TENSORS.read(room)


def test_large_tensors_come_into_those_that_are_there() -> None:
    values = {
        "model": {"first": torch.rand(2, LARGE), "half": torch.rand(LARGE).bfloat16()},
        "optimizer": {"state": {0: {"mean": torch.rand(LARGE), "step": torch.tensor(4.0)}}},
        "alone": torch.rand(LARGE).double(),
    }
    present = {
        "model": {
            "first": torch.nn.Parameter(torch.zeros(2, LARGE)),
            "half": torch.zeros(LARGE, dtype=torch.float16),
        },
        "optimizer": {"state": {}},
        "alone": torch.zeros(LARGE).double(),
    }

    found = read(written(values), present)

    assert found["optimizer"]["state"][0]["step"] == 4.0
    assert torch.equal(
        found["optimizer"]["state"][0]["mean"], values["optimizer"]["state"][0]["mean"]
    )
    assert torch.equal(present["model"]["first"], values["model"]["first"])
    assert torch.equal(present["alone"], values["alone"])
    assert found["alone"].is_set_to(present["alone"])  # so a copy of it costs nothing
    assert not present["model"]["half"].any()  # it is of another type
    assert torch.equal(found["model"]["half"], values["model"]["half"])


@pytest.mark.parametrize(
    "value",
    [
        torch.rand(LARGE, 2).T,
        torch.rand(2, LARGE)[:, ::2],
        torch.rand(LARGE, dtype=torch.complex64),
        torch.rand(LARGE).to_sparse(),
        torch.empty(0),
        torch.empty(LARGE, device="meta"),
        Own(),
        [torch.rand(LARGE), "text"],
    ],
    ids=["turned", "strided", "complex", "sparse", "empty", "divided", "an object", "a list"],
)
@pytest.mark.filterwarnings("ignore:Validating sparse tensor")
def test_other_values_are_read_too(value: Any) -> None:
    before = {"a": torch.rand(LARGE), "none": torch.empty(0), "value": value}

    found = read(written({"entry": before}), {"entry": {"value": torch.zeros(LARGE)}})["entry"]

    assert torch.equal(found["a"], before["a"])
    if isinstance(value, list):
        assert torch.equal(found["value"][0], value[0])
    elif isinstance(value, Own):
        assert found["value"].number == 3
    elif value.is_meta:
        assert (found["value"].is_meta, found["value"].shape) == (True, value.shape)
    else:
        assert torch.equal(found["value"].to_dense(), value.to_dense())


def test_tensors_that_share_their_memory_share_it_again() -> None:
    one = torch.rand(LARGE)

    found = read(written({"entry": {"one": one, "view": one[:5], "again": one}}), {})["entry"]

    found["one"][0] = 7.0
    assert (found["view"][0], found["again"][0]) == (7.0, 7.0)


def test_a_file_that_is_damaged_has_no_places() -> None:
    content = written({"entry": {"one": torch.rand(LARGE)}})

    assert TENSORS.find_spots(view(content[:-100])) == {}
    assert TENSORS.find_spots(view(b"no archive")) == {}
