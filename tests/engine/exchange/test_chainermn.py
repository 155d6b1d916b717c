"""Our communicator passes ChainerMN's own tests of a communicator, and works with its parts."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.mpi

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize("size", [1, 2, 3], ids="{} ranks".format)
def test_all_that_chainermn_asks_of_a_communicator_holds(on_shared_ranks, size) -> None:
    for mine in on_shared_ranks(PROGRAMS / "chainermn_contract.py", size):
        assert [what for what, right in mine.items() if not right] == []


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_that_leave_early_are_the_same(on_shared_ranks, size) -> None:
    for mine in on_shared_ranks(PROGRAMS / "chainermn_overlap.py", size):
        assert mine == {
            "equal": True,
            "alike": True,
            "buckets": mine["buckets"],
            "accumulated": True,
        }
        assert mine["buckets"]


def test_two_optimizers_of_one_communicator_leave_each_other_alone(on_shared_ranks) -> None:
    for mine in on_shared_ranks(PROGRAMS / "two_optimizers.py", 2):
        assert [what for what, right in mine.items() if not right] == []


def test_a_run_s_options_reach_a_script_that_knows_nothing_of_them(on_shared_ranks) -> None:
    first, second = on_shared_ranks(PROGRAMS / "unmodified_script.py", 2)

    name, plain, said, codec = first["none"]
    assert (name, said, codec) == ("NaiveCommunicator", "", None)
    assert plain[2] < plain[1]
    name, losses, said, codec = first["compress"]
    assert (name, codec) == ("ExchangeCommunicator", "fp16")
    assert losses == pytest.approx(plain, rel=1e-3)
    assert "asked for the communicator 'naive' and gets 'auto', as --compress says." in said
    name, losses, said, codec = first["double"]
    assert (name, codec) == ("ExchangeCommunicator", "none")
    assert losses[2] == losses[1]  # the gradients of the step before were not there yet
    assert losses[3] == pytest.approx(plain[2], rel=1e-5)
    assert "as --double-buffering says." in said
    assert "uses the mean gradient of the previous step" in said
    for asked, option, codec in (
        ("flat", "--communicator", "none"),
        ("nccl", "--communicator", "fp16"),
        ("nccl, int8", "--compress", "int8"),
    ):
        name, losses, said, found = first[asked]
        assert (name, found) == ("ExchangeCommunicator", codec)
        assert losses == pytest.approx(plain, rel=2e-2)
        assert f", as {option} says." in said
    assert first["after"] == first["none"]
    assert first.pop("derived") == second.pop("derived") == "its own"
    assert "asked for the communicator 'pure_nccl' and gets 'auto'" in first["nccl"][2]
    assert {one[2] for one in second.values()} == {""}
