"""Leases are renewed while the supervisor runs, and providers' notices are received."""

from __future__ import annotations

import math
import threading

import msgspec
import pytest

from tests.supervisor.agents import Over, Said, Script
from workbench.cloud.rented.leases import AGAIN_SECONDS, NodeLeases
from workbench.core.node.agent_protocol import (
    AskFacts,
    NodeFacts,
    Notice,
    RenewLease,
    WatchNotices,
)
from workbench.core.world.remote import Completed
from workbench.core.world.world import Host
from workbench.errors import MachineError
from workbench.node.stream import Call

NO_LEASE = "No lease of the cluster lab"


class Session:
    def __init__(self, user="root"):
        self.host = Host("10.0.0.4", 1, user=user)
        self.is_open = True
        self.processes = []
        self.leases = []
        self.signs = []
        self.refuses = False
        self.has_python = True
        self.has_lease = True

    def start(self, command):
        self.processes.append(Script(self._answer))
        if not self.has_python:
            self.process.end()
        return self.processes[-1]

    def _answer(self, request) -> list[Said]:
        match request:
            case AskFacts():
                return [Over(NodeFacts("node"))]
            case RenewLease():
                return [Over(why="" if self.has_lease else NO_LEASE)]
        return []

    def notice(self, *said: Said):
        self.process.say_to(WatchNotices, *said)

    def run(self, command, *, input="", seconds=60.0):
        if command[-1].startswith("umask"):
            self.signs.append(command)
            return Completed(0, "", "")
        self.leases.append(command)
        return Completed(int(self.refuses), "", "no room" if self.refuses else "")

    @property
    def process(self):
        return self.processes[-1]


class Bench:
    def __init__(self):
        self.now = 100.0
        self.expires = 0.0
        self.seconds = 60.0
        self.session = Session()
        self.leases = NodeLeases(
            "lab",
            lambda: self.expires,
            seconds=lambda: self.seconds,
            renewal=10,
            clock=lambda: self.now,
        )
        self.leases.begin("i-1", self.session)

    def turn(self, seconds=1.0):
        self.now += seconds
        return self.leases.turn()

    def renewals(self):
        return [one for one in self.session.process.heard if isinstance(one, RenewLease)]


@pytest.fixture
def bench():
    return Bench()


def test_one_agent_is_started_and_asked_for_notices(bench):
    for _ in range(5):
        bench.turn()

    assert len(bench.session.processes) == 1
    assert bench.session.process.heard == [AskFacts(), WatchNotices()]


def test_a_lease_that_this_supervisor_started_is_renewed_and_not_started_again(bench):
    bench.leases.lease(bench.session)
    for _ in range(25):
        bench.turn()

    assert len(bench.session.leases) == 1
    assert bench.renewals() == [RenewLease("lab", 60)] * 3


def test_a_short_lease_is_renewed_more_often(bench):
    bench.leases.lease(bench.session)
    bench.seconds = 10.0
    for _ in range(25):
        bench.turn()

    assert bench.renewals()[-1] == RenewLease("lab", 10)
    assert len(bench.renewals()) >= 10


def test_a_node_of_a_predecessors_gets_a_lease_again(bench):
    bench.turn()
    bench.turn()

    [command] = bench.session.leases
    assert command[3:] == [
        "--cluster", "lab", "--seconds", "60", "--expires", "0", "--command", "shutdown -h now",
    ]  # fmt: skip


def test_who_is_not_root_ends_the_node_by_sudo(bench):
    other = Session(user="workbench")

    bench.leases.lease(other)

    assert other.leases[0][-1] == "sudo -n shutdown -h now"


def test_a_longer_time_to_live_is_sent_to_the_node(bench):
    bench.leases.lease(bench.session)
    bench.turn()
    bench.expires = 2e9
    for _ in range(11):
        bench.turn()

    assert [command[8] for command in bench.session.leases] == ["0", "2000000000"]


def test_a_lease_that_is_gone_is_started_again(bench):
    bench.leases.lease(bench.session)
    bench.turn()
    bench.session.has_lease = False
    bench.turn()
    bench.turn()
    bench.turn()

    assert len(bench.session.leases) == 2


def test_a_lease_that_does_not_start_is_reported(bench):
    bench.session.refuses = True

    with pytest.raises(MachineError, match="no room"):
        bench.leases.lease(bench.session)


@pytest.mark.parametrize(
    ("kind", "is_taken"),
    [("terminate", True), ("stop", True), ("hibernate", True), ("rebalance", False)],
)
def test_a_notice_counts_and_a_recommendation_does_not(bench, kind, is_taken):
    bench.turn()
    bench.session.notice(Notice(kind, 500.0))

    assert bench.turn() == ({"i-1": 500.0} if is_taken else {})


def test_what_the_place_has_said_outlives_the_session(bench):
    bench.turn()
    bench.session.notice(Notice("terminate", 500.0))
    bench.turn()
    bench.session.is_open = False
    lost = bench.turn()
    bench.leases.begin("i-1", Session())

    assert lost == bench.turn() == {"i-1": 500.0}


def test_an_agent_that_ends_is_started_again_after_a_while(bench):
    bench.turn()
    bench.session.process.end()
    bench.turn()
    soon = len(bench.session.processes)
    bench.turn(AGAIN_SECONDS)

    assert (soon, len(bench.session.processes)) == (1, 2)


def test_a_node_that_has_another_version_now_gets_another_agent(bench):
    bench.turn()
    bench.leases.restart(bench.session)
    bench.turn()

    assert len(bench.session.processes) == 2


def test_a_lost_node_is_not_attended_to(bench):
    bench.session.is_open = False
    bench.turn()

    assert bench.session.processes == []
    assert repr(bench.leases) == "<NodeLeases of lab: 0 nodes>"


def test_signs_are_left_from_the_first_log_in_until_the_lease(bench):
    bench.expires = 5000.0
    bench.session.has_python = False
    for _ in range(25):
        bench.turn()
    before = len(bench.session.signs)
    bench.leases.lease(bench.session)
    for _ in range(25):
        bench.turn()

    assert before == len(bench.session.signs) == 3
    assert "/run/workbench/sign" in bench.session.signs[0][-1]
    assert " 60 5000" in bench.session.signs[0][-1]


def test_a_node_that_cannot_take_a_sign_keeps_no_one_from_the_others(bench):
    def run(command, *, input="", seconds=60.0):
        raise MachineError("it takes too long")

    bench.session.run = run

    assert bench.turn() == {}


def test_the_lease_of_what_is_to_go_is_renewed_no_longer(bench):
    other = Session()
    bench.leases.begin("i-2", other)
    for session in (bench.session, other):
        bench.leases.lease(session)
    bench.turn()

    bench.leases.part(["i-1"])
    for _ in range(25):
        bench.turn()

    assert bench.renewals() == []
    assert [one for one in other.process.heard if isinstance(one, RenewLease)]


@pytest.mark.parametrize(
    ("user", "command"),
    [("root", ["shutdown", "-h", "now"]), ("admin", ["sudo", "-n", "shutdown", "-h", "now"])],
)
def test_a_node_is_shut_down_by_root_and_may_be_cut_off_by_it(bench, user, command):
    session = Session(user)

    def run(command, *, input="", seconds=60.0):
        session.leases.append(command)
        raise MachineError("The connection is gone.")

    session.run = run

    bench.leases.shut_down(session)

    assert session.leases == [command]


@pytest.mark.parametrize("at", [-1, 1e18, 1e300, math.inf, math.nan, True, "soon"])
def test_a_notice_at_no_time_keeps_no_other_node_from_its_renewals(bench, at):
    bad = Session()
    bench.leases.begin("bad", bad)
    for session in (bad, bench.session):
        bench.leases.lease(session)
    for _ in range(25):
        if bad.processes:
            bad.notice(msgspec.msgpack.encode(["Notice", "terminate", at]))
        assert bench.turn() == {}

    assert len(bench.renewals()) >= 2


def test_a_node_whose_words_raise_an_error_gets_another_agent_and_the_others_are_renewed(
    bench, monkeypatch
):
    bad = Session()
    bench.leases.begin("bad", bad)
    bench.leases.lease(bench.session)
    bench.turn()
    take = Call.take

    def fail(self):
        if self is bench.leases._nodes["bad"].notices:
            raise OverflowError("whatever a node may cause")
        return take(self)

    monkeypatch.setattr(Call, "take", fail)
    for _ in range(25):
        bench.turn()

    assert len(bench.renewals()) >= 2
    assert len(bad.processes) >= 2


def test_a_node_that_hangs_keeps_no_other_node_waiting(bench):
    bad, ends = Session(), threading.Event()
    bad.run = lambda *_, **__: Completed(int(ends.wait(60.0)), "", "")
    bench.leases.begin("bad", bad)
    bench.leases.lease(bench.session)
    for _ in range(25):
        bench.turn()

    assert len(bench.renewals()) >= 2
    assert not ends.is_set()
    ends.set()


def test_a_node_that_repeats_itself_fills_neither_memory_nor_log(bench, caplog):
    caplog.set_level("INFO")
    bench.leases.lease(bench.session)
    bench.session.has_lease = False
    bench.turn()
    for number in range(200):
        bench.session.notice(
            Notice("rebalance", 500.0 + number),
            Notice("terminate", 400.0),
            Notice("x" * 1_000, 500.0),
        )
    bench.turn()

    assert len(caplog.records) < 30
    assert len(caplog.text) < 10_000
