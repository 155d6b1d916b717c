"""Encode curves as binary frames, which a page reads into typed arrays.

A frame is the length of its header (uint32, little-endian), the header in JSON, padded with spaces
so that the columns begin at a multiple of 8, and then the columns of each series: ``x`` (float64),
``index`` (int32), ``low``, ``median``, ``high``, ``mean`` and ``slowest`` (float32). Values that
float32 cannot represent are NaN. ``extension/src/protocol.ts`` reads it.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from workbench.core.curves.buckets import FEW, Buckets
from workbench.core.run.metrics import Family, family, is_validation, quantity

BUCKET_BYTES = 32
_HEADERS = 1_024
_JSON = json.JSONEncoder(separators=(",", ":"))
_TOO_LARGE = float(2**128 - 2**103)  # the least number that float32 rounds to infinity


@dataclass(frozen=True, kw_only=True)
class SeriesHeader:
    """The part of a frame's header about one curve.

    Args:
        quantity: Its quantity; curves of one quantity share axes.
        family: A share is between 0 and 1, or in percent.
        is_validation: Whether it was measured on validation data.
        reset: Whether the earlier buckets of this curve are to be discarded first.
        width: Iterations of all ranks in each bucket.
        ranks: How many ranks reported it.
        count: Number of buckets in this frame.
        attempt: That of a stretch which a later attempt did again; 0 for the curve itself.
    """

    name: str
    reset: bool
    width: int
    ranks: int
    count: int
    quantity: str = ""
    family: Family = "other"
    is_validation: bool = False
    attempt: int = 0


@dataclass(frozen=True, kw_only=True)
class FrameHeader:
    """The header of a frame.

    Args:
        feed: The feed whose versions are meant.
        version: The newest version that the frame contains.
        points: Number of points that the run has reported, over all names.
        slowest: The rank whose means are in the column ``slowest``; -1 for none.
    """

    type: Literal["points"] = "points"
    feed: str
    version: int
    points: int
    slowest: int
    series: tuple[SeriesHeader, ...]


@dataclass(frozen=True)
class Series:
    """Some buckets of one curve, and how many ranks reported it.

    Args:
        attempt: That of a stretch which a later attempt did again; 0 for the curve itself.
    """

    name: str
    buckets: Buckets
    ranks: int
    attempt: int = 0


def encode_frame(
    series: Iterable[Series],
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
        series=(),
    )
    empty = _JSON.encode(vars(header)).removesuffix("]}")
    text = f"{empty}{','.join(map(_header_of, rows))}]}}".encode()
    text += b" " * (-(4 + len(text)) % 8)
    columns = (column for row in rows for column in _columns(row.buckets))
    return b"".join([len(text).to_bytes(4, "little"), text, *columns])


def _header_of(row: Series) -> str:
    some = row.buckets
    return _series_header(row.name, some.fresh, some.width, row.ranks, len(some), row.attempt)


@lru_cache(_HEADERS)  # frames of one run differ in their numbers of buckets alone
def _series_header(name: str, reset: bool, width: int, ranks: int, count: int, attempt: int) -> str:
    measured = quantity(name)
    header = SeriesHeader(
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
    return _JSON.encode(vars(header))


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
