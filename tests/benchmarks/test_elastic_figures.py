"""What the benchmarks of elastic loops compute from the times that the loops have written."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from benchmarks.elastic_overhead import ratios_of, snapshot_costs, steps_of
from benchmarks.elastic_peers import Loop
from benchmarks.figures import interval


def test_the_interval_of_a_ratio_is_narrower_with_more_pairs_and_contains_it() -> None:
    chance = Random(1)
    ratios = [1.003 * chance.gauss(1, 0.01) for _ in range(400)]

    few, many = interval(ratios[:20], 400), interval(ratios, 400)

    assert many[2] - many[1] < 0.5 * (few[2] - few[1])
    assert many[1] < 1.003 < many[2]
    # With so many pairs it tells a cost of 1 %.
    assert interval([1.01 * one for one in ratios], 400)[1] > 1.003


def test_pairs_are_those_of_blocks_in_turn(tmp_path: Path) -> None:
    file = tmp_path / "steps.jsonl"
    steps = [(1, 1.0), (1, 2.0), (0, 1.0), (0, 1.0), (0, 2.0), (0, 2.0), (1, 4.0), (1, 2.0)]
    file.write_text("".join(json.dumps([on, wall, 0.5]) + "\n" for on, wall in steps))

    assert ratios_of(steps_of(file), 1, 2) == [1.5, 1.5]


def test_a_snapshot_costs_what_its_steps_take_longer_than_those_around() -> None:
    steps = [(number % 2 == 0, 0.1, 0.1) for number in range(200)]
    steps[80] = (True, 0.15, 0.1)  # it stalls the step in which the fortieth ends
    steps[83] = (False, 0.12, 0.3)  # it is written meanwhile

    (cost,) = snapshot_costs(steps, [14, 44])

    assert cost == pytest.approx((0.07, 0.2, 6.05))


def test_a_pause_is_the_longest_gap_between_a_change_and_the_first_step_of_the_new_world(
    tmp_path: Path,
) -> None:
    file = tmp_path / "steps.txt"
    steps = [(1.0, 1, 0), (1.1, 1, 1), (1.2, 1, 2), (1.3, 1, 3), (2.8, 2, 2), (2.9, 2, 3)]
    steps += [(3.0, 2, 4), (3.1, 2, 5)]
    file.write_text("".join(f"{at} {ranks} {number}\n" for at, ranks, number in steps) + "3.1 ")

    loop = Loop(file)

    assert loop.steps() == steps
    assert loop.pause(1.15, 2) == pytest.approx(1.5 - 0.1)
    assert loop.repeated(1.15) == 2
