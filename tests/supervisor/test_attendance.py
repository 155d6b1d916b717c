"""Leases are renewed while somebody attends, and what the place says is heard."""

from __future__ import annotations

import pytest

from workbench.core.session import Completed
from workbench.core.warden import (
    Alive,
    Heed,
    NodeFacts,
    Notice,
    Renew,
    Renewed,
    line_of,
    read_request,
)
from workbench.core.world import Host
from workbench.errors import MachineError
from workbench.supervisor.attendance import AGAIN_SECONDS, Attendance


class Process:
    def __init__(self):
        self.status = None
        self.heard = []
        self.said = [line_of(NodeFacts("node", 0.0))]

    def write(self, text):
        self.heard.append(read_request(text))

    def lines(self):
        said, self.said = self.said, []
        return said

    def say(self, event):
        self.said.append(line_of(event))

    def end(self, *, force=False):
        self.status = 0


class Session:
    def __init__(self, user="root"):
        self.host = Host("10.0.0.4", 1, user=user)
        self.is_open = True
        self.processes = []
        self.leases = []
        self.refuses = False

    def start(self, command):
        self.processes.append(Process())
        return self.processes[-1]

    def run(self, command, *, input="", seconds=60.0):
        self.leases.append(command)
        return Completed(int(self.refuses), "", "no room" if self.refuses else "")

    @property
    def process(self):
        return self.processes[-1]


class Bench:
    def __init__(self):
        self.now = 100.0
        self.expires = 0.0
        self.session = Session()
        self.attendance = Attendance(
            "lab", lambda: self.expires, seconds=30, renewal=10, clock=lambda: self.now
        )
        self.attendance.begin("i-1", self.session)

    def turn(self, seconds=1.0):
        self.now += seconds
        return self.attendance.turn()

    def renewals(self):
        return [one for one in self.session.process.heard if isinstance(one, Renew)]


@pytest.fixture
def bench():
    return Bench()


def test_one_warden_is_started_and_asked_to_heed_notices(bench):
    for _ in range(5):
        bench.turn()

    assert len(bench.session.processes) == 1
    assert bench.session.process.heard[0] == Heed()


def test_a_lease_that_this_supervisor_started_is_renewed_and_not_started_again(bench):
    bench.attendance.lease(bench.session)
    for _ in range(25):
        bench.turn()

    assert len(bench.session.leases) == 1
    assert bench.renewals() == [Renew("lab", 30)] * 3


def test_a_node_of_a_predecessors_gets_a_lease_anew(bench):
    bench.turn()
    bench.turn()

    [command] = bench.session.leases
    assert command[3:] == [
        "--cluster", "lab", "--seconds", "30", "--expires", "0", "--command", "shutdown -h now",
    ]  # fmt: skip


def test_who_is_not_root_ends_the_node_by_sudo(bench):
    other = Session(user="workbench")

    bench.attendance.lease(other)

    assert other.leases[0][-1] == "sudo -n shutdown -h now"


def test_a_longer_time_to_live_is_told_to_the_node(bench):
    bench.attendance.lease(bench.session)
    bench.turn()
    bench.expires = 2e9
    for _ in range(11):
        bench.turn()

    assert [command[8] for command in bench.session.leases] == ["0", "2000000000"]


def test_a_lease_that_is_gone_is_started_anew(bench):
    bench.attendance.lease(bench.session)
    bench.turn()
    bench.turn()
    bench.session.process.say(Renewed("lab", 30, "No lease of the cluster lab"))
    bench.turn()

    assert len(bench.session.leases) == 2


def test_a_lease_that_does_not_start_is_told(bench):
    bench.session.refuses = True

    with pytest.raises(MachineError, match="no room"):
        bench.attendance.lease(bench.session)


@pytest.mark.parametrize(
    ("kind", "is_taken"),
    [("terminate", True), ("stop", True), ("hibernate", True), ("rebalance", False)],
)
def test_a_notice_counts_and_a_recommendation_does_not(bench, kind, is_taken):
    bench.turn()
    bench.session.process.say(Notice(kind, 500.0))
    bench.session.process.say(Alive(400.0))

    assert bench.turn() == (frozenset({"i-1"}) if is_taken else frozenset())


def test_what_the_place_has_said_outlives_the_session(bench):
    bench.turn()
    bench.session.process.say(Notice("terminate", 500.0))
    bench.turn()
    bench.session.is_open = False
    lost = bench.turn()
    bench.attendance.begin("i-1", Session())

    assert lost == bench.turn() == {"i-1"}


def test_a_warden_that_ends_is_started_again_after_a_while(bench):
    bench.turn()
    bench.session.process.status = 1
    bench.turn()
    soon = len(bench.session.processes)
    bench.turn(AGAIN_SECONDS)

    assert (soon, len(bench.session.processes)) == (1, 2)


def test_a_node_that_has_another_version_now_gets_another_warden(bench):
    bench.turn()
    bench.attendance.restart(bench.session)
    bench.turn()

    assert len(bench.session.processes) == 2


def test_a_lost_node_is_not_attended_to(bench):
    bench.session.is_open = False
    bench.turn()

    assert bench.session.processes == []
    assert repr(bench.attendance) == "<Attendance of lab: 0 nodes>"
