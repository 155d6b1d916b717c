"""Each block of a codec comes back as it was announced, and as near as its bits allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange import costs
from workbench.engine.exchange.codecs import (
    BLOCK,
    UNIT,
    Elementwise,
    Half,
    TorchHalf,
    elementwise,
    wire_bytes,
)
from workbench.engine.exchange.compressed import Compressed

# What rounding may lose: of a number in half precision or bfloat16, of the largest in eight bits.
LOST = {Codec.FP16: 2.0**-11, Codec.BF16: 2.0**-8, Codec.INT8: 1 / 253}


def coded(codec: Codec, values: Any) -> tuple[bool, Any, Any]:
    """Return whether values were taken, what was announced, and what was decoded."""
    code = elementwise(codec)
    return coded_by(code, code, values)


def alone(codec: Codec, size: int) -> Compressed:
    """Return an exchange with another rank from which only zeros come."""
    return costs.made(codec, costs._Silent(2, size), [(size,)], 4, lambda flat: None)


def coded_by(code: Elementwise, reader: Elementwise, values: Any) -> tuple[bool, Any, Any]:
    wire, room, back = (
        np.zeros(wire_bytes(code, len(values)), "u1"),
        np.zeros_like(values),
        np.zeros_like(values),
    )
    finite = code.encode(values, wire, room)
    if finite:
        reader.decode(wire, back)
    return finite, room, back


@pytest.mark.parametrize("codec", LOST)
@pytest.mark.parametrize("size", [1e-44, 1e-30, 1e-6, 1.0, 1e9, 1e38])
def test_a_block_comes_back_as_announced_and_near_its_values(codec, size) -> None:
    values = np.random.default_rng(0).uniform(-1, 1, BLOCK).astype("f4") * np.float32(size)
    values[:3] = 0, size, -size

    finite, announced, back = coded(codec, values)

    assert finite
    assert announced.tobytes() == back.tobytes()  # zeros have their sign too
    least = np.finfo("f4").smallest_subnormal
    if size < 1e-37:  # single precision itself has fewer digits there
        assert np.abs(back).max() <= np.abs(values).max() + least
        return
    of = np.abs(values).max() if codec is Codec.INT8 else np.abs(values)
    floor = np.abs(values).max() * 2.0**-38  # half precision's smallest, beside the largest
    assert (np.abs(back - values) <= LOST[codec] * of + floor).all()
    assert back[0] == 0


@pytest.mark.parametrize("codec", LOST)
@pytest.mark.parametrize("size", [1, BLOCK, BLOCK + 1, UNIT - 1, UNIT])
def test_blocks_are_encoded_together_as_near_as_each_alone(codec, size) -> None:
    values = np.random.default_rng(0).uniform(-1, 1, size).astype("f4")
    values *= np.float32(10.0) ** -(np.arange(size) // BLOCK)  # each block has its own size

    finite, announced, back = coded(codec, values)

    assert finite
    assert announced.tobytes() == back.tobytes()
    for start in range(0, size, BLOCK):
        own, its = values[start : start + BLOCK], back[start : start + BLOCK]
        of = np.abs(own).max() if codec is Codec.INT8 else np.abs(own)
        assert (np.abs(its - own) <= LOST[codec] * of + 2.0**-38).all()


def test_half_precision_is_that_of_ieee_754() -> None:
    values = np.float32(2.0) ** np.linspace(-13, 13.9, BLOCK).astype("f4")
    values[::2] *= -1

    _, _, back = coded(Codec.FP16, values)

    theirs = values.astype("f2").astype("f4")
    assert np.mean(back == theirs) > 0.999  # ties are rounded away from zero here
    assert np.abs(back - theirs).max() <= np.spacing(np.float16(2**13))


@pytest.mark.parametrize("codec", LOST)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused(codec, bad) -> None:
    values = np.ones(1000, "f4")
    values[777] = bad

    assert not coded(codec, values)[0]


@pytest.mark.torch
@pytest.mark.parametrize("size", [1e-44, 1e-30, 1.0, 1e38])
def test_ranks_with_and_without_pytorch_understand_each_other(size) -> None:
    torch = pytest.importorskip("torch", reason="torch is an extra that the tests do without")
    values = np.random.default_rng(0).uniform(-1, 1, BLOCK).astype("f4") * np.float32(size)
    values[:3] = 0, size, -size
    assert type(elementwise(Codec.FP16)) is TorchHalf

    for writer, reader in ((TorchHalf(torch), Half()), (Half(), TorchHalf(torch))):
        finite, announced, back = coded_by(writer, reader, values)
        assert finite
        assert announced.tobytes() == back.tobytes()
    nearest = coded_by(TorchHalf(torch), Half(), values)[2]
    floor = np.abs(values).max() * 2.0**-38
    assert (np.abs(nearest - values) <= LOST[Codec.FP16] * np.abs(values) + floor).all()


@pytest.mark.parametrize("codec", LOST)
def test_a_sum_that_is_not_finite_leaves_nothing_of_the_step_before(codec) -> None:
    exchange, buffer = alone(codec, 1000), np.ones(1000, "f4")
    assert exchange.mean(buffer, measure=False)
    assert buffer[777] > 0
    gradients = np.ones(1000, "f4")
    gradients[777] = np.inf

    assert not exchange.mean(buffer, measure=False, gradients=[gradients])
    assert not buffer.any()  # what the other ranks decode, too


@pytest.mark.parametrize("codec", LOST)
def test_all_but_half_precision_feed_back_what_a_step_loses(codec) -> None:
    exchange, buffer = alone(codec, UNIT), np.zeros(UNIT, "f4")
    gradients = [np.random.default_rng(0).standard_normal(UNIT, "f4")]

    steps = []
    for measure in (True, False):
        assert exchange.mean(buffer, measure=measure, gradients=gradients)
        steps.append(buffer.copy())

    # On a ring of two, the rank adds up the second half of the buffer.
    own, sent = steps[0][UNIT // 2 :], gradients[0][UNIT // 2 :]
    assert np.linalg.norm(2 * own - sent) <= LOST[codec] * np.abs(sent).max() * len(sent) ** 0.5
    assert 0 < exchange.error < LOST[codec] * 4
    is_fed_back = bool((steps[0] != steps[1]).any())
    assert is_fed_back == (codec is not Codec.FP16) == ("lost" in exchange.state())
    exchange.restore({"lost": np.zeros(UNIT, "f4")})  # as of an older snapshot
