"""The compiled module of native/codec_kernels.c; codecs.py says what the arguments are."""

from workbench.engine.exchange.transport import Array

SOURCES: str

INT8: int
HALF: int
BFLOAT16: int
IS_SUPPORTED: bool
"""Whether this processor has the instructions; without them the functions raise."""

def encode(
    codec: int,
    block: int,
    values: Array,
    wire: Array,
    came: Array | None,
    lost: Array | None,
    mean: Array | None,
    ranks: int,
) -> bool: ...
def decode(codec: int, block: int, wire: Array, values: Array) -> None: ...
