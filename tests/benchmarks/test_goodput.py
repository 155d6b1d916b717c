"""Recordings of spot nodes are replayed, and all time that is paid is accounted for."""

from __future__ import annotations

import pytest

from benchmarks.figures import BenchmarkFailed
from benchmarks.goodput import HOUR, POLICIES, PRICED_HOURS, live, measure
from benchmarks.place import Place
from workbench.core.fleet.spot_history import SpotHistory, read_history

BOOT = 90.0


def made_up() -> str:
    """Return a recording of a day: each forty minutes some of eight nodes go, and others come."""
    rows = [f"0,add,n{number}" for number in range(8)]
    for turn in range(1, 36):
        for number in range(1 + turn % 3):
            slot = (turn * 3 + number) % 8
            rows += [
                f"{turn * 2_400_000},remove,n{slot}", f"{turn * 2_400_000},add,n{slot}"
            ]  # fmt: skip
    return "\n".join([*rows, "86400000,remove,n0"])


@pytest.fixture(scope="module")
def history() -> SpotHistory:
    return read_history(made_up(), "made up")


def test_all_policies_get_the_same_nodes_and_keep_more_the_better_they_move(history) -> None:
    found = {name: live(name, history, BOOT) for name in POLICIES}

    given = sum(min(one.end, history.seconds) - one.begin for one in history.stays)
    own, *others = (round(one.paid) for one in found.values())
    assert {*others} == {round(given)}
    assert 0.99 * given < own < given  # it gives back what it has left
    shares = [one.goodput for one in found.values()]
    assert shares == sorted(shares, reverse=True)
    assert 0 < shares[-1] < shares[0] < 1


def test_without_losses_only_the_boot_the_pause_and_snapshots_cost(history) -> None:
    whole = SpotHistory(history.stays[:1], 10 * HOUR)
    calm = SpotHistory(tuple(one for one in whole.stays if one.end > 10 * HOUR), 10 * HOUR)
    calm = calm if calm.stays else read_history("0,add,a\n36000000,add,b", "calm").cut(0, 35_000)

    found = live("workbench", calm, BOOT)

    lost = (1 - found.goodput) * found.paid
    assert BOOT < lost < BOOT + 30 + 1e-3 * found.paid


def test_what_boots_longer_is_paid_longer(history) -> None:
    shares = [live("workbench", history, boot).goodput for boot in (0.0, 90.0, 480.0)]

    assert shares == sorted(shares, reverse=True)


def test_a_notice_saves_the_steps_since_the_snapshot(history) -> None:
    assert (
        live("workbench", history, BOOT).goodput
        > live("workbench, no notice", history, BOOT).goodput + 0.0001
    )


def test_a_recording_must_be_named_and_its_price_is_reported(tmp_path) -> None:
    path = tmp_path / "made-up.csv"
    path.write_text(made_up())
    with pytest.raises(BenchmarkFailed, match="--history FILE"):
        measure(Place(), 1, print)

    rows = measure(Place(), 1, print, [path], [BOOT], 0.27)

    costs = [row for row in rows if row.what.startswith("$")]
    own = costs[0].ours
    assert own is not None
    assert own.median > PRICED_HOURS * 0.27
