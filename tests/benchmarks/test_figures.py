"""Rounds are measured in both orders, and those beside other programs' load are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from benchmarks.figures import LOAD, Row, Series, interleaved
from benchmarks.report import markdown


def measured(rounds: int, loads: Iterator[float]) -> tuple[list[str], tuple[float, ...], list[str]]:
    """Return the order of the measurements, the values of the first way that count, and lines."""
    order, lines = list[str](), list[str]()

    def way(label: str) -> Callable[[], float]:
        def measure() -> float:
            order.append(label)
            return float(order.count(label))

        return measure

    found = interleaved(
        rounds, {"a": way("a"), "b": way("b")}, lines.append, busy=lambda: next(loads)
    )
    assert found["a"].values == found["b"].values
    return order, found["a"].values, lines


def test_every_second_round_is_measured_in_the_reverse_order() -> None:
    order, values, lines = measured(3, iter([0.0] * 4))

    assert order == ["a", "b", "b", "a", "a", "b"]
    assert values == (1.0, 2.0, 3.0)
    assert lines[-1] == "round 3 of 3: a 3, b 3; others used 0.00 cores"


def test_a_round_beside_which_others_work_is_measured_again() -> None:
    _, values, lines = measured(2, iter([0.0, 0.0, 2 * LOAD, 0.0, 0.0]))

    assert values == (1.0, 4.0)
    assert len(lines) == 4


@pytest.mark.parametrize("loads", [[1.0, 1.0, 3.0, 2.0, 1.0], [1.0, 1.0, 1.0, 3.0, 2.0]])
def test_where_others_always_work_the_rounds_with_the_least_load_count(loads) -> None:
    _, values, lines = measured(2, iter(loads))

    assert len(lines) == 4
    assert values == ((1.0, 4.0) if loads[2] == 3.0 else (1.0, 2.0))


def test_pairs_of_blocks_decide_in_place_of_the_medians_of_rounds() -> None:
    ours, theirs = Series("with", (1.0, 1.0, 2.0)), Series("without", (1.0, 1.0, 1.9))

    row = Row("step", "s", ours, theirs, goal=1.003, pairs=(1.002, 1.006, 1.006, 1.006, 1.007))

    assert (row.ratio, row.met) == (1.006, False)
    shown = markdown({}, {"step": [row]})
    assert (
        "| 1.0060 (1.0020 to 1.0070), 95 % interval: resolution 0.25 % | ≤ 1.003 | missed |"
        in shown
    )
