"""Give each rank of a world beside others a GPU of its own.

Such worlds count their ranks from 0 on each host, so scripts in all of them would take the first
GPU. A rank therefore locks one that no other such rank of its user has, and sees it at its place
among the ranks of its host. The system ends the lock with the process.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path

GPUS_VARIABLE = "CUDA_VISIBLE_DEVICES"
WAIT_SECONDS = 5.0
"""The ranks of the trial before may still be about to end."""
_LOOK_SECONDS = 0.05
_NO_GPU = ("", "-1")  # CUDA sees none from there on
_held: list[int] = []  # the open file of the lock, until this process ends


def hold_gpu(place: int, folder: Path | None = None, wait: float = WAIT_SECONDS) -> str:
    """Hold a GPU of this host until this process ends, and show it first; return its name.

    It is empty where there is no choice: the host has one GPU or none, or each one is held.

    Args:
        place: This rank's number among the ranks of its world on this host.
        folder: Where the locks are (default: the system's folder for temporary files).
        wait: Seconds to wait for a GPU.
    """
    gpus = find_gpus(os.environ)
    if len(gpus) < 2 or _held:
        return ""
    deadline = time.monotonic() + wait
    while not (gpu := _lock_one(gpus, folder or Path(tempfile.gettempdir()))):
        if time.monotonic() > deadline:
            return ""
        time.sleep(_LOOK_SECONDS)
    os.environ[GPUS_VARIABLE] = ",".join(order_gpus(gpus, gpu, place))
    return gpu


def order_gpus(gpus: Sequence[str], own: str, place: int) -> list[str]:
    """Return all GPUs with a rank's own one at its place among the ranks of its host."""
    others = [one for one in gpus if one != own]
    return [*others[:place], own, *others[place:]]


def find_gpus(environment: Mapping[str, str | None], devices: Path = Path("/dev")) -> list[str]:
    """Return the names of the GPUs that a process with these variables may use."""
    if (given := environment.get(GPUS_VARIABLE)) is not None:
        return [*takewhile(lambda one: one not in _NO_GPU, given.split(","))]
    found = (re.fullmatch(r"nvidia(\d+)", path.name) for path in devices.glob("nvidia*"))
    return sorted((one[1] for one in found if one), key=int)


def _lock_one(gpus: Sequence[str], folder: Path) -> str:
    # The last one first: runs on some of the ranks of the cells have the first ones.
    for gpu in reversed(gpus):
        name = re.sub(r"\W", "-", gpu)
        path = folder / f"workbench-gpu-{os.getuid()}-{name}"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            continue
        _held.append(file)
        return gpu
    return ""
