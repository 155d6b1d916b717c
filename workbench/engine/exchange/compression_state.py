"""Save what compression keeps from step to step, and continue with it in another layout."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy

from workbench.engine.exchange.bucket_layout import Bucket, BucketLayout
from workbench.engine.exchange.compressed import Compressed
from workbench.engine.exchange.transport import Array


def compression_state(plan: BucketLayout, codecs: Mapping[int, Compressed]) -> dict[str, Any]:
    """Return the error feedback of each gradient, and what else the codecs of buckets keep."""
    lost: dict[str, Array] = {}
    others: dict[tuple[str, ...], dict[str, Any]] = {}
    for number, codec in codecs.items():
        bucket, state = plan.buckets[number], codec.state()
        names = _names(plan, bucket)
        if "lost" in state:
            pieces = _pieces(bucket, state.pop("lost"))
            lost |= {name: piece.copy() for name, piece in zip(names, pieces, strict=True)}
        others[names] = state
    return {"lost": lost, "codecs": others}


def restore_compression(
    plan: BucketLayout, codecs: Mapping[int, Compressed], saved: Mapping[str, Any]
) -> None:
    """Continue with what ``compression_state`` returned.

    The error feedback belongs to a gradient, so it fits every layout. The rest belongs to a
    bucket, and begins as new if there is no such bucket now.
    """
    for number, codec in codecs.items():
        bucket = plan.buckets[number]
        names = _names(plan, bucket)
        flat = numpy.zeros(bucket.size, "f4")
        for name, piece in zip(names, _pieces(bucket, flat), strict=True):
            found = saved["lost"].get(name)
            if found is not None and found.shape == piece.shape:
                numpy.copyto(piece, found)
        codec.restore({"lost": flat, **saved["codecs"].get(names, {})})


def _names(plan: BucketLayout, bucket: Bucket) -> tuple[str, ...]:
    return tuple(plan.shapes[n].name for n in bucket.slots)


def _pieces(bucket: Bucket, flat: Array) -> list[Array]:
    ends = itertools.accumulate(bucket.sizes, initial=0)
    return [flat[start:stop] for start, stop in itertools.pairwise(ends)]
