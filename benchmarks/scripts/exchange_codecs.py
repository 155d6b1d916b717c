"""Measure what each codec costs a core of this machine, and the share of the bytes that it sends.

``python -m benchmarks.scripts.exchange_codecs``, best with OPENBLAS_NUM_THREADS=1: on the
gradients of a network as large as ResNet-50, with the code of an exchange, error feedback included.
"""

from __future__ import annotations

import math
import platform
from pathlib import Path

from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange.bucket_layout import DIRECT_BYTES
from workbench.engine.exchange.costs import coded_bytes, coding_seconds
from workbench.engine.exchange.powersgd import is_worthwhile

from .exchange_memory import shapes

RANK = 4
FEW, MANY = 2, 8


def measure(codec: Codec) -> str:
    """Return one codec's coding per byte of gradients, in the exchange model's terms."""
    large = [one for one in shapes() if 4 * numbers(one) >= DIRECT_BYTES]
    if codec is Codec.POWERSGD:
        large = [one for one in large if is_worthwhile(one, RANK)]
    nbytes = 4 * sum(map(numbers, large))
    few, many = (coding_seconds(codec, RANK, n, large) / 4 for n in (FEW, MANY))
    tiny = [(64, 64)] * (len(large) if codec is Codec.POWERSGD else 1)
    fixed = coding_seconds(codec, RANK, MANY, tiny) * sum(map(numbers, tiny))
    sent = coded_bytes(codec, RANK, MANY, large)
    if codec is Codec.TOPK:  # each rank sends to all others and adds what comes from each
        ratio, decode = sent / (MANY - 1) / nbytes, (many - few) / (MANY - FEW)
        encode = few - decode
    else:
        ratio, decode, encode = sent / (2 * (MANY - 1) / MANY) / nbytes, 0.0, many
    return (
        f"{codec}: ratio {ratio:.4f}, encode {encode * 1e9:.2f} ns, decode {decode * 1e9:.3f} ns a "
        f"byte, {fixed * 1e3:.1f} ms beside; {few * nbytes * 1e3:.0f} ms of "
        f"{nbytes / 1e6:.0f} MB on {FEW} ranks, {many * nbytes * 1e3:.0f} ms on {MANY}"
    )


def numbers(shape: tuple[int, ...]) -> int:
    """Return how many elements there are."""
    return math.prod(shape)


def processor() -> str:
    """Return what this machine's processor is called."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def main() -> None:
    print(processor(), flush=True)
    for codec in Codec:
        if codec is not Codec.NONE:
            print(measure(codec), flush=True)


if __name__ == "__main__":
    main()
