"""The compiled checksum is zlib's, whatever the number of bytes and wherever they begin."""

from __future__ import annotations

import random
import zlib

import pytest

checksum = pytest.importorskip(
    "workbench.engine.snapshot.checksum", reason="built without a C compiler, or elsewhere"
)
# Around what it folds at once, in both of its ways, and with what is left over.
SIZES = [*range(300), 511, 512, 513, 1_000, 4_096 + 77, 100_000]


@pytest.mark.parametrize("start", [0, 1, 13])
def test_it_is_that_of_zlib(start: int) -> None:
    content = memoryview(random.Random(1).randbytes(start + max(SIZES)))

    for size in SIZES:
        piece = content[start : start + size]
        assert checksum.crc32(piece) == zlib.crc32(piece)


def test_it_continues_that_of_the_pieces_before() -> None:
    content, found = random.Random(2).randbytes(50_000), 0

    for begin, end in ((0, 3), (3, 1_000), (1_000, 1_000), (1_000, 50_000)):
        found = checksum.crc32(content[begin:end], found)

    assert found == zlib.crc32(content)
