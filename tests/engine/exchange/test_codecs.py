"""Each block of a codec comes back as it was announced, and as near as its bits allow."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import pytest

from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange import codecs, costs
from workbench.engine.exchange.codecs import (
    BLOCK,
    UNIT,
    Bfloat16Codec,
    ElementCodec,
    HalfCodec,
    Int8Codec,
    NativeCodec,
    TorchHalfCodec,
    build_element_codec,
    has_kernels,
    wire_bytes,
)
from workbench.engine.exchange.compressed import Compressed

# What rounding may lose: of a number in half precision or bfloat16, of the largest in eight bits.
LOST = {Codec.FP16: 2.0**-11, Codec.BF16: 2.0**-8, Codec.INT8: 1 / 253}


class Encoded(NamedTuple):
    """What became of some values."""

    finite: bool
    wire: Any
    lost: Any
    mean: Any


def needs_kernels() -> None:
    if not has_kernels():
        reason = "the package was built without a C compiler, or this processor lacks AVX2"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


@pytest.fixture(params=["numpy", "kernels"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have codecs made of NumPy's operations, or of the compiled kernels."""
    if request.param == "kernels":
        needs_kernels()
    else:
        monkeypatch.setattr(codecs, "codec_kernels", None)
    return request.param


def encoded(code: ElementCodec, values: Any, came: Any = None, ranks: int = 1) -> Encoded:
    wire = np.full(wire_bytes(code, len(values)), 7, "u1")
    lost, mean = np.full_like(values, 7), np.full_like(values, 7)
    finite = code.encode(values.copy(), wire, came=came, lost=lost, mean=mean, ranks=ranks)
    return Encoded(finite, wire, lost, mean)


def coded(codec: Codec, values: Any) -> tuple[bool, Any, Any]:
    """Return whether values were taken, what was announced, and what was decoded."""
    code = build_element_codec(codec)
    return coded_by(code, code, values)


def alone(codec: Codec, size: int) -> Compressed:
    """Return an exchange with another rank from which only zeros come."""
    return costs.build_codec(codec, costs._Silent(2, size), [(size,)], 4, lambda flat: None)


def coded_by(code: ElementCodec, reader: ElementCodec, values: Any) -> tuple[bool, Any, Any]:
    found, back = encoded(code, values), np.zeros_like(values)
    if found.finite:
        reader.decode(found.wire, back)
        assert (found.lost == values - found.mean).all()
    return found.finite, found.mean, back


@pytest.mark.parametrize("codec", LOST)
@pytest.mark.parametrize("size", [1e-44, 1e-30, 1e-6, 1.0, 1e9, 1e38])
def test_a_block_comes_back_as_announced_and_near_its_values(by, codec, size) -> None:
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
def test_blocks_are_encoded_together_as_near_as_each_alone(by, codec, size) -> None:
    values = np.random.default_rng(0).uniform(-1, 1, size).astype("f4")
    values *= np.float32(10.0) ** -(np.arange(size) // BLOCK)  # each block has its own size

    finite, announced, back = coded(codec, values)

    assert finite
    assert announced.tobytes() == back.tobytes()
    for start in range(0, size, BLOCK):
        own, its = values[start : start + BLOCK], back[start : start + BLOCK]
        of = np.abs(own).max() if codec is Codec.INT8 else np.abs(own)
        assert (np.abs(its - own) <= LOST[codec] * of + 2.0**-38).all()


def test_half_precision_is_that_of_ieee_754(by) -> None:
    values = np.float32(2.0) ** np.linspace(-13, 13.9, BLOCK).astype("f4")
    values[::2] *= -1

    _, _, back = coded(Codec.FP16, values)

    theirs = values.astype("f2").astype("f4")
    assert np.mean(back == theirs) > 0.999  # ties are rounded away from zero here
    assert np.abs(back - theirs).max() <= np.spacing(np.float16(2**13))


@pytest.mark.parametrize("codec", LOST)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused(by, codec, bad) -> None:
    values = np.ones(1003, "f4")
    values[777] = bad

    found = encoded(build_element_codec(codec), values)

    assert not found.finite
    assert [part.any() for part in found[1:]] == [False, False, False]


@pytest.mark.parametrize("like", [Int8Codec, HalfCodec, Bfloat16Codec])
@pytest.mark.parametrize("size", [1, 7, 8, BLOCK - 3, BLOCK + 5, UNIT])
@pytest.mark.parametrize("ranks", [1, 3])
def test_compiled_kernels_do_what_numpy_does(like, size, ranks) -> None:
    needs_kernels()
    draw = np.random.default_rng(size)
    values = [draw.standard_normal(size, "f4") * np.float32(1e-3) for _ in range(2)]
    stepwise = like()
    came = encoded(stepwise, values[0]).wire

    wanted = encoded(stepwise, values[1], came, ranks)
    found = encoded(native(like), values[1], came, ranks)

    if like is HalfCodec:  # of two that are equally near, NumPy's operations take the larger
        step = np.spacing(np.abs(wanted.mean).astype("f2") + np.float16(2**-14)).astype("f4")
        assert (np.abs(found.mean - wanted.mean) <= step).all()
        assert np.mean(found.mean == wanted.mean) > 0.99 or size < BLOCK
    else:
        assert found.wire.tobytes() == wanted.wire.tobytes()
        assert found.lost.tobytes() == wanted.lost.tobytes()
        assert found.mean.tobytes() == wanted.mean.tobytes()
    backs = [np.empty(size, "f4"), np.empty(size, "f4")]
    for code, back in zip((stepwise, native(like)), backs, strict=True):
        code.decode(wanted.wire, back)
    assert backs[0].tobytes() == backs[1].tobytes() == wanted.mean.tobytes()


@pytest.mark.parametrize("part", ["values", "wire", "came", "lost", "mean"])
def test_compiled_kernels_refuse_a_buffer_of_another_size(part) -> None:
    needs_kernels()
    code, size = native(Int8Codec), 1000
    nbytes = wire_bytes(code, size)
    parts = {"values": np.ones(size, "f4"), "wire": np.empty(nbytes, "u1")}
    parts |= {"came": np.zeros(nbytes, "u1")}
    parts |= {"lost": np.empty(size, "f4"), "mean": np.empty(size, "f4")}
    parts[part] = parts[part][:-4]

    with pytest.raises(ValueError, match="bytes in place of"):
        code.encode(**parts)


def native(like: type) -> NativeCodec:
    kinds = {Int8Codec: "INT8", HalfCodec: "HALF", Bfloat16Codec: "BFLOAT16"}
    return NativeCodec(getattr(codecs.codec_kernels, kinds[like]), like)


@pytest.mark.torch
@pytest.mark.parametrize("size", [1e-44, 1e-30, 1.0, 1e38])
def test_ranks_with_and_without_pytorch_understand_each_other(size, monkeypatch) -> None:
    monkeypatch.setattr(codecs, "codec_kernels", None)
    torch = pytest.importorskip("torch", reason="torch is an extra that the tests do without")
    values = np.random.default_rng(0).uniform(-1, 1, BLOCK).astype("f4") * np.float32(size)
    values[:3] = 0, size, -size
    assert type(build_element_codec(Codec.FP16)) is TorchHalfCodec

    for writer, reader in (
        (TorchHalfCodec(torch), HalfCodec()),
        (HalfCodec(), TorchHalfCodec(torch)),
    ):
        finite, announced, back = coded_by(writer, reader, values)
        assert finite
        assert announced.tobytes() == back.tobytes()
    nearest = coded_by(TorchHalfCodec(torch), HalfCodec(), values)[2]
    floor = np.abs(values).max() * 2.0**-38
    assert (np.abs(nearest - values) <= LOST[Codec.FP16] * np.abs(values) + floor).all()


@pytest.mark.torch
@pytest.mark.parametrize("size", [1e-44, 1e-30, 1.0, 1e38])
def test_compiled_kernels_convert_as_pytorch_does(size) -> None:
    needs_kernels()
    torch = pytest.importorskip("torch", reason="torch is an extra that the tests do without")
    values = np.random.default_rng(0).uniform(-1, 1, BLOCK).astype("f4") * np.float32(size)

    found, wanted = (encoded(code, values) for code in (native(HalfCodec), TorchHalfCodec(torch)))

    assert found.wire.tobytes() == wanted.wire.tobytes()
    assert found.lost.tobytes() == wanted.lost.tobytes()


@pytest.mark.parametrize("codec", LOST)
def test_a_sum_that_is_not_finite_leaves_nothing_of_the_step_before(by, codec) -> None:
    exchange, buffer = alone(codec, 1000), np.ones(1000, "f4")
    assert exchange.mean(buffer, measure=False)
    assert buffer[777] > 0
    gradients = np.ones(1000, "f4")
    gradients[777] = np.inf

    assert not exchange.mean(buffer, measure=False, gradients=[gradients])
    assert not buffer.any()  # what the other ranks decode, too


@pytest.mark.parametrize("codec", LOST)
def test_all_but_half_precision_feed_back_what_a_step_loses(by, codec) -> None:
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
    exchange.restore({"lost": np.zeros(UNIT, "f4")})  # from an older snapshot
