"""What a host's network carries is seen, so that a transfer is not taken for a hang."""

from __future__ import annotations

import socket

from workbench.engine import rank
from workbench.engine.rank import HostTraffic

NBYTES = 50_000


def test_bytes_that_are_sent_are_counted() -> None:
    traffic = HostTraffic()
    first = traffic.measure()
    with socket.socket(type=socket.SOCK_DGRAM) as there, socket.socket(type=socket.SOCK_DGRAM) as s:
        there.bind(("127.0.0.1", 0))
        s.sendto(bytes(NBYTES), there.getsockname())
        rate = traffic.measure()

    assert first == 0.0
    assert rate > NBYTES  # within less than a second


def test_a_host_without_that_file_has_no_known_traffic(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(rank, "INTERFACES", tmp_path / "none")
    traffic = HostTraffic()

    assert [traffic.measure(), traffic.measure()] == [0.0, 0.0]
