"""Save a state of ``nbytes`` a few times by `workbench.elastic`, as the source of a cell."""

from __future__ import annotations

import time

import numpy

import workbench

# Bytes of state per second of a step. It is as slow so that the memory for the first copy, which is
# allocated from the second step on, is there: that takes up to 3 s per GB on a virtual machine.
SPEED = 4e8
numbers = globals()["nbytes"] // 4
state = {"weights": numpy.ones(numbers, "f")}
for _ in workbench.elastic(state, steps=globals()["steps"]):
    time.sleep(4 * numbers / SPEED)
