"""Gradients of PyTorch's models are averaged in place, and errors name the gradient."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is an extra that the tests do without")

pytestmark = [pytest.mark.mpi, pytest.mark.torch]

GRADIENTS = Path(__file__).parent / "programs" / "torch_gradients.py"


@pytest.mark.parametrize("size", [1, 2])
def test_gradients_of_torch_become_their_means_in_place(on_shared_ranks, size) -> None:
    for mine in on_shared_ranks(GRADIENTS, size):
        assert [what for what, right in mine["right"].items() if not right] == []


def test_what_is_wrong_with_torchs_gradients_is_said_with_rank_and_parameter(
    on_shared_ranks,
) -> None:
    all_found = on_shared_ranks(GRADIENTS, 2)

    for mine in all_found:
        errors = mine["errors"]
        assert errors == all_found[0]["errors"]
        assert "Rank 1 has no gradient for 5.weight" in errors["missing"]
        assert "The gradient of 0.weight on rank 1 is not finite" in errors["nan"]
        assert "The gradient of parameter 2 on rank 1 is not finite" in errors["unnamed"]
        assert (
            "The gradient of 0.weight is bfloat16, which NumPy does not have" in errors["bfloat16"]
        )
        assert errors["after"] == "nothing"
