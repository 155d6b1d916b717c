"""Save and restore the random states of a rank."""

from __future__ import annotations

import pickle
import random
import zlib
from collections.abc import Sequence
from typing import Any

import numpy

from workbench.engine.framework import frameworks


def random_states() -> dict[str, Any]:
    """Return the states of the shared generators of Python, NumPy and the frameworks."""
    found: dict[str, Any] = {"python": random.getstate(), "numpy": numpy.random.get_state()}
    for one in frameworks():
        found |= one.random_states()
    return found


def restore_random(saved: Sequence[dict[str, Any]], rank: int, seed: int) -> None:
    """Continue the random numbers of a rank.

    A rank that did not exist gets a state only if all ranks had the same one, which the code may
    rely on. A generator that cannot be read begins with another seed at each snapshot, so that no
    numbers are repeated.

    Args:
        saved: The states of each rank of the snapshot.
        seed: Differs between snapshots.
    """
    names = {name for one in saved for name in one}
    known = {name: find_saved_random([one.get(name) for one in saved], rank) for name in names}
    states = {name: state for name, state in known.items() if state is not None}
    if "python" in states:
        random.setstate(states["python"])
    if "numpy" in states:
        numpy.random.set_state(states["numpy"])
    for one in frameworks():
        one.restore_random(states, zlib.crc32(f"{seed} {rank}".encode()))


def find_saved_random(states: Sequence[Any], rank: int) -> Any:
    """Return the random state of a rank; of one that did not exist, that of all ranks, or None."""
    if rank < len(states):
        return states[rank]
    return states[0] if len({pickle.dumps(one) for one in states}) == 1 else None
