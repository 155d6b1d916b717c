"""The watched world computes as MPI's own, and frees ranks that wait for a failed one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.contract, pytest.mark.mpi, pytest.mark.either_mpi]

PROGRAMS = Path(__file__).parents[1] / "programs"


@pytest.fixture(scope="module", params=[1, 2, 4], ids="{} ranks".format)
def together(on_shared_ranks, request) -> list[dict[str, dict[str, Any]]]:
    """What each rank found with all of the above; one world serves several tests."""
    return on_shared_ranks(PROGRAMS / "watched_world.py", request.param)


def test_collectives_give_what_mpi_gives(together) -> None:
    size = len(together)
    total = float(sum(range(1, size + 1)))

    for rank, mine in enumerate(together):
        assert mine["collectives"] == {
            "Allreduce": [total] * 3,
            "Allgather": [float(n + 1) for n in range(size)],
            "Bcast": [7.0, 7.0],
            "Reduce": [float(size) if rank == size - 1 else 0.0] * 3,
            "Scatter": [float(rank)],
            "Alltoall": [float(rank + 10 * n) for n in range(size)],
            "Sendrecv": [float((rank - 1) % size)],
            "in": "",
        }


def test_objects_are_pickled_on_their_way(together) -> None:
    size = len(together)
    found = [mine["objects"] for mine in together]

    assert found[0]["gather"] == [{"rank": n, "list": [1, [2, None]]} for n in range(size)]
    for rank, mine in enumerate(found):
        assert mine["allgather"] == [*range(size)]
        assert mine["bcast"] == {"from": 0}
        assert mine["allreduce"] == "abab"[:size]
        assert mine["same sum"]
        assert mine["highest"] == max([[n % 3, n] for n in range(size)], key=lambda pair: pair[0])
        assert mine["reduce"] == ("abab"[:size] if rank == size - 1 else None)
        assert mine["scan"] == ["abab"[: rank + 1], "abab"[:rank] or None]
        assert mine["scatter"] == f"for {rank}"
    assert size == 1 or found[1]["recv"] == {"to": 1}


def test_communicators_that_are_made_from_it_are_watched_too(together) -> None:
    size = len(together)

    for rank, everything in enumerate(together):
        mine = everything["descendants"]
        half = len(range(rank % 2, size, 2))
        assert mine["undefined"]
        assert mine["Split"] == ["WatchedComm", half, rank // 2, half]
        assert mine["grandchild"] == ["WatchedComm", size, size - 1 - rank, size]
        for name in ("Dup", "Split_type", "Create", "Clone"):
            assert mine[name] == ["WatchedComm", size, rank, size]


def test_a_rank_that_waits_can_be_seen_from_another_thread(on_shared_ranks) -> None:
    late, waiting = on_shared_ranks(PROGRAMS / "late_rank.py", 2)

    assert waiting["calls"] == ["Barrier"]
    assert waiting["longest"] > 0.2
    assert waiting["seconds"] > 0.2
    assert late["seconds"] < waiting["seconds"]


def test_a_run_may_take_the_first_ranks_alone(on_shared_ranks) -> None:
    found = on_shared_ranks(PROGRAMS / "first_ranks.py", 4)

    for rank in (0, 1):
        assert found[rank]["pair"] == [2, rank, 2]
        assert found[rank]["again"]
    for mine in found:
        assert mine["all"] == [4, True, 4]


@pytest.mark.parametrize(("size", "blocked_in"), [(2, "world"), (4, "child")])
def test_ranks_that_are_blocked_are_freed_and_get_a_working_world(
    on_ranks, ulfm, size, blocked_in
) -> None:
    found = on_ranks(PROGRAMS / "blocked_ranks.py", size, blocked_in)

    for rank, mine in enumerate(found):
        assert mine["recovered"]
        assert mine["fresh"] == [True, size, rank, size, 2 * size]
        assert mine["stale"] == (
            "This communicator was created before run 'fit' failed or was stopped; run the cell "
            "that creates it again."
        )
        assert mine["revoked"] == [True, False]
        assert mine["still asked"] == [size, "WatchedComm", size]
        assert mine["second"] == [True, size, size]
        assert rank == 0 or (mine["echo"], mine["in"]) == (True, "")


def test_one_rank_can_free_the_others(on_ranks, ulfm) -> None:
    found = on_ranks(PROGRAMS / "one_revokes.py", 2)

    assert found[1]["echo"]
    assert [mine["fresh"] for mine in found] == [2, 2]


def test_a_message_of_the_failed_cell_is_not_taken_for_one_of_the_next(on_ranks, ulfm) -> None:
    assert on_ranks(PROGRAMS / "pending_message.py", 2)[1]["received"] == "fresh"


def test_subsets_are_made_again_after_a_recovery(on_ranks, ulfm) -> None:
    found = on_ranks(PROGRAMS / "first_ranks_again.py", 4)

    assert [mine.get("pair") for mine in found] == [2, 2, None, None]
    assert [mine["all"] for mine in found] == [4, 4, 4, 4]


def test_an_mpi_that_cannot_revoke_says_so_and_continues(on_shared_ranks) -> None:
    for mine in on_shared_ranks(PROGRAMS / "no_ulfm.py", 2):
        assert mine == {
            "revoked": False,
            "recovered": False,
            "works": 2,
            "echoes": [False, False],
        }


def test_chainermn_works_in_it_unchanged(on_shared_ranks) -> None:
    for mine in on_shared_ranks(PROGRAMS / "chainermn_unchanged.py", 2):
        assert mine["weights"] == [[0.0, 0.0]]
        assert mine["mean"] == [[1.5, 1.5]]
        assert mine["watched"] == "WatchedComm"
        assert mine["waited"]
