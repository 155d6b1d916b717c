"""The rehearsal: its behaviour beyond the contract of all providers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.simulation.trouble import Fault, Trouble, TroubledRehearsal
from tests.waiting import until
from workbench.cloud.rehearsal.provider import Rehearsal, Weather
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.model import Machine, MachineState, Needs, Purchase
from workbench.errors import CloudError, MachineError

SLEEP = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(600)"]


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def purchase(count: int = 2, min_nodes: int = 1, **changes: object) -> Purchase:
    values = {"token": "token", "number": 0, "types": ("cpu.2",), "zone": "here-1a"} | changes
    return Purchase("lab", count=count, min_nodes=min_nodes, **values)


def rented(cloud: Rehearsal, clock: Clock, **changes: object) -> list[Machine]:
    """Buy, and let all boot."""
    cloud.buy(purchase(**changes), "", ())
    clock.now += 60.0
    return list(cloud.machines("lab"))


# -- the market


def test_prices_move_and_are_the_same_for_everyone(clock) -> None:
    needs = Needs(types=("gpu.1",), zones=("here-1a",))
    (offer,) = Rehearsal(clock=clock, seed=3).offers(needs, 86_400.0)

    assert Rehearsal(clock=clock, seed=3).offers(needs, 86_400.0) == (offer,)
    assert len(offer.history) == 24
    assert len({price for _, price in offer.history}) > 20
    clock.now += 86_400.0
    assert dict(Rehearsal(clock=clock, seed=3).offers(needs, 2 * 86_400.0)[0].history).items() >= (
        dict(offer.history).items()
    )


def test_capacity_ends(clock) -> None:
    cloud = Rehearsal(clock=clock, weather=Weather(capacity={("cpu.2", "here-1a"): 3}))

    machines = rented(cloud, clock, count=4)

    assert len(machines) == 3
    with pytest.raises(CloudError) as refusal:
        cloud.buy(purchase(token="other"), "", ())
    assert refusal.value.kind == ErrorKind.CAPACITY


def test_fewer_than_the_least_are_not_taken(clock) -> None:
    cloud = Rehearsal(clock=clock, weather=Weather(capacity={("cpu.2", "here-1a"): 3}))

    with pytest.raises(CloudError):
        cloud.buy(purchase(count=5, min_nodes=4), "", ())

    clock.now += 60.0
    assert cloud.machines() == ()


def test_quota_ends_and_offers_say_how_much_is_left(clock) -> None:
    cloud = Rehearsal(clock=clock, weather=Weather(quota=5))

    machines = rented(cloud, clock, count=4)

    assert len(machines) == 2
    assert cloud.offers(Needs(types=("cpu.2",)))[0].quota == 1
    with pytest.raises(CloudError) as refusal:
        cloud.buy(purchase(token="other"), "", ())
    assert refusal.value.kind == ErrorKind.QUOTA


def test_a_launch_is_not_listed_at_once(clock) -> None:
    cloud = Rehearsal(clock=clock, weather=Weather(lag=30.0))
    cloud.buy(purchase(), "", ())

    assert cloud.machines() == ()
    clock.now += 30.0
    assert len(cloud.machines()) == 2


def test_a_token_for_something_else_is_refused(clock) -> None:
    cloud = Rehearsal(clock=clock)
    cloud.buy(purchase(), "", ())

    with pytest.raises(CloudError) as refusal:
        cloud.buy(purchase(count=3), "", ())

    assert refusal.value.code == "IdempotentParameterMismatch"


# -- trouble


def test_a_fault_comes_at_its_call_and_only_there(clock) -> None:
    weather = Trouble(faults=(Fault("machines", 2, "RequestLimitExceeded"),))
    cloud = TroubledRehearsal(clock=clock, weather=weather)

    cloud.machines()
    with pytest.raises(CloudError) as refusal:
        cloud.machines()
    cloud.machines()

    assert refusal.value.kind == ErrorKind.THROTTLING


def test_an_answer_that_is_lost_was_for_work_that_was_done(clock) -> None:
    cloud = TroubledRehearsal(
        clock=clock, weather=Trouble(faults=(Fault("buy", 1, "NoAnswer", True),))
    )

    with pytest.raises(CloudError):
        cloud.buy(purchase(), "", ())
    cloud.buy(purchase(), "", ())

    clock.now += 60.0
    assert len(cloud.machines()) == 2


def test_trouble_follows_from_the_seed(clock) -> None:
    def troubles(seed: int) -> list[bool]:
        cloud = TroubledRehearsal(clock=clock, weather=Trouble(trouble=0.5), seed=seed)
        found = []
        for _ in range(50):
            try:
                cloud.machines()
                found.append(False)
            except CloudError:
                found.append(True)
        return found

    assert troubles(1) == troubles(1) != troubles(2)
    assert 10 < sum(troubles(1)) < 40


def test_a_machine_that_is_taken_back_says_so_before(clock) -> None:
    cloud = Rehearsal(clock=clock)
    first, second = rented(cloud, clock)

    cloud.interrupt(first.id)

    assert cloud.read_notices() == {first.id: clock.now + 120.0}
    clock.now += 121.0
    assert cloud.read_notices() == {}
    gone, stays = sorted(cloud.machines(), key=lambda machine: machine.id != first.id)
    assert (gone.interrupted, gone.reason) == (True, "the provider reclaimed it")
    assert gone.ended == clock.now - 1.0
    assert (stays.id, stays.state) == (second.id, MachineState.RUNNING)


def test_the_place_takes_machines_back_as_the_weather_is(clock) -> None:
    cloud = Rehearsal(clock=clock, weather=Weather(lifetime=3600.0))
    rented(cloud, clock, count=8)

    clock.now += 3600.0

    assert 0 < sum(machine.interrupted for machine in cloud.machines()) < 8


# -- kept in a folder


def test_the_next_process_finds_the_machines(clock, tmp_path) -> None:
    machines = rented(Rehearsal(tmp_path, clock=clock), clock)

    again = Rehearsal(tmp_path, clock=clock)

    assert list(again.machines("lab")) == machines
    again.buy(purchase(), "", ())
    assert len(again.machines()) == 2


def test_two_see_what_the_other_does(clock, tmp_path) -> None:
    mine, other = (Rehearsal(tmp_path, clock=clock) for _ in range(2))
    first, _ = rented(mine, clock)

    other.end([first.id])

    assert {m.id: m.state for m in mine.machines()}[first.id] is MachineState.STOPPING


def test_only_the_owner_may_read_the_state(clock, tmp_path) -> None:
    rented(Rehearsal(tmp_path / "new", clock=clock), clock)

    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / "rehearsal.json").stat().st_mode & 0o777 == 0o600


# -- sessions


def test_a_machine_has_no_session_before_it_has_booted(clock) -> None:
    cloud = Rehearsal(clock=clock)
    cloud.buy(purchase(), "", ())

    with pytest.raises(MachineError, match="r-000001 does not answer; wait until it has booted"):
        cloud.open(Machine("r-000001", MachineState.PENDING))


def test_a_session_runs_commands_in_the_nodes_own_folder(clock, tmp_path) -> None:
    cloud = Rehearsal(tmp_path, clock=clock)
    first, second = rented(cloud, clock)

    for machine in (first, second):
        cloud.open(machine).put(machine.id.encode(), "deep/name")
    answer = cloud.open(second).run(["cat", "deep/name"])

    assert (answer.status, answer.output) == (0, second.id)
    assert cloud.open(first).host.address == first.address


def test_what_runs_on_a_machine_ends_with_it(clock, tmp_path) -> None:
    cloud = Rehearsal(tmp_path, clock=clock)
    first, second = rented(cloud, clock)
    sessions = [cloud.open(machine) for machine in (first, second)]
    there, elsewhere = (session.start(SLEEP) for session in sessions)
    until(lambda: there.lines() == ["here"])

    Rehearsal(tmp_path, clock=clock).end([first.id])

    assert (there.status, sessions[0].is_open) == (-1, False)
    assert (elsewhere.status, sessions[1].is_open) == (None, True)
    with pytest.raises(MachineError, match="is lost"):
        sessions[0].run(["true"])
    for session in sessions:
        session.close()


def test_what_runs_on_a_machine_of_another_rehearsal_continues(clock, tmp_path) -> None:
    """Both have a node ``r-000001``: people of one machine, or tests beside a person's cluster."""
    ours, theirs = (
        Rehearsal(tmp_path / "ours", clock=clock),
        Rehearsal(tmp_path / "2", clock=clock),
    )
    (mine, *_), (other, *_) = rented(ours, clock), rented(theirs, clock)
    session = ours.open(mine)
    process = session.start(SLEEP)
    until(process.lines)
    theirs.open(other).run(["true"])

    theirs.end([other.id])

    assert mine.id == other.id
    assert process.status is None
    session.close()


def test_a_session_that_is_closed_ends_what_it_started(clock, tmp_path) -> None:
    cloud = Rehearsal(tmp_path, clock=clock)
    session = cloud.open(rented(cloud, clock)[0])
    process = session.start(SLEEP)
    until(lambda: process.lines() == ["here"])

    session.close()

    assert process.status == -1
    with pytest.raises(MachineError):
        session.start(["true"])


def test_a_process_is_written_to_and_read(clock, tmp_path) -> None:
    cloud = Rehearsal(tmp_path, clock=clock)
    session = cloud.open(rented(cloud, clock)[0])
    process = session.start(["cat"])

    process.write(b"one\ntwo\n")
    heard: list[str] = []
    until(lambda: heard.extend(process.lines()) or len(heard) == 2)
    process.end()
    until(lambda: process.status is not None)

    assert heard == ["one", "two"]
    session.close()


def test_a_command_that_takes_too_long_is_ended_and_reported(clock, tmp_path) -> None:
    cloud = Rehearsal(tmp_path, clock=clock)
    session = cloud.open(rented(cloud, clock)[0])

    with pytest.raises(MachineError, match=r"took longer than 0.05 s on 127\.77\."):
        session.run(SLEEP, seconds=0.05)


def test_a_command_that_is_not_there_is_reported(clock, tmp_path) -> None:
    cloud = Rehearsal(tmp_path, clock=clock)
    session = cloud.open(rented(cloud, clock)[0])

    with pytest.raises(MachineError, match="no-such-command cannot be started"):
        session.run(["no-such-command"])


def test_a_file_that_cannot_be_written_is_reported(clock, tmp_path) -> None:
    cloud = Rehearsal(tmp_path, clock=clock)
    session = cloud.open(rented(cloud, clock)[0])
    (tmp_path / "file").touch()

    with pytest.raises(MachineError, match="cannot be written"):
        session.put(b"", str(tmp_path / "file" / "name"))

    assert Path(tmp_path / "file").read_bytes() == b""


# -- a recording


def replayed(clock, counts, notice=0.0):
    """Return a cloud whose machines come and go by (seconds from now, how many there are)."""
    cloud = Rehearsal(clock=clock, cluster="lab")
    cloud.buy(purchase(), "", ())
    clock.now += 60.0
    begin = clock.now
    cloud.replay([(begin + at, count) for at, count in counts], begin + 300.0, notice)
    return cloud


def running(cloud) -> int:
    return sum(machine.state is MachineState.RUNNING for machine in cloud.machines())


def test_a_recording_takes_machines_with_a_notice(clock) -> None:
    cloud = replayed(clock, [(0, 2), (100, 1)], notice=30.0)

    clock.now += 69.0
    assert (running(cloud), cloud.read_notices()) == (2, {})
    clock.now += 2.0
    assert [*cloud.read_notices().values()] == [clock.now + 29.0]
    clock.now += 30.0
    assert running(cloud) == 1


def test_a_machine_waits_until_the_recording_gives_it_and_costs_nothing_before(clock) -> None:
    cloud = replayed(clock, [(0, 1), (100, 2)])
    clock.now += 5.0
    assert running(cloud) == 1

    cloud.buy(purchase(token="more", count=1), "", ())
    clock.now += 50.0
    [waiting] = [one for one in cloud.machines() if one.state is MachineState.PENDING]
    assert (waiting.launched, waiting.price) == (0.0, 0.0)
    clock.now += 60.0
    assert running(cloud) == 2
    assert all(one.launched and one.price for one in cloud.machines() if not one.ended)


def test_what_a_recording_does_not_give_soon_is_refused(clock) -> None:
    cloud = replayed(clock, [(0, 1)])

    with pytest.raises(CloudError, match="the recording gives no machine"):
        cloud.buy(purchase(token="more", count=1), "", ())
    clock.now += 301.0  # it is over
    cloud.buy(purchase(token="later", count=1), "", ())
