"""Save and restore the random states of a rank."""

from __future__ import annotations

import functools
import pickle
import random
import sys
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy


def random_states() -> dict[str, Any]:
    """Return the states of the shared generators of Python, NumPy and PyTorch.

    CuPy's cannot be read.
    """
    found: dict[str, Any] = {"python": random.getstate(), "numpy": numpy.random.get_state()}
    if (torch := sys.modules.get("torch")) is not None:
        found["torch"] = torch.get_rng_state().numpy().copy()
        if torch.cuda.is_initialized():
            found["cuda"] = [one.cpu().numpy().copy() for one in torch.cuda.get_rng_state_all()]
    return found


def restore_random(saved: Sequence[dict[str, Any]], rank: int, seed: int) -> None:
    """Continue the random numbers of a rank.

    A rank that did not exist gets a state only if all ranks had the same one, which the code may
    rely on. CuPy's generator begins with another seed at each snapshot, so that no numbers are
    repeated.

    Args:
        saved: The states of each rank of the snapshot.
        seed: Differs between snapshots.
    """
    restorers: dict[str, Callable[[Any], object]] = {
        "python": random.setstate,
        "numpy": numpy.random.set_state,
    }
    if (torch := sys.modules.get("torch")) is not None:
        restorers["torch"] = lambda one: torch.set_rng_state(torch.from_numpy(one.copy()))
        restorers["cuda"] = functools.partial(_restore_cuda, torch)
    for name, restore in restorers.items():
        states = [one.get(name) for one in saved]
        if (state := saved_random(states, rank)) is not None:
            restore(state)
    cupy, chainer = sys.modules.get("cupy"), sys.modules.get("chainer")
    if cupy is not None and chainer is not None and chainer.backends.cuda.available:
        cupy.random.seed(zlib.crc32(f"{seed} {rank}".encode()))


def saved_random(states: Sequence[Any], rank: int) -> Any:
    """Return the random state of a rank; of one that did not exist, that of all ranks, or None."""
    if rank < len(states):
        return states[rank]
    return states[0] if len({pickle.dumps(one) for one in states}) == 1 else None


def _restore_cuda(torch: Any, states: Sequence[Any]) -> None:
    """Continue the generators of the devices; there may be fewer or more now."""
    for device, state in zip(range(torch.cuda.device_count()), states, strict=False):
        torch.cuda.set_rng_state(torch.from_numpy(state.copy()), device)
