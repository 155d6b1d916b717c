"""Encode curves as binary frames, which a page reads into typed arrays.

A frame is the length of its header (uint32, little-endian), the header in JSON, padded with spaces
so that the columns begin at a multiple of 8, and then the columns of each series: ``x`` (float64),
``index`` (int32), ``low``, ``median``, ``high``, ``mean`` and ``slowest`` (float32). What is no
number, or none that float32 holds, is NaN. ``extension/src/protocol.ts`` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workbench.core.run.downsampling import Buckets
from workbench.core.run.metrics import family, is_validation, quantity

BUCKET_BYTES = 32


@dataclass(frozen=True)
class Series:
    """Some buckets of one curve, and what is to be known of the whole of it.

    Args:
        ranks: How many ranks reported it.
        nonfinite: How many values were not finite.
        nonfinite_first: The first iteration with such a value; -1 for none.
    """

    name: str
    buckets: Buckets
    ranks: int
    nonfinite: int = 0
    nonfinite_first: int = -1


def encode_frame(
    series: Iterable[Series],
    *,
    feed: str = "",
    version: int = 0,
    points: int = 0,
    slowest: int = -1,
) -> bytes:
    """Return a frame of ``series``.

    Args:
        feed: Which feed's versions are meant.
        version: The newest of them that the frame takes in.
        points: How many points the run has reported.
        slowest: The rank whose means are in the column ``slowest``; -1 for none.
    """
    rows = list(series)
    header = {
        "type": "points",
        "feed": feed,
        "version": version,
        "points": points,
        "slowest": slowest,
        "series": [
            {
                "name": row.name,
                "quantity": (measured := quantity(row.name)),
                "family": family(measured),
                "is_validation": is_validation(row.name),
                "reset": row.buckets.fresh,
                "width": row.buckets.width,
                "ranks": row.ranks,
                "nonfinite": row.nonfinite,
                "nonfinite_first": row.nonfinite_first,
                "count": len(row.buckets),
            }
            for row in rows
        ],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(4 + len(text)) % 8)
    columns = (column for row in rows for column in _columns(row.buckets))
    return b"".join([len(text).to_bytes(4, "little"), text, *columns])


def _columns(buckets: Buckets) -> Iterable[bytes]:
    yield buckets.x.astype("<f8").tobytes()
    yield buckets.index.astype("<i4").tobytes()
    for values in (buckets.low, buckets.median, buckets.high, buckets.mean, buckets.marked):
        yield _singles(values)


def _singles(values: NDArray[np.float64]) -> bytes:
    with np.errstate(over="ignore"):
        single = values.astype("<f4")
    single[~np.isfinite(single)] = np.nan
    return single.tobytes()
