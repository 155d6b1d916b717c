"""The compiled module of native/checksum.c, which has zlib's function of the same name."""

from typing import Any

SOURCES: str

def crc32(data: Any, value: int = 0, /) -> int: ...
