"""The end of a process can be waited for by a descriptor, with others."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator

import pytest

from workbench.cluster.process_monitor import ProcessEnds

SECONDS = 10.0


class Waited:
    """The descriptors that are waited for."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []
        self.ends = ProcessEnds(self.descriptors.append, self.descriptors.remove)

    def readable(self, seconds: float = SECONDS) -> list[int]:
        """Wait until one can be read."""
        return select.select(self.descriptors, [], [], seconds)[0]


@pytest.fixture
def waited() -> Waited:
    return Waited()


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_the_end_of_a_process_is_noticed_once(waited, process) -> None:
    waited.ends.watch(process.pid)
    waited.ends.watch(process.pid)
    assert len(waited.descriptors) == 1
    assert not waited.ends.take(waited.readable(0))

    process.kill()

    assert waited.ends.take(waited.readable())
    assert not waited.descriptors
    assert not waited.ends.take([])


def test_a_process_whose_end_was_noticed_is_not_watched_again(waited, process) -> None:
    """A zombie's descriptor can be read forever, and would end each wait."""
    waited.ends.watch(process.pid)
    process.kill()
    waited.ends.take(waited.readable())

    waited.ends.watch(process.pid)

    assert not waited.descriptors


def test_a_process_that_is_forgotten_leaves_no_descriptor(waited, process) -> None:
    before = os.listdir("/proc/self/fd")
    waited.ends.watch(process.pid)

    waited.ends.forget(process.pid)

    assert not waited.descriptors
    assert waited.ends.take([])
    assert not waited.ends.take([])
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_no_process_is_no_end(waited) -> None:
    waited.ends.watch(2**22 + 1)

    assert not waited.descriptors
