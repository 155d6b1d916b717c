"""Encode the downsampled curves of a long run, so that a view does not read all its points.

The format is NumPy's ``.npz``: ``names`` is JSON, and ``0/low`` is the array ``low`` of the first
curve, see ``Curve.arrays``.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping

import numpy as np

from workbench.core.curves.downsampling import Curve

_NAMES = "names"


def encode_curves(curves: Mapping[str, Curve]) -> bytes:
    """Return the curves, by name, as bytes."""
    arrays = {_NAMES: np.frombuffer(json.dumps([*curves]).encode(), np.uint8)}
    for number, curve in enumerate(curves.values()):
        arrays |= {f"{number}/{name}": array for name, array in curve.arrays().items()}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def decode_curves(document: bytes, version: int = 0) -> dict[str, Curve]:
    """Return the curves that ``encode_curves`` wrote, by name.

    Args:
        version: Stored with all buckets.

    Raises:
        ValueError: The bytes are damaged, or were written by something else.
    """
    try:
        with np.load(io.BytesIO(document), allow_pickle=False) as file:
            names = json.loads(file[_NAMES].tobytes())
            members = [key.partition("/") for key in file.files]
            return {
                name: Curve.from_arrays(
                    {key: file[f"{number}/{key}"] for at, _, key in members if at == str(number)},
                    version,
                )
                for number, name in enumerate(names)
            }
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, EOFError, OSError) as error:
        raise ValueError("these are no saved curves") from error
