"""A hang is distinguished from slow ranks and from long transfers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.run.hang import (
    IDLE_TRAFFIC,
    SETUP_SECONDS,
    SILENT_SECONDS,
    SNAPSHOT_EXCHANGE,
    STALLED_SECONDS,
    TRANSFER_SECONDS,
    WAIT_SECONDS,
    Elsewhere,
    WaitingRanks,
    decode_hang,
    describe_desertion,
    describe_stall,
    encode_hang,
    find_suspect,
    hang_of,
)
from workbench.core.run.rank_protocol import Ending
from workbench.core.run.rank_standing import RankStanding

NOW = 100.0
STUCK = RankStanding(True, heard=NOW, call="allreduce", waiting=9.4, line=12, still=9.4)
ASLEEP = RankStanding(True, heard=NOW, line=8, doing="time.sleep", still=8.0)
BUSY = replace(ASLEEP, still=0.0)
ENDED = RankStanding(True, ending=Ending("finished"))


def hang(*ranks: RankStanding):
    return hang_of(ranks, NOW)


@pytest.mark.parametrize(
    ("other", "elsewhere"),
    [
        (ASLEEP, Elsewhere((1,), "at", 8, "time.sleep")),
        (ENDED, Elsewhere((1,), "ended")),
        (
            replace(BUSY, heard=NOW - SILENT_SECONDS),
            Elsewhere((1,), "silent", 8, "time.sleep", SILENT_SECONDS),
        ),
    ],
    ids=["sleeps", "ended", "silent"],
)
def test_a_rank_waits_for_one_that_does_not_come(other, elsewhere) -> None:
    found = hang(STUCK, other)

    assert found.waiting == (WaitingRanks((0,), "allreduce", 9.0, 12),)
    assert found.others == (elsewhere,)
    assert found.sure


def test_a_rank_that_moves_is_slow_and_no_hang() -> None:
    assert not hang(STUCK, BUSY).sure


@pytest.mark.parametrize(
    "ranks",
    [
        (ASLEEP, ASLEEP),
        (replace(STUCK, waiting=WAIT_SECONDS - 0.1), ASLEEP),
        (replace(STUCK, ending=Ending("finished")), ASLEEP),
        (STUCK, STUCK),
        (replace(STUCK, call="Send"), replace(STUCK, call="Recv")),
    ],
    ids=["all compute", "briefly", "has ended", "a large allreduce", "a large message"],
)
def test_in_a_normal_training_nothing_is_reported(ranks) -> None:
    assert hang(*ranks) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [("allreduce", "barrier"), ("Recv", "Recv"), ("Send", "barrier")],
)
def test_ranks_that_wait_in_calls_that_do_not_meet_hang(first, second) -> None:
    found = hang(replace(STUCK, call=first), replace(STUCK, call=second, line=9))

    assert found.sure
    assert [one.ranks for one in found.waiting] == [(0,), (1,)]


def test_what_takes_longer_than_any_transfer_is_a_hang() -> None:
    long = replace(STUCK, waiting=TRANSFER_SECONDS)

    assert hang(long, long).sure


def test_ranks_that_wait_alike_are_reported_together() -> None:
    found = hang(STUCK, ASLEEP, replace(STUCK, waiting=5.2), ASLEEP)

    assert found.waiting == (WaitingRanks((0, 2), "allreduce", 9.0, 12),)
    assert [one.ranks for one in found.others] == [(1, 3)]


def test_a_hang_is_kept_as_text() -> None:
    found = hang(STUCK, ASLEEP)

    assert decode_hang(encode_hang(found)) == found
    assert decode_hang(encode_hang(None)) is None


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"waiting":[{}],"others":[],"sure":true}'])
def test_text_that_makes_no_sense_is_no_hang(text) -> None:
    assert decode_hang(text) is None


LONG = replace(STUCK, boundary=1, waiting=STALLED_SECONDS + 1.2)
GONE = replace(ASLEEP, heard=NOW - STALLED_SECONDS)


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        ([], "Rank 0 waited in allreduce for 61 s, and nothing was sent"),
        ([LONG], "Ranks 0, 1 waited in allreduce for 61 s, and nothing was sent"),
        ([replace(LONG, call="bcast")], "Ranks 0, 1 waited in allreduce and bcast for 61 s"),
        ([ENDED, replace(ASLEEP, left=True)], "Rank 0 waited"),
        ([GONE, RankStanding()], "Rank 0 waited"),
        ([STUCK], ""),
        ([ASLEEP], ""),
        ([replace(LONG, traffic=IDLE_TRAFFIC)], ""),
    ],
    ids=["alone", "all", "two calls", "left", "silent", "briefly", "computes", "sends"],
)  # fmt: skip
def test_ranks_that_wait_for_each_other_for_good_are_named(others, sentence) -> None:
    found = describe_stall((LONG, *others), NOW)

    assert found.startswith(sentence)
    assert bool(found) is bool(sentence)


OVER = replace(ENDED, heard=NOW - STALLED_SECONDS)
LEFT = replace(OVER, ending=None, left=True)


@pytest.mark.parametrize(
    ("ranks", "sentence"),
    [
        (
            [LONG, OVER],
            "Rank 0 has waited in allreduce for 61 s (line 12 of the cell); "
            "rank 1 has ended, so it will never come.",
        ),
        (
            [LONG, OVER, replace(LONG, call="bcast", line=0), LEFT],
            "Rank 0 has waited in allreduce for 61 s (line 12 of the cell); rank 2 has waited in "
            "bcast for 61 s; ranks 1, 3 have ended, so they will never come.",
        ),
        ([replace(LONG, boundary=0), OVER], "Rank 0 has waited"),
        ([LONG, replace(OVER, heard=NOW - 1.0)], ""),
        ([LONG, LONG], ""),
        ([LONG, OVER, ASLEEP], ""),
        ([LONG, OVER, STUCK], ""),
        ([replace(LONG, heard=NOW - 90.0), OVER], ""),
        ([replace(LONG, traffic=IDLE_TRAFFIC), OVER], "Rank 0 has waited"),
        ([replace(LONG, traffic=IDLE_TRAFFIC), LONG, OVER], ""),
        ([OVER, OVER], ""),
    ],
    ids=[
        "one", "several", "before a step", "just ended", "none ended", "one computes", "briefly",
        "silent", "alone", "two send", "all ended",
    ],
)  # fmt: skip
def test_ranks_that_wait_for_one_that_has_ended_are_named(ranks, sentence) -> None:
    found = describe_desertion(tuple(ranks), NOW, "the cell")

    assert found.startswith(sentence)
    assert bool(found) is bool(sentence)


def test_a_machine_that_slept_is_not_one_whose_ranks_are_stuck() -> None:
    assert describe_stall((GONE, replace(LONG, heard=NOW - 90.0)), NOW) == ""


def test_before_the_first_step_a_call_may_take_longer() -> None:
    setup = replace(LONG, boundary=0)

    def found(*ranks: RankStanding) -> bool:
        return bool(describe_stall(ranks, NOW))

    assert not found(setup)
    assert found(replace(setup, waiting=SETUP_SECONDS))
    assert found(replace(setup, call=SNAPSHOT_EXCHANGE))


@pytest.mark.parametrize(
    ("hosts", "silent", "host"),
    [
        (("a", "b", "c"), (1,), "b"),
        (("a", "b", "b"), (1, 2), "b"),
        (("a", "b", "b"), (1,), ""),  # another rank there answers
        (("a", "b", "c"), (1, 2), ""),  # two hosts at once: the network, or the program
        (("a", "a", "a"), (1,), ""),
        (("a", "b", "c"), (), ""),
    ],
)
def test_a_host_is_suspected_when_its_ranks_alone_do_not_answer(hosts, silent, host) -> None:
    gone = replace(LONG, heard=NOW - STALLED_SECONDS - 1, call="", waiting=0.0)
    ranks = tuple(gone if n in silent else LONG for n in range(3))

    found = find_suspect(ranks, hosts, NOW)

    assert (f" on {host} " in found.cause) if found else not host
    if silent == (1,) and found:
        assert found.cause == (
            "Rank 1 on b did not answer for 61 s, while ranks 0, 2 waited in allreduce"
        )


def test_no_host_is_suspected_before_ranks_are_stuck() -> None:
    gone = replace(LONG, heard=NOW - STALLED_SECONDS + 1)

    assert find_suspect((LONG, gone), ("a", "b"), NOW) is None
