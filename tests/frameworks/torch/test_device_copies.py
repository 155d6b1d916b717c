"""A GPU's tensors are copied while the training continues; a stand-in has the GPU's streams."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class Stream:
    """Notes what it waits for."""

    def __init__(self, name: str, noted: list[str]) -> None:
        self.name, self._noted = name, noted

    def wait_stream(self, other: Stream) -> None:
        self._noted.append(f"{self.name} waits for {other.name}")

    def record_event(self) -> Stream:
        return self

    def synchronize(self) -> None:
        self._noted.append(f"the host waits for {self.name}")


class Gpu:
    """Stands for ``torch.cuda``; its tensors are the host's."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def Stream(self, device: Any) -> Stream:  # PyTorch's name
        return Stream("the copy", self.noted)

    def current_stream(self, device: Any) -> Stream:
        return Stream("the step", self.noted)

    @contextmanager
    def stream(self, stream: Stream):
        self.noted.append(f"on {stream.name}")
        yield


@pytest.fixture
def copies(monkeypatch) -> Callable[[], tuple[Any, Gpu]]:
    from workbench.frameworks.torch import device_copies

    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
    gpu = Gpu()
    return device_copies.DeviceCopies(gpu), gpu


def test_the_step_waits_for_no_copy_and_the_writer_does(copies) -> None:
    begun, gpu = copies
    value = torch.arange(4.0)

    host = begun.begin(value, None)
    assert gpu.noted == ["the copy waits for the step", "on the copy"]
    value += 1
    begun.wait()

    assert gpu.noted[-1] == "the host waits for the copy"
    assert host.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_an_earlier_copy_is_overwritten_where_it_fits(copies) -> None:
    begun, _ = copies
    first = begun.begin(torch.zeros(3), None)

    assert begun.begin(torch.ones(3), first) is first
    assert first.tolist() == [1.0] * 3
    assert begun.begin(torch.ones(4), first) is not first


def test_the_step_waits_where_the_gpu_has_no_room_for_a_copy(copies, monkeypatch) -> None:
    begun, gpu = copies

    def fail(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.Tensor, "clone", fail)

    host = begun.begin(torch.ones(2), None)

    assert host.tolist() == [1.0, 1.0]
    assert gpu.noted[-1] == "the step waits for the copy"
