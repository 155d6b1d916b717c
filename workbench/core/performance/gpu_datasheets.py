"""Compare GPUs by their data sheets, if nothing was measured."""

from __future__ import annotations

import math
import re

# Single-precision TFLOP/s and GB/s of memory, of one GPU, by vendors' data sheets. A K80 and an M60
# have two GPUs; offers count each of them.
_SHEETS = {
    "K80": (4.1, 240),
    "M60": (4.8, 160),
    "P4": (5.5, 192),
    "P100": (9.3, 732),
    "V100": (15.7, 900),
    "T4": (8.1, 320),
    "T4G": (8.1, 320),
    "A10G": (31.2, 600),
    "L4": (30.3, 300),
    "L40S": (91.6, 864),
    "A100": (19.5, 1555),
    "H100": (66.9, 3350),
    "H200": (66.9, 4800),
}

# Older than Turing, which the open kernel modules of the public GPU image do not support: README of
# NVIDIA's open-gpu-kernel-modules; a P3 fails with that image (aws-parallelcluster issue 6014).
_OLDER = ("K520", "K80", "M60", "P4", "P100", "V100")


def is_driven(maker: str, gpu: str) -> bool:
    """Return whether the driver of the public GPU image supports a GPU: NVIDIA's, from Turing on.

    ===========  ===============================================================
    generation   GPUs, as DescribeInstanceTypes names them
    ===========  ===============================================================
    Kepler       K520 (G2), K80 (P2): not driven
    Maxwell      M60 (G3): not driven
    Volta        V100 (P3): not driven
    Turing       T4 (G4dn), T4g (G5g)
    Ampere       A10G (G5), A100 (P4)
    Ada          L4 (G6), L40S (G6e)
    Hopper       H100, H200 (P5)
    Blackwell    B200, B300 (P6), RTX PRO 4500, RTX PRO Server 6000 (G7)
    ===========  ===============================================================
    """
    return maker.upper() == "NVIDIA" and gpu.upper() not in _OLDER


def relative_speed(gpu: str, measured: str) -> float | None:
    """Return a GPU's speed relative to the measured one; None if unknown.

    It is the geometric mean of compute and memory bandwidth: networks are limited by either. An
    empty name is a CPU core; all of them count as equal.
    """
    if gpu == measured:
        return 1.0
    one, other = _find_sheet(gpu), _find_sheet(measured)
    if one is None or other is None:
        return None
    return math.sqrt(one[0] / other[0] * one[1] / other[1])


def _find_sheet(gpu: str) -> tuple[float, float] | None:
    for word in re.findall(r"[A-Z]+\d+[A-Z]*", gpu.upper()):
        if word in _SHEETS:
            return _SHEETS[word]
    return None
