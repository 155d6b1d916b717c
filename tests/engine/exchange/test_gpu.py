"""Which gradients NCCL averages, decided without a GPU; ``tests/gpu/run.py`` does it on one."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy
import pytest
from mpi4py import MPI

from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange import nccl
from workbench.engine.exchange.nccl import nccl_obstacle
from workbench.frameworks.chainer.communicator import DeviceExchange
from workbench.frameworks.chainer.create import substitute

HOST = numpy.zeros(3)


class Ranks:
    """A communicator of this rank, rank 0, and others that say the given."""

    rank = 0

    def __init__(self, *others: tuple[bool, bytes]) -> None:
        self.others = others
        self.calls = 0

    def allreduce(self, own: bool, op: MPI.Op) -> bool:
        assert op == MPI.LOR
        return own

    def allgather(self, own: tuple[bool, bytes]) -> list[tuple[bool, bytes]]:
        self.calls += 1
        return [own, *self.others]


def on_gpu(number: int) -> SimpleNamespace:
    return SimpleNamespace(data=SimpleNamespace(device=SimpleNamespace(id=number)))


@pytest.fixture(autouse=True)
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this machine have NCCL and the GPUs A and B."""
    cupy = ModuleType("cupy")
    runtime = SimpleNamespace(getDeviceProperties=lambda number: {"uuid": (b"A", b"B")[number]})
    cupy.cuda = SimpleNamespace(runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(nccl, "has_nccl", lambda: True)


@pytest.mark.parametrize(
    ("own", "other", "obstacle"),
    [
        (0, (True, b"B"), ""),
        (0, (True, b"A"), "several ranks share a GPU, which NCCL does not support"),
        (0, (True, b""), "not every rank has NCCL"),
        (0, (False, b""), "not every rank has a GPU"),
        (None, (True, b"A"), "not every rank has a GPU"),
    ],
)
def test_nccl_needs_a_gpu_of_its_own_for_each_rank(own, other, obstacle) -> None:
    assert nccl_obstacle(Ranks(other), own) == obstacle


def test_ranks_without_nccl_do_not_use_it(monkeypatch) -> None:
    monkeypatch.setattr(nccl, "has_nccl", lambda: False)

    assert nccl_obstacle(Ranks((True, b"B")), 0) == "not every rank has NCCL"


@pytest.mark.parametrize(
    ("parameters", "takes"),
    [
        ([on_gpu(0), on_gpu(0)], True),
        ([on_gpu(1)], False),  # the other rank's
        ([on_gpu(0), on_gpu(1)], False),  # of a model on two
        ([on_gpu(0), SimpleNamespace(data=HOST)], False),
        ([SimpleNamespace(data=HOST)], False),
        ([], False),
    ],
)
def test_nccl_averages_what_is_on_one_gpu(parameters, takes) -> None:
    assert DeviceExchange(Ranks((True, b"B")), Codec.NONE).takes(parameters) is takes


def test_ranks_agree_once_and_rank_0_says_why_nccl_is_not_used(capsys) -> None:
    ranks = Ranks((True, b"A"))
    device = DeviceExchange(ranks, Codec.FP16)

    assert not any(device.takes([on_gpu(0)]) for _ in range(3))
    assert ranks.calls == 1
    said = capsys.readouterr().out
    assert said == (
        "workbench: gradients go through host memory: "
        "several ranks share a GPU, which NCCL does not support.\n"
    )


def test_without_cupy_on_any_rank_no_step_asks(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "cupy")
    ranks = Ranks((False, b""))

    assert not DeviceExchange(ranks, Codec.NONE).takes([SimpleNamespace(data=HOST)])
    assert not ranks.calls


@pytest.mark.mpi
def test_nccl_is_chainermn_s_own_also_where_a_run_s_option_replaces_its_communicators(
    monkeypatch,
) -> None:
    monkeypatch.setenv("WORKBENCH_COMMUNICATOR", "auto")
    monkeypatch.setattr("chainermn.nccl._available", False)

    with substitute(), pytest.raises(RuntimeError, match="PureNcclCommunicator requires NCCL"):
        DeviceExchange(MPI.COMM_SELF, Codec.NONE).mean(None, zero_fill=False)


@pytest.mark.parametrize(("codec", "may"), [(Codec.INT8, True), (Codec.NONE, False)])
def test_nccl_is_not_asked_about_with_a_codec_or_an_algorithm_of_ours(codec, may) -> None:
    ranks = Ranks((True, b"B"))

    assert not DeviceExchange(ranks, codec, may_nccl=may).takes([on_gpu(0)])
    assert not ranks.calls
