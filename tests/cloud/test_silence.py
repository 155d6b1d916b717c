"""The kernel says how long the other end of a connection has been silent."""

from __future__ import annotations

import socket
import time

from workbench.cloud.silence import LOOK_SECONDS, SilenceWatch, probe, silence


def connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        return here, server.accept()[0]


def test_a_connection_is_silent_since_data_last_came() -> None:
    here, there = connected()
    with here, there:
        time.sleep(0.3)
        before = silence(here)
        there.sendall(b"!")
        here.recv(1)
        after = silence(here)

    assert before is not None
    assert 0.2 < before < 60
    assert after is not None
    assert after < before
    assert silence(here) is None


def test_the_kernel_probes_an_idle_connection() -> None:
    here, there = connected()
    with here, there:
        probe(here)

        assert here.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert here.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 1


def test_a_lost_connection_stays_lost_and_a_closed_one_is_dropped() -> None:
    now, silent = 0.0, {}
    watch = SilenceWatch(lambda one: silent.get(one, 0.0), lambda: now)
    pairs = [connected() for _ in range(3)]
    first, second, third = (watch.add(here) for here, _ in pairs)
    silent[pairs[0][0]], silent[pairs[1][0]] = 2.9, None
    now += LOOK_SECONDS

    assert [watch.is_lost(key) for key in (first, second, third)] == [True, False, False]
    assert repr(watch) == "<SilenceWatch of 2 connections, 1 lost>"
    silent[pairs[0][0]] = 0.0
    now += LOOK_SECONDS
    assert watch.is_lost(first)
    watch.remove(first)
    assert not watch.is_lost(first)
    for one in (end for pair in pairs for end in pair):
        one.close()
