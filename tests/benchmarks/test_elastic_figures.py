"""What the benchmarks of elastic loops compute from the times that the loops have written."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from benchmarks.elastic_overhead import interval, pairs_of
from benchmarks.elastic_peers import Loop


def test_the_interval_of_a_ratio_is_narrower_with_more_pairs_and_contains_it() -> None:
    chance = Random(1)
    pairs = [(1.003 * chance.gauss(1, 0.01), chance.gauss(1, 0.01)) for _ in range(400)]

    few, many = interval(pairs[:20], 400), interval(pairs, 400)

    assert many[2] - many[1] < 0.5 * (few[2] - few[1])
    assert many[1] < 1.003 < many[2]
    # With so many pairs it tells a cost of 1 %.
    assert interval([(1.01 * one, other) for one, other in pairs], 400)[1] > 1.003


def test_pairs_are_those_of_blocks_in_turn_without_the_first(tmp_path: Path) -> None:
    file = tmp_path / "blocks.jsonl"
    blocks = [(1, 9.0), (0, 9.0), (0, 1.0), (1, 2.0), (1, 4.0), (0, 3.0)]
    file.write_text("".join(json.dumps([on, 100, wall, 0.5]) + "\n" for on, wall in blocks))

    assert pairs_of(file, 2) == [(2.0, 1.0), (4.0, 3.0)]


def test_a_pause_is_the_longest_gap_between_a_change_and_the_first_step_of_the_new_world(
    tmp_path: Path,
) -> None:
    file = tmp_path / "steps.txt"
    steps = [(1.0, 1), (1.1, 1), (1.2, 1), (1.3, 1), (2.8, 2), (2.9, 2), (3.0, 2)]
    file.write_text("".join(f"{at} {ranks}\n" for at, ranks in steps) + "3.1 ")

    assert Loop(file).steps() == steps
    assert Loop(file).pause(1.15, 2) == pytest.approx(1.5 - 0.1)
