"""One contract for all algorithms and codecs, against an exact reference on 1 to 4 ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.core.performance.exchange_model import Codec

pytestmark = [pytest.mark.mpi, pytest.mark.contract]

PROGRAMS = Path(__file__).parent / "programs"
EITHER = pytest.mark.either_mpi
SIZES = pytest.mark.parametrize(
    "size",
    [1, 2, pytest.param(3, marks=EITHER), pytest.param(4, marks=pytest.mark.weekly)],
    ids="{} ranks".format,
)


@SIZES
def test_means_are_exact_and_have_the_same_bits_on_all_ranks(on_shared_ranks, size) -> None:
    for mine in on_shared_ranks(PROGRAMS / "exact_means.py", size):
        assert mine["wrong"] == []


@pytest.mark.parametrize(
    "size",
    [1, pytest.param(2, marks=EITHER), 3, pytest.param(4, marks=pytest.mark.weekly)],
    ids="{} ranks".format,
)
def test_what_a_codec_loses_comes_back_and_all_ranks_have_the_same_bits(
    on_shared_ranks, size
) -> None:
    for mine in on_shared_ranks(PROGRAMS / "each_codec.py", size):
        for what, (alike, error, _) in mine.items():
            assert alike, what
            assert error < (0.95 if what.startswith(("topk", "powersgd")) else 1e-3), what


def test_dynamic_loss_scaling_sees_on_all_ranks_that_one_has_overflowed(on_shared_ranks) -> None:
    """A codec's own answer to a number that is not finite is zeros, which look like a mean."""
    for mine in on_shared_ranks(PROGRAMS / "loss_scaling.py", 2):
        assert len(mine) == 2 * len(Codec)
        for what, (scales, moved, alike) in mine.items():
            # ChainerMN's first update only gives all ranks the same weights.
            assert scales == [1, 2, 1, pytest.approx(2**0.5)], what
            assert moved == [False, True, False, True], what
            assert alike, what


def test_compressed_gradients_take_fewer_bytes(on_shared_ranks) -> None:
    mine = on_shared_ranks(PROGRAMS / "each_codec.py", 2)[0]

    sent = {what.split()[0]: nbytes for what, (_, _, nbytes) in mine.items()}
    assert sent["fp16"] < 0.6 * sent["none"]
    assert sent["bf16"] < 0.6 * sent["none"]
    assert sent["int8"] < 0.3 * sent["none"]
    assert sent["topk"] < 0.1 * sent["none"]  # the first hundred steps send more
    assert sent["powersgd"] < 0.5 * sent["none"]


def test_views_shared_and_read_only_gradients_are_averaged_once(on_shared_ranks) -> None:
    for mine in on_shared_ranks(PROGRAMS / "unusual_gradients.py", 2):
        assert mine == {"means": True, "alike": True, "beside unset": True}


@pytest.mark.parametrize("size", [pytest.param(2, marks=EITHER), 3])
def test_what_is_wrong_is_said_alike_on_all_ranks_with_rank_and_parameter(
    on_shared_ranks, size
) -> None:
    all_found = on_shared_ranks(PROGRAMS / "refused_gradients.py", size)

    last = size - 1
    for mine in all_found:
        assert mine == all_found[0]
        for how in ("plain", "overlap", "int8"):
            assert f"The gradient of /b on rank {last} is not finite" in mine[f"nan {how}"]
            assert f"The gradient of /a on rank {last} is not finite" in mine[f"inf {how}"]
            assert f"Rank {last} has no gradient for /1" in mine[f"none {how}"]
            assert "/1 has shape (2, 25000) on rank" in mine[f"shape {how}"] or size == 2
            assert "float64" in mine[f"type {how}"]
            assert "float32" in mine[f"type {how}"]
            assert f"Rank {last} has its parameters in another order" in mine[f"order {how}"]
            assert "rank 0 has not" in mine[f"name {how}"] or "has not" in mine[f"name {how}"]
            assert mine[f"all {how}"] == "nothing"
            assert "type int32" in mine[f"integer {how}"]


def test_a_step_takes_no_new_memory(on_shared_ranks) -> None:
    for mine in on_shared_ranks(PROGRAMS / "memory_of_a_step.py", 2):
        for how, nbytes in mine.items():
            assert nbytes < 100_000, how  # of 2.2 MB that are exchanged


def test_a_rank_that_waits_for_gradients_is_freed_when_another_fails(on_ranks, ulfm) -> None:
    failed, waiting = on_ranks(PROGRAMS / "revoked_exchange.py", 2)

    assert waiting["echo"]
    assert waiting["seconds"]
    assert failed["fresh"] == waiting["fresh"] == 1.5


def test_a_rank_that_is_new_after_a_resume_averages_with_the_others(on_shared_ranks) -> None:
    for mine in on_shared_ranks(PROGRAMS / "joined_rank.py", 3):
        assert mine == dict.fromkeys(("fp16", "int8", "topk", "powersgd"), [True] * 4)


@SIZES
def test_each_method_does_what_is_documented(on_shared_ranks, size) -> None:
    for mine in on_shared_ranks(PROGRAMS / "documented_methods.py", size, "collectives"):
        assert len(mine) > 100
        assert [what for what, holds in mine.items() if not holds] == []


@SIZES
def test_models_of_several_types_are_averaged_and_sent(on_shared_ranks, size) -> None:
    for mine in on_shared_ranks(PROGRAMS / "documented_methods.py", size, "models"):
        assert len(mine) > 100
        assert [what for what, holds in mine.items() if not holds] == []
