"""Links, exchanges and disks are measured: on one machine, and between hosts with other links."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from benchmarks.place import Place
from benchmarks.shaped import ShapedHosts
from tests.rehearsal.hosts import Hosts, RehearsalHost, why_not
from tests.waiting import until
from workbench.core.performance.bandwidth import (
    BandwidthSurvey,
    Exchange,
    Measurement,
    Pair,
    judge,
    measurement_of,
    sentence,
)
from workbench.engine.measurement.nodes import disk, read_rate, source
from workbench.engine.measurement.survey import _names

pytestmark = pytest.mark.timeout(480)  # what was measured on busy cores is measured again

PROGRAMS = Path(__file__).parent / "programs"
PAYLOAD = 1448 / 1514  # of an Ethernet frame, what TCP carries
USUAL, SLOW = 100.0, 30.0  # Mbit/s
NEAR = 0.05
ATTEMPTS = 8


@pytest.fixture(scope="module")
def shaped() -> Iterator[ShapedHosts]:
    """Three hosts; the last one has a slow link."""
    if reason := why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with Place() as place, Hosts(3) as hosts:
        for host in hosts:
            host.shape(USUAL)
        hosts[2].shape(SLOW)
        yield ShapedHosts(hosts, place, USUAL)


@pytest.fixture(scope="module")
def between(shaped) -> Measurement:
    """What was measured between the hosts; again where other programs took the cores."""
    for _ in range(ATTEMPTS):
        found = shaped.mpi(PROGRAMS / "measured_hosts.py", "/tmp", "0", nodes=3)
        measured = measurement_of(found[0]["measurement"])
        links = all(pair.bandwidth == let_through(pair) for pair in measured.survey.pairs)
        if links and all(map(partial(is_held, measured.survey), large(measured.survey))):
            break
    return measured


def large(survey: BandwidthSurvey) -> list[Exchange]:
    """Return the exchanges that took longer than what the shape lets pass at once."""
    return [one for one in survey.exchanges if one.nbytes >= 1_000_000]


def is_held(survey: BandwidthSurvey, exchange: Exchange) -> bool:
    """Return whether each byte took as long as the slowest link takes to let it through once."""
    return exchange.nbytes / exchange.seconds <= (1 + NEAR) * survey.slowest.bandwidth


def let_through(pair: Pair) -> object:
    """Return what the link of two hosts lets through, in bytes a second."""
    shape = SLOW if "node3" in (pair.source, pair.target) else USUAL
    return pytest.approx(PAYLOAD * shape / 8e-6, rel=NEAR)


def iperf3(source: RehearsalHost, target: RehearsalHost) -> float:
    """Return the bytes a second that iperf3 moves from one host to another."""
    server = target.popen(
        "env", "TMPDIR=/tmp", "iperf3", "-s", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: ":5201" in target.run("ss", "-ltn"), what="iperf3")
        output = source.run("env", "TMPDIR=/tmp", "iperf3", "-c", target.address, "-t", "3", "-J")
    finally:
        server.kill()
        server.wait()
        target.run("pkill", "-x", "iperf3")
    return json.loads(output)["end"]["sum_received"]["bits_per_second"] / 8


@pytest.mark.mpi
@pytest.mark.contract
@pytest.mark.either_mpi
def test_ranks_of_one_node_are_measured_and_may_stop_between_two_steps(on_ranks) -> None:
    first, second = on_ranks(PROGRAMS / "measured_node.py", 2)
    found = measurement_of(first["measurement"])

    assert found.survey.pairs == ()
    assert {one.nbytes for one in found.survey.exchanges} >= {1_000, 1_024_000}
    assert len({one.way for one in found.survey.exchanges}) == 2
    assert {rate.what for rate in found.rates} >= {
        "between two ranks", "disk write", "disk read", "staging source read",
    }  # fmt: skip
    assert all(rate.bandwidth > 1e5 for rate in found.rates)
    assert first["done"][0] == first["done"][1] > 2
    assert first["stopped"] == second["stopped"] == 2


@pytest.mark.mpi
@pytest.mark.root
def test_the_slow_link_of_three_hosts_is_named(between) -> None:
    slowest = between.survey.slowest

    assert "node3" in (slowest.source, slowest.target)
    said = [sentence(remark, 0.0) for remark in judge(between.survey)]
    assert any(text.startswith("Node node3 is slow") for text in said)
    assert not any("node1" in text or "node2" in text for text in said)


@pytest.mark.mpi
@pytest.mark.root
def test_bandwidths_are_what_the_links_let_through(between) -> None:
    assert len(between.survey.pairs) == 6
    for pair in between.survey.pairs:
        assert pair.bandwidth == let_through(pair), pair


@pytest.mark.mpi
@pytest.mark.root
def test_bandwidths_agree_with_iperf3(shaped, between) -> None:
    if not shutil.which("iperf3"):
        (pytest.fail if os.environ.get("CI") else pytest.skip)("iperf3 is not installed")
    pair = between.survey.between("node1", "node2")

    for _ in range(ATTEMPTS):
        theirs = pytest.approx(iperf3(shaped.hosts[0], shaped.hosts[1]), rel=NEAR)
        if pair.bandwidth == theirs:
            break
    assert pair.bandwidth == theirs


@pytest.mark.mpi
@pytest.mark.root
def test_an_exchange_among_all_is_held_against_the_slowest_link(between) -> None:
    assert {one.ranks for one in large(between.survey)} == {3}
    # Not all parts are equal where a link is slow, so that each byte crosses it once.
    assert all(is_held(between.survey, one) for one in large(between.survey))


def test_a_disk_is_written_and_read_and_left_as_it_was(tmp_path) -> None:
    found = disk("here", str(tmp_path))

    assert [rate.what for rate in found] == ["disk write", "disk read"]
    assert all(rate.bandwidth > 1e5 for rate in found)
    assert [*tmp_path.iterdir()] == []


def test_a_source_without_files_has_no_rate(tmp_path) -> None:
    assert source("here", str(tmp_path)) == []

    (tmp_path / "data.bin").write_bytes(bytes(1 << 20))
    (rate,) = source("here", str(tmp_path))
    assert rate.bandwidth > 1e5


def test_reading_nothing_takes_no_time_and_gives_nothing() -> None:
    assert read_rate([]) == 0.0


def test_hosts_of_one_name_are_distinguished() -> None:
    assert _names(["ip-10", None, "ip-10", "other"]) == ("ip-10", "ip-10#2", "other")
