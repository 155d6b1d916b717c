"""The controller's heartbeat waits for no clock, and it ends with its cluster."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import psutil
import pytest
import zmq
from ipyparallel.controller import heartmonitor
from tornado.ioloop import PeriodicCallback
from zmq.eventloop.zmqstream import ZMQStream

from tests.cluster.conftest import PRELUDE, Bench
from workbench.cluster import controller
from workbench.cluster.mpi_cluster import MpiCluster

NOW = 1_700_000_000.0


@pytest.fixture
def repeated() -> PeriodicCallback:
    """Give what is called twice a second, and was due just now."""
    made = PeriodicCallback(lambda: None, 500)
    made._next_timeout = NOW
    return made


@pytest.mark.parametrize("shift", [0.0, -3600.0, 7200.0])
def test_the_next_call_comes_within_a_period(repeated: PeriodicCallback, shift: float) -> None:
    controller._update_next(repeated, NOW + shift + 0.01)

    assert 0.0 < repeated._next_timeout - (NOW + shift + 0.01) <= 0.5


def test_calls_keep_their_rhythm_while_no_one_sets_the_clock(repeated: PeriodicCallback) -> None:
    controller._update_next(repeated, NOW + 0.2)

    assert repeated._next_timeout == NOW + 0.5


def test_an_engine_is_registered_before_the_next_heartbeat_is_due() -> None:
    context = zmq.Context()

    async def observe() -> None:
        """Have two engines come; a heartbeat is due each minute."""
        kinds = {"ping": heartmonitor.zmq.PUB, "pong": zmq.ROUTER, "monitor": zmq.XPUB}
        bound = {name: context.socket(kind) for name, kind in kinds.items()}
        for name, one in bound.items():
            one.bind(f"inproc://{name}")
        hub = _connected(context, zmq.SUB, "monitor")
        streams = {f"{name}_stream": ZMQStream(one) for name, one in bound.items()}
        heartmonitor.HeartMonitor(period=60_000, **streams).start()
        for name in (b"first", b"second"):  # the second subscribes to what the first has
            pong = _connected(context, zmq.DEALER, "pong", name)
            with pong, _connected(context, zmq.SUB, "ping") as ping:
                pong.send((await _received(ping))[-1])
                assert name in (await _received(hub))[-1]
        hub.close()

    try:
        asyncio.run(observe())
    finally:
        context.destroy(linger=0)


def _connected(context: Any, kind: int, name: str, identity: bytes = b"") -> Any:
    found = context.socket(kind)
    if identity:
        found.setsockopt(zmq.IDENTITY, identity)
    if kind == zmq.SUB:
        found.subscribe(b"")
    found.connect(f"inproc://{name}")
    return found


async def _received(one: Any) -> list[bytes]:
    """Wait for a message while the monitor works in the same loop."""
    async with asyncio.timeout(20):
        while not one.poll(0):
            await asyncio.sleep(0.01)
    return [*one.recv_multipart()]


@pytest.mark.mpi
def test_schedulers_that_hear_no_signal_end_with_their_cluster(tmp_path) -> None:
    cluster = MpiCluster(tmp_path)
    cluster.open({})
    try:
        Bench(cluster, tmp_path, PRELUDE).ready(1)
        schedulers = psutil.Process(cluster._cluster.controller.pid).children(recursive=True)
        for one in schedulers:
            one.send_signal(signal.SIGSTOP)
    finally:
        cluster.close()

    assert schedulers
    assert psutil.wait_procs(schedulers, timeout=5)[1] == []
