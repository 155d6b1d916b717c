"""The keeper brings the nodes to the desired state, and pays for no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.trouble import Fault, Trouble
from tests.supervisor.fleets import Killed, Stage
from workbench.core.fleet.cost import bill
from workbench.core.fleet.model import NodeState
from workbench.core.fleet.purchases import PurchaseOutcome
from workbench.errors import MachineError
from workbench.store import Store
from workbench.supervisor.fleet.fleet_loop import Load


@pytest.fixture
def stage(store):
    stage = Stage(store)
    yield stage
    stage.keeper.close()


def test_nodes_are_bought_and_become_ready_and_one_is_the_head(stage) -> None:
    stage.ask(3)

    fleet = stage.ready(3)

    heads = [node for node in stage.store.fleets.nodes("lab") if node.head]
    assert [node.state for node in fleet.nodes] == [NodeState.READY] * 3
    assert [fleet.hosts[0].address] == [node.address for node in heads]
    assert all(host.slots for host in fleet.hosts)
    assert len(stage.paid()) == 3


def test_a_purchase_is_written_down_before_the_call(stage) -> None:
    stage.ask(2)
    while not any(record for record in stage.store.fleets.purchases("lab")):
        stage.keeper.tick(stage.wish, stage.load, stage.clock.now)
        if not stage.store.fleets.purchases("lab"):
            stage.turn()

    (record,) = stage.store.fleets.purchases("lab")

    assert record.outcome is PurchaseOutcome.WRITTEN
    assert stage.paid() == []
    assert stage.store.fleets.read_sent("lab", record.purchase.token) == (
        f"#cloud-config {record.purchase.token}",
        (),
    )


def test_nodes_that_carry_a_world_have_joined(stage) -> None:
    stage.ask(2)
    fleet = stage.ready(2)

    stage.load = Load(busy=True, used=frozenset({fleet.hosts[0].address}))
    fleet = stage.until(lambda fleet: any(n.state is NodeState.JOINED for n in fleet.nodes))

    assert sorted(node.state for node in fleet.nodes) == [NodeState.READY, NodeState.JOINED]


def test_a_session_is_found_by_its_host(stage) -> None:
    stage.ask(1)
    (host,) = stage.ready(1).hosts

    session = stage.keeper.session(host)

    assert session is not None and session.is_open  # noqa: PT018 - one thought
    assert stage.keeper.session(replace(host, address="10.9.9.9")) is None


def test_a_supervisor_that_starts_again_finds_its_nodes(stage) -> None:
    stage.ask(2)
    before = {node.id for node in stage.ready(2).nodes}

    stage.start()
    fleet = stage.ready(2)

    assert {node.id for node in fleet.nodes} == before == set(stage.paid())


def test_a_lost_answer_is_asked_for_again_and_nothing_is_bought_twice(store) -> None:
    stage = Stage(store, Trouble(lag=5.0, faults=(Fault("buy", 1, "NoAnswer", late=True),)))
    stage.ask(3)

    stage.ready(3)

    assert len(stage.paid()) == 3
    stage.keeper.close()


def test_killed_after_the_call_the_next_one_adopts_what_was_bought(stage) -> None:
    stage.ask(3)
    buy = stage.cloud.buy

    def die(*call: object) -> None:
        buy(*call)
        raise Killed

    stage.cloud.buy = die
    with pytest.raises(Killed):
        stage.until(lambda _: False)
    stage.cloud.buy = buy
    stage.start()

    stage.ready(3)

    assert len(stage.paid()) == 3
    assert len(stage.store.fleets.purchases("lab")) == 1


def test_resized_to_0_it_pays_nothing_and_keeps_its_definition(stage) -> None:
    stage.ask(2)
    spent = stage.ready(2).bill.spent

    stage.ask(0)
    fleet = stage.until(lambda fleet: not fleet.nodes)

    assert stage.paid() == []
    assert fleet.bill.spent >= spent > 0
    assert not fleet.finished


@pytest.mark.parametrize("nodes", [1, 4])
def test_a_fleet_is_resized(stage, nodes) -> None:
    stage.ask(2)
    stage.ready(2)

    stage.ask(nodes)
    stage.until(lambda fleet: len(fleet.hosts) == len(stage.paid()) == nodes)


def test_a_deleted_cluster_leaves_nothing_and_its_account_is_closed(stage) -> None:
    stage.ask(3)
    stage.ready(3)

    stage.delete()
    stage.until(lambda fleet: fleet.finished)

    assert stage.cloud.leftovers() == ()
    assert (
        stage.paid()
        == stage.store.fleets.nodes("lab", gone=True)
        == stage.store.fleets.purchases("lab")
        == []
    )
    # Its nodes were simulated, so that their price counts for no later one.
    assert not stage.wish.fleet.place.is_paid
    assert stage.store.fleets.account("lab", stage.wish.revision, 0.0).spent_before == 0


def test_a_cluster_lives_again_after_it_was_deleted(stage) -> None:
    stage.ask(1)
    stage.ready(1)
    stage.delete()
    stage.until(lambda fleet: fleet.finished)

    stage.ask(2)
    fleet = stage.ready(2)

    assert len(stage.paid()) == 2
    assert not fleet.finished


def test_deleted_while_a_call_is_under_way_what_it_buys_is_deleted_too(store) -> None:
    stage = Stage(store, Trouble(lag=20.0))
    stage.ask(3)
    while not any("buy" in str(key) for key in stage.keeper._tasks._on):
        stage.queue.waiting and stage.queue.work()
        stage.keeper.tick(stage.wish, stage.load, stage.clock.now)
        stage.clock.now += 0.5
    late = stage.queue.waiting
    stage.queue.waiting = []
    stage.delete()

    for _ in range(90):
        assert not stage.turn().finished
    stage.queue.waiting = late
    stage.until(lambda fleet: fleet.finished)

    assert stage.paid() == []
    assert stage.cloud.leftovers() == ()
    stage.keeper.close()


def test_a_node_that_is_taken_back_in_its_first_hour_is_free_and_replaced(stage) -> None:
    stage.ask(2)
    taken = stage.ready(2).nodes[0].id

    stage.cloud.interrupt(taken, 30.0)
    stage.until(lambda fleet: taken not in [n.id for n in fleet.nodes] and len(fleet.hosts) == 2)

    gone = {node.id: node for node in stage.store.fleets.nodes("lab", gone=True)}[taken]
    assert gone.spent == 0.0
    assert gone.ended > 0


def test_a_node_with_a_notice_carries_its_world_until_another_is_ready(stage) -> None:
    stage.ask(2)
    fleet = stage.ready(2)
    stage.load = Load(busy=True, used=frozenset(host.address for host in fleet.hosts))
    stage.until(lambda fleet: all(node.state is NodeState.JOINED for node in fleet.nodes))
    taken = fleet.nodes[0]

    stage.cloud.interrupt(taken.id, 110.0)
    fleet = stage.until(lambda fleet: len(fleet.nodes) == 3)

    assert taken.address in {host.address for host in fleet.hosts}
    fleet = stage.until(lambda fleet: taken.address not in {one.address for one in fleet.hosts})
    states = {node.id: node.state for node in fleet.nodes}
    assert states[taken.id] is NodeState.JOINED
    assert len(fleet.hosts) == 2


def test_a_notice_that_is_taken_back_costs_the_node_that_was_bought_for_it(stage) -> None:
    stage.ask(2)
    fleet = stage.ready(2)
    stage.load = Load(busy=True, used=frozenset(host.address for host in fleet.hosts))
    stage.until(lambda fleet: all(node.state is NodeState.JOINED for node in fleet.nodes))
    taken = fleet.nodes[0]
    stage.cloud.interrupt(taken.id, 110.0)
    stage.until(lambda fleet: any(node.reclaimed for node in fleet.nodes))

    stage.cloud.interrupt(taken.id, 1e6)  # too far ahead for a notice
    fleet = stage.until(lambda fleet: not any(node.reclaimed for node in fleet.nodes))

    stage.until(lambda fleet: len(fleet.nodes) == 2)
    assert stage.store.fleets.nodes("lab")[0].state is NodeState.JOINED


def test_money_follows_the_price_and_is_what_the_place_would_bill(stage) -> None:
    stage.ask(2)
    stage.ready(2)

    fleet = stage.until(lambda fleet: fleet.bill.spent > 0.5, seconds=60.0, turns=3000)

    hours = sum((stage.clock.now - 60.0 - node.launched) / 3600 for node in fleet.nodes)
    prices = [price for p in stage.store.fleets.prices("lab").values() for _, price in p]
    assert min(prices) * hours * 0.99 < fleet.bill.spent < max(prices) * hours * 1.01
    assert len(set(prices)) > 10
    assert fleet.bill.spent == bill(stage.store.fleets.nodes("lab")).spent


def test_the_account_is_the_same_whether_or_not_supervisors_come_and_go(store) -> None:
    def spent(cluster: str, restarts: bool) -> float:
        stage = Stage(store, cluster=cluster)
        stage.ask(1)
        stage.ready(1)
        for number in range(200):
            if restarts and number % 7 == 0:
                stage.keeper.close()
                stage.start()
            stage.turn(5.0)
        stage.ask(0)
        stage.until(lambda fleet: not fleet.nodes)
        stage.keeper.close()
        return store.fleets.spent(cluster)

    assert spent("one", restarts=True) == pytest.approx(spent("two", restarts=False), rel=0.01)


def test_a_prepare_script_that_fails_is_reported(stage) -> None:
    stage.ask(1, prepare="echo oh no >&2; exit 3")

    fleet = stage.until(lambda fleet: any(node.failed for node in fleet.nodes))

    (node,) = [node for node in fleet.nodes if node.failed]
    assert "ended with status 3" in node.message
    assert "(oh no)" in node.message
    assert fleet.hosts == ()


def test_a_prepare_script_runs_before_a_node_may_join(stage) -> None:
    stage.ask(1, prepare="true")

    assert len(stage.ready(1).hosts) == 1


def test_a_node_to_which_no_session_can_be_opened_says_why(stage) -> None:
    def refuse(machine):
        raise MachineError("It shows another key; see who answers there.")

    stage.open = refuse
    stage.start()
    stage.ask(1)

    fleet = stage.until(lambda fleet: any("another key" in n.message for n in fleet.nodes))

    assert fleet.hosts == ()


def test_a_session_that_is_lost_is_opened_again(stage) -> None:
    stage.ask(1)
    (host,) = stage.ready(1).hosts
    lost = stage.keeper.session(host)
    lost.close()

    stage.until(lambda _: stage.keeper.session(host) is not lost)

    assert stage.keeper.session(host).is_open


def test_a_place_that_does_not_answer_is_reported_and_asked_again(store) -> None:
    stage = Stage(store, Trouble(faults=(Fault("machines", 1, "RequestLimitExceeded"),)))
    stage.ask(1)

    stage.turn()
    reported = stage.turn().message
    stage.ready(1)

    assert "limits the rate of calls" in reported
    stage.keeper.close()


def test_what_cannot_be_had_is_reported_with_the_remedy(stage) -> None:
    stage.ask(1, max_price=0.000001)

    fleet = stage.until(lambda fleet: bool(fleet.message))

    assert "$0.000001/h" in fleet.message
    assert stage.paid() == []


def test_a_fleet_that_is_complete_writes_nothing(stage) -> None:
    stage.ask(2)
    stage.ready(2)
    other = Store(stage.store.path)
    stage.turn(0.1)
    stage.turn(0.1)
    version = other.data_version()

    for _ in range(20):
        stage.turn(0.1)

    assert other.data_version() == version
    other.close()


# -- credentials that have expired

EVERY_CALL = ("machines", "buy", "end", "clean", "offers", "leftovers")


@pytest.mark.parametrize("why", ["down", "resize", "budget", "time to live"])
def test_with_expired_credentials_what_is_to_go_is_shut_down_from_within(stage, why) -> None:
    stage.ask(2)
    ids = {node.id for node in stage.ready(2).nodes}
    stage.fail(*EVERY_CALL)

    if why == "down":
        stage.delete()
    else:
        wish = {"budget": {"budget": 0.0001}, "time to live": {"expires": stage.clock.now + 5}}
        stage.ask(0 if why == "resize" else 2, **wish.get(why, {}))
    fleet = stage.until(lambda fleet: "over ssh" in fleet.message and not stage.paid(), turns=30)

    assert stage.parted == ids
    assert "the credentials have expired" in fleet.message
    assert "sign in again" in fleet.message


def test_nodes_that_stay_are_left_alone_while_credentials_have_expired(stage) -> None:
    stage.ask(2)
    stage.ready(2)
    stage.fail(*EVERY_CALL)

    fleet = stage.until(lambda fleet: "expired" in fleet.message)
    for _ in range(600):
        fleet = stage.turn(10.0)

    assert len(stage.paid()) == len(fleet.hosts) == 2
    assert stage.parted == set()


def test_once_credentials_work_again_the_sentence_goes_and_a_delete_finishes(stage) -> None:
    stage.ask(2)
    stage.ready(2)
    stage.fail(*EVERY_CALL)
    stage.delete()
    stage.until(lambda fleet: "expired" in fleet.message and not stage.paid())

    stage.fail()
    fleet = stage.until(lambda fleet: fleet.finished, turns=120)

    assert fleet.message == ""
    assert stage.cloud.leftovers() == ()


def test_once_credentials_work_again_nodes_are_bought_without_another_wish(stage) -> None:
    stage.ask(2)
    stage.turn()
    stage.fail(*EVERY_CALL)
    stage.until(lambda fleet: "expired" in fleet.message)
    for _ in range(300):
        stage.turn(10.0)
    meanwhile = stage.store.fleets.purchases("lab")

    stage.fail()
    fleet = stage.until(lambda fleet: len(fleet.hosts) == 2, turns=120)

    assert len(meanwhile) <= 1  # before it was known
    assert fleet.message == ""
    assert len(stage.paid()) == 2


def test_a_purchase_that_expired_credentials_refused_is_made_again_within_minutes(stage) -> None:
    stage.fail("buy")
    stage.ask(2)
    said = stage.until(lambda fleet: "expired" in fleet.message).message
    for _ in range(120):
        stage.turn(30.0)

    stage.fail()
    stage.until(lambda fleet: len(fleet.hosts) == 2, turns=90)

    assert "sign in again" in said
    assert len(stage.paid()) == 2


def test_where_the_place_ends_nodes_none_is_asked_to_end_itself(stage) -> None:
    asked: list[object] = []
    stage.shut_down = asked.append
    stage.start()
    stage.ask(2)
    stage.ready(2)

    stage.ask(0)
    stage.until(lambda _: not stage.paid())

    assert asked == []


def rented_from_afar(stage: Stage, budget: float = 0.0) -> None:
    """Request a node of EC2 that this computer reaches through the internet; the fake has it."""
    stage.ask(1)
    rented = replace(
        stage.wish.fleet,
        provider="ec2",
        settings=(("ssh_from", "203.0.113.7"),),
        region="here-1",
        budget=budget,
    )
    stage.wish = stage.store.wish_cluster("lab", up=True, ranks=0, fleet=rented)


def test_what_comes_here_from_nodes_is_in_what_the_cluster_has_cost(stage) -> None:
    rented_from_afar(stage)
    address = stage.ready(1).hosts[0].address

    stage.received = {address: 10_000_000_000, "10.9.9.9": 7}
    fleet = stage.until(lambda fleet: fleet.bill.traffic > 0)
    later = stage.until(lambda fleet: fleet.bill.spent > 0.91, seconds=60.0)

    assert fleet.bill.traffic == later.bill.traffic == pytest.approx(0.9)
    assert later.bill.spent == bill(stage.store.fleets.nodes("lab")).spent
    stage.start()
    assert stage.ready(1).bill.traffic == pytest.approx(0.9)


def test_a_budget_that_traffic_uses_up_deletes_the_nodes(stage) -> None:
    rented_from_afar(stage, budget=2.0)
    address = stage.ready(1).hosts[0].address

    stage.received = {address: 25_000_000_000}
    fleet = stage.until(lambda fleet: not stage.paid())

    assert "of the budget of $2.00 are spent" in fleet.message
    stage.until(lambda fleet: not fleet.nodes)


def test_what_nodes_send_last_is_counted_before_the_account_is_closed(stage) -> None:
    rented_from_afar(stage)
    address = stage.ready(1).hosts[0].address
    stage.delete()
    stage.until(lambda fleet: not fleet.nodes)

    stage.received = {address: 10_000_000_000}
    stage.until(lambda fleet: fleet.finished)

    assert stage.store.fleets.account("lab", stage.wish.revision, 0.0).spent_before > 0.9


def test_while_no_node_answers_its_cause_is_reported_and_no_other_is_bought(stage) -> None:
    stage.ask(2)
    stage.ready(2)
    paid = stage.paid()

    def unreachable(machine):
        raise MachineError(f"{machine.reach} did not answer")

    stage.open = unreachable
    for session in stage.keeper._sessions._sessions.values():
        session.close()
    fleet = stage.until(lambda fleet: "none answers" in fleet.message, seconds=10.0)
    said = stage.until(lambda fleet: "Check the network" in fleet.message).message
    for _ in range(50):
        stage.turn(30.0)

    assert "2 nodes run and none answers, so nothing is replaced or bought" in fleet.message
    assert "Check the network between this computer and 1" in said
    assert stage.paid() == paid
    stage.open = None
    assert stage.until(lambda fleet: len(fleet.hosts) == 2).message == ""
