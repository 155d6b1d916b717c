"""Ranks beside each other on a host have a GPU each, for as long as they live."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.engine.own_gpu import GPUS_VARIABLE, find_gpus, order_gpus

HOLD = Path(__file__).with_name("programs") / "hold_gpu.py"


@pytest.fixture
def begin(tmp_path: Path):
    """Start a process that holds a GPU; return what it says."""
    started: list[subprocess.Popen] = []

    def start(place: int, gpus: str = "0,1,2") -> str:
        process = subprocess.Popen(
            [sys.executable, HOLD, str(place), str(tmp_path)],
            env=os.environ | {GPUS_VARIABLE: gpus},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout
        return process.stdout.readline().strip()

    start.all = started
    yield start
    for process in started:
        process.communicate()


def test_each_process_holds_another_gpu_until_it_ends(begin):
    assert [begin(0), begin(0), begin(0)] == ["'2' 2,0,1", "'1' 1,0,2", "'0' 0,1,2"]
    assert begin(0) == "'' 0,1,2"
    begin.all[1].communicate()
    assert begin(1) == "'1' 0,1,2"


def test_there_is_no_choice_on_a_host_with_one_gpu(begin):
    assert begin(0, "0") == "'' 0"
    assert begin(0, "") == "''"


def test_a_rank_has_its_own_gpu_at_its_place():
    assert order_gpus(["0", "1", "2", "3"], "2", 0) == ["2", "0", "1", "3"]
    assert order_gpus(["0", "1", "2", "3"], "3", 1) == ["0", "3", "1", "2"]


def test_gpus_are_those_of_the_variable_or_of_the_system(tmp_path):
    for name in ("nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert find_gpus({}, tmp_path) == ["0", "1", "10"]
    assert find_gpus({GPUS_VARIABLE: "GPU-a,GPU-b"}, tmp_path) == ["GPU-a", "GPU-b"]
    assert find_gpus({GPUS_VARIABLE: ""}, tmp_path) == []
    assert find_gpus({GPUS_VARIABLE: "1,-1,0"}, tmp_path) == ["1"]
