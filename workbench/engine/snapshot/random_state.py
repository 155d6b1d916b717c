"""Save and restore the random states of a rank."""

from __future__ import annotations

import pickle
import random
import sys
import zlib
from collections.abc import Sequence
from typing import Any

import numpy


def random_states() -> dict[str, Any]:
    """Return the states of Python's and NumPy's shared generators.

    CuPy's cannot be read.
    """
    return {"python": random.getstate(), "numpy": numpy.random.get_state()}


def restore_random(saved: Sequence[dict[str, Any]], rank: int, seed: int) -> None:
    """Continue the random numbers of a rank.

    A rank that did not exist gets a state only if all ranks had the same one, which the code may
    rely on. CuPy's generator begins with another seed at each snapshot, so that no numbers are
    repeated.

    Args:
        saved: The states of each rank of the snapshot.
        seed: Differs between snapshots.
    """
    for name, restore in (("python", random.setstate), ("numpy", numpy.random.set_state)):
        states = [one[name] for one in saved]
        if rank < len(states):
            restore(states[rank])
        elif len({pickle.dumps(one) for one in states}) == 1:
            restore(states[0])
    cupy, chainer = sys.modules.get("cupy"), sys.modules.get("chainer")
    if cupy is not None and chainer is not None and chainer.backends.cuda.available:
        cupy.random.seed(zlib.crc32(f"{seed} {rank}".encode()))
