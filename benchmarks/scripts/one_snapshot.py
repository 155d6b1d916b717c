"""Save a state of ``nbytes`` a few times by `workbench.elastic`, as the source of a cell."""

from __future__ import annotations

import time

import numpy

import workbench

SPEED = 2e9  # bytes of state per second of a step
numbers = globals()["nbytes"] // 4
state = {"weights": numpy.ones(numbers, "f")}
for _ in workbench.elastic(state, steps=globals()["steps"]):
    time.sleep(4 * numbers / SPEED)
