"""A core's time to compress the gradients of ResNet-50 on eight ranks: compiled, and by NumPy.

The exchange's own code, error feedback included; messages take no time. It is processor time, so
other programs count only by the caches that they take.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from unittest.mock import patch

from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange import codecs
from workbench.engine.exchange.bucket_layout import DIRECT_BYTES
from workbench.engine.exchange.costs import coding_seconds

from .figures import Row, interleaved
from .place import Place
from .scripts.exchange_memory import shapes

RANKS = 8
COMPILED, NUMPY = "compiled", "NumPy"
CODECS = (Codec.INT8, Codec.FP16, Codec.BF16)


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Compress both ways in turn, with each codec."""
    note = f"{RANKS} ranks, one core"
    if not codecs.has_kernels():
        return [Row("compression", "s", None, note="nothing was compiled here")]
    large = [one for one in shapes() if 4 * math.prod(one) >= DIRECT_BYTES]
    numbers = sum(map(math.prod, large))

    def compiled(codec: Codec) -> float:
        return numbers * coding_seconds(codec, 0, RANKS, large)

    def by_numpy(codec: Codec) -> float:
        with patch.object(codecs, "codec_kernels", None):
            return compiled(codec)

    rows = []
    for codec in CODECS:
        ways = {
            COMPILED: lambda codec=codec: compiled(codec),
            NUMPY: lambda codec=codec: by_numpy(codec),
        }
        found = interleaved(rounds, ways, say)
        what = f"compression of {numbers / 1e6:.1f} M numbers by {codec}"
        rows.append(Row(what, "s", *found.values(), note=note))
    return rows
