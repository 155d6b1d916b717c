"""Encode curves as binary frames, which a page reads into typed arrays.

A frame is the length of its header (uint32, little-endian), the header in JSON, padded with spaces
so that the columns begin at a multiple of 8, and then the columns of each series: ``x`` (float64),
``index`` (int32), ``low``, ``median``, ``high``, ``mean`` and ``slowest`` (float32). Values that
float32 cannot represent are NaN. ``extension/src/protocol.ts`` reads it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from workbench.core.curves import FEW, Buckets
from workbench.core.run.metrics import family, is_validation, quantity
from workbench.pages.protocol import FrameHeader, SeriesHeader

BUCKET_BYTES = 32
_HEADERS = 1_024
_TOO_LARGE = float(2**128 - 2**103)  # the least number that float32 rounds to infinity


@dataclass(frozen=True)
class FrameSeries:
    """Some buckets of one curve, and how many ranks reported it.

    Args:
        attempt: That of a stretch which a later attempt did again; 0 for the curve itself.
    """

    name: str
    buckets: Buckets
    ranks: int
    attempt: int = 0


def encode_frame(
    series: Iterable[FrameSeries],
    *,
    feed: str = "",
    version: int = 0,
    points: int = 0,
    slowest: int = -1,
) -> bytes:
    """Return a frame of ``series``, with the fields of ``FrameHeader``."""
    rows = list(series)
    header = FrameHeader(
        feed=feed,
        version=version,
        points=points,
        slowest=slowest,
        series=tuple(map(_header_of, rows)),
    )
    text = msgspec.json.encode(header)
    text += b" " * (-(4 + len(text)) % 8)
    columns = (column for row in rows for column in _columns(row.buckets))
    return b"".join([len(text).to_bytes(4, "little"), text, *columns])


def _header_of(row: FrameSeries) -> SeriesHeader:
    some = row.buckets
    return _series_header(row.name, some.fresh, some.width, row.ranks, len(some), row.attempt)


@lru_cache(_HEADERS)  # frames of one run differ in their numbers of buckets alone
def _series_header(
    name: str, reset: bool, width: int, ranks: int, count: int, attempt: int
) -> SeriesHeader:
    measured = quantity(name)
    return SeriesHeader(
        name=name,
        reset=reset,
        width=width,
        ranks=ranks,
        count=count,
        quantity=measured,
        family=family(measured),
        is_validation=is_validation(name),
        attempt=attempt,
    )


def _columns(buckets: Buckets) -> Iterable[bytes]:
    columns = buckets.low, buckets.median, buckets.high, buckets.mean, buckets.marked
    amount = len(buckets)
    if amount <= FEW:
        singles = [_single(value) for column in columns for value in column.tolist()]
        yield struct.pack(f"<{amount}d", *buckets.x.tolist())
        yield struct.pack(f"<{amount}i{5 * amount}f", *buckets.index.tolist(), *singles)
        return
    yield np.asarray(buckets.x, "<f8").tobytes()
    yield np.asarray(buckets.index).astype("<i4").tobytes()
    yield _singles(np.stack([np.asarray(column) for column in columns])).tobytes()


def _single(value: float) -> float:
    return value if -_TOO_LARGE < value < _TOO_LARGE else math.nan


def _singles(columns: NDArray[np.float64]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        singles = columns.astype("<f4")
    singles[~np.isfinite(singles)] = np.nan
    return singles
