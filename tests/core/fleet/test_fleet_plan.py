"""A fleet buys the desired nodes once, and terminates all others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.fleet.fleet_plan import (
    LEAVE_SECONDS,
    TAKEN_SECONDS,
    Buy,
    Clean,
    ExplainSilence,
    Finish,
    FleetFact,
    Open,
    PrepareNode,
    Put,
    RecordPurchase,
    SessionState,
    Terminate,
    Wait,
    plan_fleet,
)
from workbench.core.fleet.model import (
    FleetWish,
    Leftover,
    Machine,
    MachineState,
    Needs,
    Node,
    NodeState,
    Offer,
)
from workbench.core.fleet.node_health import (
    BOOT_SECONDS,
    DEAD_SECONDS,
    LEASE_SECONDS,
    SAID_SECONDS,
    SILENT_SECONDS,
    UNREACHED_SECONDS,
)
from workbench.core.fleet.provisioning import MOST_FAILURES
from workbench.core.fleet.purchases import (
    LAG_SECONDS,
    PAUSE_SECONDS,
    REPEAT_SECONDS,
    PurchaseOutcome,
    PurchaseRecord,
)
from workbench.core.world.world import Host

NOW = 100_000.0
LONG_AGO = NOW - 5000.0
G4 = Offer("g4dn.xlarge", "a", 0.2, 4, 16.0, gpus=1, network=5.0)
WISH = FleetWish("ec2", nodes=3, min_nodes=2, needs=Needs(gpus=1))
HOSTS = FleetWish("hosts", nodes=2, min_nodes=1, hosts=(Host("10.0.0.9", 1), Host("10.0.0.10", 1)))
JOINED, READY, VERIFIED = NodeState.JOINED, NodeState.READY, NodeState.VERIFIED
BOOTING, ASKED, LEAVING, GONE = (
    NodeState.BOOTING,
    NodeState.ASKED,
    NodeState.LEAVING,
    NodeState.GONE,
)


def machine(number: int, state=MachineState.RUNNING, **changes) -> Machine:
    address = f"10.0.0.{number}"
    usual = Machine(f"i-{number}", state, address, address, G4.type, G4.zone, G4.price, 1, LONG_AGO)
    return replace(usual, **changes)


def node(number: int, state=JOINED, **changes) -> Node:
    usual = Node(
        f"i-{number}", state, f"10.0.0.{number}", 1, G4.type, G4.zone, G4.price, 0.1, LONG_AGO,
        since=LONG_AGO,
    )  # fmt: skip
    return replace(usual, **changes)


def contact(number: int, *, open=True, since=LONG_AGO, working=False) -> SessionState:
    return SessionState(f"i-{number}", open, since, working)


def fact(numbers=(), state=JOINED, **changes) -> FleetFact:
    """Return a fleet whose nodes are all well, the first one the head."""
    usual = FleetFact(
        "lab",
        founded=LONG_AGO,
        asked=LONG_AGO,
        nodes=tuple(node(n, state, head=n == numbers[0]) for n in numbers),
        machines=tuple(machine(n) for n in numbers),
        seen=NOW,
        offers=(G4,),
        contacts=tuple(contact(n) for n in numbers),
        used=frozenset(f"i-{n}" for n in numbers if state is JOINED),
    )
    return replace(usual, **changes)


def planned(wish=WISH, seen=None, *, wanted=True, now=NOW):
    seen = seen or fact()
    actions = plan_fleet(wish, seen, wanted=wanted, now=now)
    assert plan_fleet(wish, seen, wanted=wanted, now=now) == actions
    return actions


def of(kind, actions) -> list:
    return [action for action in actions if isinstance(action, kind)]


def bought(seen=None, wish=WISH, now=NOW) -> PurchaseRecord:
    """Return what is bought next."""
    (buy,) = of(Buy, planned(wish, seen, now=now))
    return buy.record


# -- buying


def test_what_is_missing_is_bought_close_together_first() -> None:
    (buy,) = planned()

    assert buy.record.outcome is PurchaseOutcome.WRITTEN
    assert (buy.record.pass_number, buy.record.at, buy.record.purchase.number) == (1, NOW, 0)
    assert (buy.record.purchase.count, buy.record.purchase.min_nodes) == (3, 3)
    assert buy.record.purchase.placement
    assert buy.record.purchase.types == (G4.type,)


def test_a_fleet_that_is_whole_needs_nothing() -> None:
    assert planned(seen=fact((1, 2, 3))) == []


def test_only_what_is_missing_is_bought_where_the_others_are() -> None:
    near = replace(G4, zone="b", price=0.01)

    purchase = bought(fact((1, 2), offers=(near, G4))).purchase

    assert (purchase.count, purchase.min_nodes, purchase.zone) == (1, 1, "a")


@pytest.mark.parametrize("changes", [{"offers": None}, {"seen": 0.0}])
def test_nothing_is_bought_blindly(changes) -> None:
    assert planned(seen=fact(**changes)) == []


def test_a_crash_before_the_call_repeats_the_same_call() -> None:
    written = bought()

    again = bought(fact(purchases=(written,)), now=NOW + 5)

    assert again.purchase == written.purchase
    assert (again.tries, again.outcome, again.at) == (2, PurchaseOutcome.WRITTEN, NOW + 5)


def test_a_call_under_way_is_not_made_again() -> None:
    written = bought()

    assert (
        planned(seen=fact(purchases=(written,), calling=frozenset({written.purchase.token}))) == []
    )


def test_a_crash_after_the_call_adopts_what_came() -> None:
    written = bought()
    token = written.purchase.token
    there = tuple(machine(n, MachineState.PENDING, token=token, launched=NOW) for n in (1, 2, 3))

    actions = planned(seen=fact(purchases=(written,), machines=there), now=NOW + 5)

    assert of(RecordPurchase, actions) == [
        RecordPurchase(replace(written, outcome=PurchaseOutcome.BOUGHT))
    ]
    assert [(put.node.id, put.node.state) for put in of(Put, actions)] == [
        ("i-1", ASKED),
        ("i-2", ASKED),
        ("i-3", ASKED),
    ]
    assert of(Buy, actions) == []


def test_unrecorded_machines_are_adopted_and_surplus_ones_end() -> None:
    actions = planned(seen=fact(machines=tuple(machine(n) for n in (1, 2, 3, 4))))

    assert len(of(Put, actions)) == 4
    assert of(Terminate, actions) == [Terminate(("i-4",), "the fleet was made smaller")]


def test_what_was_just_bought_is_not_bought_again_before_it_is_listed() -> None:
    record = replace(bought(), outcome=PurchaseOutcome.BOUGHT)

    assert planned(seen=fact(purchases=(record,), seen=NOW + LAG_SECONDS - 1)) == []


def test_the_lag_counts_from_when_the_list_was_asked_for() -> None:
    record = replace(bought(), outcome=PurchaseOutcome.BOUGHT)

    assert planned(seen=fact(purchases=(record,), seen=NOW + 1), now=NOW + 5000) == []


def test_a_partial_fleet_is_topped_up_once_no_more_can_come() -> None:
    record = replace(bought(), outcome=PurchaseOutcome.BOUGHT)
    there = tuple(machine(n, token=record.purchase.token) for n in (1, 2))
    seen = fact((1, 2), purchases=(record,), machines=there)

    assert of(Buy, planned(seen=replace(seen, seen=NOW + 59), now=NOW + 59)) == []
    topped = bought(replace(seen, seen=NOW + 61), now=NOW + 61)
    assert (topped.purchase.count, topped.pass_number) == (1, 2)
    assert topped.purchase.token != record.purchase.token


def test_what_was_granted_but_never_came_is_lost_and_the_next_candidate_is_tried() -> None:
    record = replace(bought(), outcome=PurchaseOutcome.BOUGHT)

    actions = planned(seen=fact(purchases=(record,), seen=NOW + 61), now=NOW + 61)

    assert [action.record.outcome for action in of(RecordPurchase, actions)] == [
        PurchaseOutcome.LOST
    ]
    (buy,) = of(Buy, actions)
    assert (buy.record.pass_number, buy.record.purchase.number) == (1, 1)
    assert not buy.record.purchase.placement


def test_a_refused_candidate_is_followed_by_the_next() -> None:
    refused = replace(bought(), outcome=PurchaseOutcome.REFUSED, kind="capacity")

    after = bought(fact(purchases=(refused,)))

    assert (after.pass_number, after.purchase.number, after.purchase.placement) == (1, 1, False)
    assert after.purchase.token != refused.purchase.token


def all_tried(
    purchases=(), now=NOW, kind="capacity", wish=WISH, **changes
) -> tuple[tuple[PurchaseRecord, ...], Wait]:
    """Try until there is no candidate left; each is refused."""
    for _ in range(20):
        actions = planned(wish, fact(purchases=purchases, **changes), now=now)
        if of(Wait, actions):
            return purchases, of(Wait, actions)[0]
        record = of(Buy, actions)[0].record
        said = {"kind": kind, "message": "so the place says."}
        purchases = (*purchases, replace(record, outcome=PurchaseOutcome.REFUSED, **said))
    raise AssertionError("it never waits")


def test_when_no_candidate_has_machines_it_waits_longer_each_time() -> None:
    purchases, wait = all_tried()
    more, longer = all_tried(purchases, now=wait.until)

    assert wait.until == NOW + PAUSE_SECONDS[0]
    assert "3 nodes of g4dn.xlarge in a" in wait.why
    assert longer.until == wait.until + 2 * PAUSE_SECONDS[0]
    assert len({record.purchase.token for record in more}) == len(more) == 2 * len(purchases)


def test_a_wish_made_again_does_not_wait() -> None:
    purchases, _ = all_tried()

    assert bought(fact(purchases=purchases, asked=NOW + 1), now=NOW + 1).pass_number == 2


@pytest.mark.parametrize("kind", ["permission", "configuration"])
def test_what_only_a_person_can_change_stops_until_they_ask_again(kind) -> None:
    refused = replace(
        bought(), outcome=PurchaseOutcome.REFUSED, kind=kind, message="change this, then try again."
    )

    assert planned(seen=fact(purchases=(refused,)), now=NOW + 9999) == [
        Wait(0.0, "change this, then try again.")
    ]
    assert bought(fact(purchases=(refused,), asked=NOW + 1), now=NOW + 1)


@pytest.mark.parametrize("kind", ["quota", "price", "unknown"])
def test_what_another_way_may_do_is_tried_in_every_way_then_paused_with_its_reason(kind) -> None:
    purchases, wait = all_tried(kind=kind)

    assert len(purchases) > 1
    assert wait == Wait(NOW + PAUSE_SECONDS[0], "so the place says.")
    assert bought(fact(purchases=purchases), now=wait.until).pass_number == 2


def test_a_quota_that_is_used_up_lets_only_fewer_or_other_machines_be_tried() -> None:
    purchases, _ = all_tried(kind="quota")

    first, *others = [record.purchase for record in purchases]
    assert all(p.min_nodes < first.min_nodes or {*p.types} > {*first.types} for p in others)


@pytest.mark.parametrize("kind", ["credentials", "busy", "too early"])
def test_what_passes_is_paused_with_its_reason_and_begun_again(kind) -> None:
    refused = replace(
        bought(), outcome=PurchaseOutcome.REFUSED, kind=kind, message="so the place says."
    )
    seen = fact(purchases=(refused,))

    assert planned(seen=seen, now=NOW + 59) == [Wait(NOW + 60, "so the place says.")]
    again = bought(seen, now=NOW + 60)
    assert (again.pass_number, again.purchase.number, again.purchase.placement) == (2, 0, True)
    assert again.purchase.token != refused.purchase.token


def test_renewed_credentials_are_tried_each_minute_however_long_they_had_expired() -> None:
    purchases: tuple[PurchaseRecord, ...] = ()
    for minute in range(20):
        record = bought(fact(purchases=purchases), now=NOW + 60 * minute)
        purchases = (
            *purchases,
            replace(record, outcome=PurchaseOutcome.REFUSED, kind="credentials"),
        )

    assert bought(fact(purchases=purchases), now=NOW + 60 * 20)


def test_throttling_repeats_the_same_call_silently_and_ever_slower() -> None:
    throttled = replace(bought(), outcome=PurchaseOutcome.REFUSED, kind="throttling", tries=3)

    assert planned(seen=fact(purchases=(throttled,)), now=NOW + 7) == []
    again = bought(fact(purchases=(throttled,)), now=NOW + 8)
    assert (again.purchase, again.tries) == (throttled.purchase, 4)
    assert again.repeats_at - again.at == 16


@pytest.mark.parametrize(
    ("wish", "after"),
    [
        (replace(WISH, nodes=1), LAG_SECONDS),
        (replace(WISH, needs=Needs(gpus=2)), LAG_SECONDS),
        (WISH, REPEAT_SECONDS + 1),
    ],
)
def test_an_open_call_that_is_not_wanted_or_old_is_given_up_once_nothing_can_come(
    wish, after
) -> None:
    written = bought()
    seen = fact(purchases=(written,))

    before = planned(wish, replace(seen, seen=NOW + 59), now=NOW + after)
    actions = planned(wish, replace(seen, seen=NOW + after), now=NOW + after)

    assert of(Buy, before) == of(RecordPurchase, before) == []
    assert [action.record.outcome for action in of(RecordPurchase, actions)] == [
        PurchaseOutcome.LOST
    ]


def test_a_refusal_after_a_call_without_answer_is_not_yet_the_last_word() -> None:
    refused = replace(bought(), outcome=PurchaseOutcome.REFUSED, kind="capacity", tries=2)

    assert planned(seen=fact(purchases=(refused,), seen=NOW + 59), now=NOW + 59) == []
    assert bought(fact(purchases=(refused,), seen=NOW + 61), now=NOW + 61).purchase.number == 1


def test_a_cluster_of_the_same_name_never_repeats_an_earlier_ones_tokens() -> None:
    assert bought().purchase.token != bought(fact(founded=NOW)).purchase.token


# -- where

ELSEWHERE = replace(G4, zone="b", price=0.1)


def test_what_replaces_a_node_is_in_the_zone_of_the_others() -> None:
    purchases, wait = all_tried(numbers=(1, 2), offers=(G4, ELSEWHERE))

    assert {record.purchase.zone for record in purchases} == {"a"}
    assert wait.until > NOW
    assert "Only a is tried, the zone of the other nodes" in wait.why
    assert "`workbench resize --nodes 3 --across-zones`" in wait.why
    assert "traffic between zones costs $0.01/GB on each side" in wait.why


def test_with_a_persons_word_a_replacement_comes_from_any_zone() -> None:
    wish = replace(WISH, across_zones=True)

    purchases, wait = all_tried(wish=wish, numbers=(1, 2), offers=(G4, ELSEWHERE))

    assert {record.purchase.zone for record in purchases} == {"a", "b"}
    assert "--across-zones" not in wait.why


def test_a_zone_without_any_offer_is_named_with_the_word_that_helps() -> None:
    seen = fact((1, 2), offers=(ELSEWHERE,))

    (wait,) = of(Wait, planned(seen=seen))

    assert wait.why == (
        "a, where the other nodes are, offers nothing that fits; allow other zones with "
        "`workbench resize --nodes 3 --across-zones`, where traffic between zones costs $0.01/GB "
        "on each side."
    )
    assert bought(seen, replace(WISH, across_zones=True)).purchase.zone == "b"


def test_a_whole_new_fleet_goes_where_it_is_cheapest() -> None:
    taken = fact((1, 2), LEAVING, offers=(G4, ELSEWHERE))

    assert bought(taken).purchase.zone == "b"


def test_what_is_added_while_the_first_are_not_listed_yet_is_in_their_zone() -> None:
    first = replace(bought(wish=replace(WISH, nodes=2)), outcome=PurchaseOutcome.BOUGHT)

    more = bought(fact(purchases=(first,), offers=(G4, ELSEWHERE), seen=NOW + 1), now=NOW + 1)

    assert (more.purchase.count, more.purchase.zone) == (1, "a")


def test_what_is_added_beside_a_machine_whose_zone_is_not_known_yet_is_in_its_zone() -> None:
    first = replace(
        bought(wish=replace(WISH, nodes=1, min_nodes=1)), outcome=PurchaseOutcome.BOUGHT
    )
    token = first.purchase.token
    there = machine(1, MachineState.PENDING, zone="", type="", token=token, launched=NOW)
    seen = fact(purchases=(first,), machines=(there,), offers=(G4, ELSEWHERE))

    assert bought(seen).purchase.zone == "a"


def test_an_open_call_for_another_zone_is_given_up_when_the_word_is_taken_back() -> None:
    wish = replace(WISH, across_zones=True)
    seen = fact((1, 2), offers=(ELSEWHERE,))
    open_ = replace(bought(seen, wish), at=NOW - 30)
    later = replace(seen, purchases=(open_,), seen=NOW + 31)

    assert of(Buy, planned(wish, later, now=NOW + 31))[0].record.purchase == open_.purchase
    [record] = of(RecordPurchase, planned(WISH, later, now=NOW + 31))
    assert record.record.outcome is PurchaseOutcome.LOST


# -- machines come and go


@pytest.mark.parametrize(
    ("end", "state"), [(NOW + 118, JOINED), (NOW + 14, LEAVING), (NOW - 1, LEAVING), (0.0, LEAVING)]
)
def test_a_node_that_the_place_takes_back_is_replaced_at_once_and_left_late(end, state) -> None:
    seen = fact((1, 2, 3), noticed={"i-2": end})

    actions = planned(seen=seen)

    assert [(p.node.id, p.node.state) for p in of(Put, actions)] == [("i-2", state)]
    assert of(Terminate, actions) == []
    assert of(Buy, actions)[0].record.purchase.count == 1


@pytest.mark.parametrize(("left", "state"), [(118, JOINED), (22, LEAVING)])
def test_a_node_without_ranks_leaves_if_its_time_is_worth_no_move(left, state) -> None:
    seen = replace(fact((1, 2, 3), noticed={"i-2": NOW + left}), used=frozenset({"i-1", "i-3"}))

    assert [(p.node.id, p.node.state) for p in of(Put, planned(seen=seen))] == [("i-2", state)]


def test_a_notice_that_is_on_record_holds_until_it_is_taken_back() -> None:
    seen = fact((1, 2, 3))
    noticed = replace(node(2, JOINED), reclaimed=NOW + 118)
    seen = replace(seen, nodes=(seen.nodes[0], noticed, seen.nodes[2]))

    assert of(Buy, planned(seen=seen))[0].record.purchase.count == 1
    actions = planned(seen=replace(seen, withdrawn=frozenset({"i-2"})))
    assert of(Buy, actions) == []
    [put] = of(Put, actions)
    assert (put.node.state, put.node.reclaimed) == (JOINED, 0.0)


def test_the_head_of_a_world_is_its_head_until_it_leaves() -> None:
    early = fact((1, 2, 3), noticed={"i-1": NOW + 118})
    late = fact((1, 2, 3), noticed={"i-1": NOW + 10})

    assert [put.node.head for put in of(Put, planned(seen=early))] == [True]
    assert [p.node.id for p in of(Put, planned(seen=late)) if p.node.head and p.node.id != "i-1"]


def test_a_node_that_was_to_be_taken_back_and_stays_is_ended() -> None:
    taken = node(2, LEAVING, since=NOW - TAKEN_SECONDS, message="taken")
    seen = fact((1, 2, 3), noticed={"i-2": NOW + 118})
    seen = replace(seen, nodes=(seen.nodes[0], taken, seen.nodes[2]))

    assert of(Terminate, planned(seen=seen)) == [Terminate(("i-2",), "taken")]


@pytest.mark.parametrize(
    ("age", "used", "is_ended"),
    [(3599.0, False, False), (3600.0, False, True), (3600.0, True, False)],
    ids=["it may be free", "it is paid", "it still carries ranks"],
)
def test_a_node_with_a_notice_is_given_back_once_it_is_left(age, used, is_ended) -> None:
    left = node(2, LEAVING, since=NOW - 1, message="taken", launched=NOW - age)
    seen = fact((1, 2, 3), noticed={"i-2": NOW + 60})
    others = (seen.nodes[0], left, seen.nodes[2])
    carry = frozenset({"i-1", "i-3", *(["i-2"] if used else [])})
    machines = (seen.machines[0], machine(2, launched=NOW - age), seen.machines[2])

    actions = planned(seen=replace(seen, nodes=others, used=carry, machines=machines))

    assert bool(of(Terminate, actions)) == is_ended


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (
            machine(2, MachineState.GONE, ended=NOW - 3, interrupted=True),
            "the provider takes it back",
        ),
        (machine(2, MachineState.GONE, ended=NOW - 3, reason="Shutdown"), "Shutdown"),
        (None, "the provider no longer lists it"),
    ],
)
def test_a_node_whose_machine_is_gone_is_gone_and_replaced(there, message) -> None:
    seen = fact((1, 2, 3))
    others = (seen.machines[0], seen.machines[2], *filter(None, [there]))

    actions = planned(seen=replace(seen, machines=others))

    (put,) = of(Put, actions)
    assert (put.node.id, put.node.state, put.node.message) == ("i-2", GONE, message)
    assert put.node.ended == (NOW - 3 if there else NOW)
    assert (put.node.price, put.node.failed) == (0.0, False)
    assert len(of(Buy, actions)) == 1


def test_shortly_after_a_launch_not_being_listed_is_no_news() -> None:
    seen = fact((1, 2, 3), BOOTING)
    young = tuple(replace(n, launched=NOW - LAG_SECONDS + 1) for n in seen.nodes)

    assert planned(seen=replace(seen, nodes=young, machines=())) == []


def test_a_node_that_does_not_come_up_is_released_and_counted() -> None:
    seen = fact((1, 2, 3), BOOTING, contacts=())
    tried = contact(3, open=False, since=NOW - BOOT_SECONDS - 1)
    fine = tuple(contact(n) for n in (1, 2))

    actions = planned(seen=replace(seen, contacts=(*fine, tried)))

    assert [put.node.id for put in of(Put, actions) if put.node.failed] == ["i-3"]
    assert of(Terminate, actions) == [Terminate(("i-3",), "it did not come up within 10 minutes")]
    assert of(Buy, actions) == []


def test_what_booted_while_no_one_looked_is_tried_first() -> None:
    actions = planned(seen=fact((1, 2, 3), BOOTING, contacts=()))

    assert actions == [Open("i-1"), Open("i-2"), Open("i-3")]


def test_a_node_that_ends_before_it_was_up_has_failed() -> None:
    seen = fact((1, 2), BOOTING)
    ended = machine(2, MachineState.GONE, reason="Server.InternalError")

    actions = planned(seen=replace(seen, machines=(machine(1), ended)))

    assert [(p.node.failed, p.node.message) for p in of(Put, actions) if p.node.state is GONE] == [
        (True, "Server.InternalError")
    ]


def test_after_some_failures_nothing_is_bought_until_the_user_looked() -> None:
    failed = tuple(
        node(n, GONE, failed=True, message="apt failed", ended=NOW) for n in range(MOST_FAILURES)
    )

    (wait,) = planned(seen=fact(nodes=failed))

    assert wait.until == 0.0
    assert "3 nodes failed, the last because apt failed" in wait.why
    assert bought(fact(nodes=failed, asked=NOW))


@pytest.mark.parametrize("answers", [True, False], ids=["another answers", "none answers"])
def test_a_node_that_cannot_be_reached_for_long_is_replaced(answers: bool) -> None:
    seconds = SILENT_SECONDS if answers else LEASE_SECONDS + DEAD_SECONDS
    others = tuple(contact(n, open=answers, since=NOW - 1) for n in (1, 2))
    lost = (*others, contact(3, open=False, since=NOW - seconds - 1))
    seen = fact((1, 2, 3), contacts=lost, used=frozenset())

    assert of(Terminate, planned(seen=seen)) == [
        Terminate(("i-3",), f"it could not be reached for {seconds / 60:.0f} minutes")
    ]
    recent = (*others, contact(3, open=False, since=NOW - seconds + 1))
    assert not of(Terminate, planned(seen=replace(seen, contacts=recent)))
    assert Open("i-3") in planned(seen=replace(seen, contacts=recent))


def silent(numbers, state=JOINED, since=LONG_AGO, **changes) -> FleetFact:
    """Return a fleet none of whose nodes answers, though they run."""
    contacts = tuple(contact(n, open=False, since=since) for n in numbers)
    return fact(numbers, state, contacts=contacts, **changes)


@pytest.mark.parametrize("state", [BOOTING, READY, JOINED])
@pytest.mark.parametrize("seconds", [SAID_SECONDS, UNREACHED_SECONDS])
def test_while_no_node_answers_nothing_is_replaced_or_bought(state, seconds) -> None:
    actions = planned(seen=silent((1, 2), state, NOW - seconds))

    assert not of(Terminate, actions) + of(Buy, actions)
    assert of(ExplainSilence, actions) == [ExplainSilence(("i-1", "i-2"))]
    (wait,) = of(Wait, actions)
    assert wait.why.startswith("2 nodes run and none answers, so nothing is replaced or bought")


def test_why_no_node_answers_is_said_as_the_provider_found_it() -> None:
    seen = silent((1,), since=NOW - SAID_SECONDS, silence="Port 22 is closed.")

    (wait,) = of(Wait, planned(seen=seen))

    assert wait.why.endswith("until one does. Port 22 is closed.")


def test_a_moment_without_an_answer_is_not_said_and_buys_nothing() -> None:
    actions = planned(seen=silent((1, 2), since=NOW - 1))

    assert not of(Wait, actions) + of(ExplainSilence, actions) + of(Buy, actions)
    assert of(Open, actions) == [Open("i-1"), Open("i-2")]


def test_when_a_node_answers_again_what_is_missing_is_bought() -> None:
    seen = silent((1, 2))
    answers = replace(seen, contacts=(contact(1), contact(2, open=False, since=NOW - 1)))

    assert bought(answers).purchase.count == 1


def test_nodes_that_are_gone_are_replaced_though_none_answered_before() -> None:
    seen = silent((1, 2), since=NOW - SAID_SECONDS, used=frozenset())
    gone = tuple(machine(n, MachineState.GONE) for n in (1, 2))

    assert bought(replace(seen, machines=gone)).purchase.count == 3


def test_nodes_that_were_never_reached_are_released_and_one_is_tried_alone() -> None:
    actions = planned(seen=silent((1, 2), BOOTING, NOW - UNREACHED_SECONDS - 1))
    failed = tuple(node(n, GONE, failed=True, launched=NOW, ended=NOW) for n in (1, 2))
    one = silent((3,), BOOTING, NOW)

    assert of(Terminate, actions) == [
        Terminate(("i-1", "i-2"), "it did not come up within 15 minutes")
    ]
    assert not of(Buy, actions)
    assert bought(fact(nodes=failed)).purchase.count == 1
    assert not of(Buy, planned(seen=replace(one, nodes=(*failed, *one.nodes))))
    one = replace(one, contacts=(contact(3),))
    assert bought(replace(one, nodes=(*failed, *one.nodes))).purchase.count == 2


def test_after_some_failures_that_no_one_reached_the_cause_is_reported() -> None:
    failed = tuple(node(n, GONE, failed=True, message="late", ended=NOW) for n in range(3))

    (wait,) = planned(seen=fact(nodes=failed, silence="Port 22 is closed."))

    assert "the last because late. Port 22 is closed. Then start" in wait.why


def test_a_node_is_opened_verified_and_prepared() -> None:
    seen = fact((1, 2, 3), BOOTING)

    verified = planned(seen=seen)
    prepared = planned(seen=replace(seen, nodes=tuple(put.node for put in of(Put, verified))))

    assert [put.node.state for put in of(Put, verified)] == [VERIFIED] * 3
    assert prepared == [PrepareNode("i-1"), PrepareNode("i-2"), PrepareNode("i-3")]


def test_what_is_being_done_is_not_asked_for_again() -> None:
    working = tuple(contact(n, working=True) for n in (1, 2, 3))

    assert planned(seen=fact((1, 2, 3), VERIFIED, contacts=working)) == []


def test_a_node_without_an_address_is_waited_for() -> None:
    there = tuple(machine(n, reach="") for n in (1, 2, 3))

    seen = fact((1, 2, 3), BOOTING, machines=there, contacts=())
    young = tuple(replace(n, launched=NOW - 60) for n in seen.nodes)

    assert planned(seen=replace(seen, nodes=young)) == []


def test_a_node_that_could_not_be_prepared_is_released() -> None:
    seen = fact((1, 2, 3), READY)
    failed = node(2, VERIFIED, failed=True, message="prepare.sh ended with 1")

    actions = planned(seen=replace(seen, nodes=(seen.nodes[0], failed, seen.nodes[2])))

    assert of(Terminate, actions) == [Terminate(("i-2",), "prepare.sh ended with 1")]


# -- the head


def test_the_head_is_elected_by_number_once_enough_are_ready() -> None:
    seen = fact((10, 4), READY)
    no_one = tuple(replace(n, head=False) for n in seen.nodes)

    puts = of(Put, planned(seen=replace(seen, nodes=no_one)))

    assert [(put.node.id, put.node.head) for put in puts] == [("i-4", True)]
    one = replace(seen, nodes=(no_one[0], replace(no_one[1], state=VERIFIED)))
    assert of(Put, planned(seen=one)) == []


@pytest.mark.parametrize("state", [ASKED, BOOTING, VERIFIED])
def test_which_node_is_ready_first_does_not_decide_about_the_head(state) -> None:
    wish, seen = replace(WISH, min_nodes=1), fact((4, 10), READY)
    nodes = (node(4, state), replace(seen.nodes[1], head=False))

    puts = of(Put, planned(wish, replace(seen, nodes=nodes)))

    assert not any(put.node.head for put in puts)


def test_a_node_that_failed_on_its_way_is_not_waited_for_with_the_election() -> None:
    wish, seen = replace(HOSTS, nodes=2), fact((4, 10), READY)
    failed = replace(seen.nodes[0], state=VERIFIED, head=False, failed=True, since=NOW)

    puts = of(Put, planned(wish, replace(seen, nodes=(failed, seen.nodes[1]))))

    assert [(put.node.id, put.node.head) for put in puts] == [("i-10", True)]


def test_where_a_world_is_up_already_a_head_is_elected_at_once() -> None:
    wish, seen = replace(WISH, min_nodes=1), fact((4, 10), used=frozenset({"i-10"}))
    nodes = (node(4, VERIFIED), replace(seen.nodes[1], head=False))

    puts = of(Put, planned(wish, replace(seen, nodes=nodes)))

    assert [(put.node.id, put.node.head) for put in puts] == [("i-10", True)]


def test_a_lower_address_that_comes_later_does_not_become_the_head() -> None:
    assert planned(seen=fact((4, 10, 3))) == []


def test_a_head_that_is_gone_is_followed_by_another() -> None:
    seen = fact((4, 10, 11))

    puts = of(Put, planned(seen=replace(seen, machines=seen.machines[1:])))

    assert [(put.node.id, put.node.head) for put in puts] == [("i-4", False), ("i-10", True)]


# -- another size


def test_a_smaller_fleet_lets_its_world_continue_elsewhere_first() -> None:
    seen = fact((1, 2, 3))

    actions = planned(replace(WISH, nodes=2), seen)

    assert [(p.node.id, p.node.state) for p in of(Put, actions)] == [("i-3", LEAVING)]
    assert of(Terminate, actions) == []


@pytest.mark.parametrize(
    ("used", "waited", "ids"),
    [(True, 10, []), (False, 10, ["i-3"]), (True, LEAVE_SECONDS, ["i-3"])],
)
def test_a_node_goes_once_no_world_is_on_it_or_after_a_while(used, waited, ids) -> None:
    seen = fact((1, 2, 3))
    leaving = node(3, LEAVING, since=NOW - waited, message="smaller")
    seen = replace(
        seen,
        nodes=(*seen.nodes[:2], leaving),
        used=frozenset({"i-1", "i-2"} | ({"i-3"} if used else set())),
    )

    released = of(Terminate, planned(replace(WISH, nodes=2), seen))

    assert [id_ for release in released for id_ in release.ids] == ids


def test_a_node_that_was_to_go_stays_when_it_is_wanted_again() -> None:
    seen = fact((1, 2, 3))
    leaving = node(3, LEAVING, since=NOW - 5)

    actions = planned(seen=replace(seen, nodes=(*seen.nodes[:2], leaving)))

    assert [(put.node.id, put.node.state) for put in of(Put, actions)] == [("i-3", READY)]
    assert of(Buy, actions) == []


def test_the_head_goes_last_and_what_is_furthest_stays() -> None:
    seen = fact((1, 2, 3), READY)
    nodes = (node(1, BOOTING), node(2, READY), node(3, READY, head=True))

    released = of(Terminate, planned(replace(WISH, nodes=1), replace(seen, nodes=nodes)))

    assert released == [Terminate(("i-1", "i-2"), "the fleet was made smaller")]


def test_no_nodes_pay_nothing_and_buy_nothing() -> None:
    empty = replace(WISH, nodes=0)

    assert planned(empty, fact()) == []
    released = of(Terminate, planned(empty, fact((1, 2), READY)))
    assert [id_ for release in released for id_ in release.ids] == ["i-1", "i-2"]


@pytest.mark.parametrize(
    ("waiting", "idle", "count"),
    [(0, 0.0, 2), (1, 0.0, 3), (9, 0.0, 4), (0, 9999.0, 1)],
)
def test_a_fleet_that_may_grow_grows_by_what_waits(waiting, idle, count) -> None:
    wish = replace(WISH, nodes=2, min_nodes=1, max_nodes=4)

    assert bought(fact(waiting=waiting, idle=idle), wish).purchase.count == count


# -- money and time


def test_the_budget_ends_all_before_it_is_exceeded() -> None:
    seen = fact((1, 2, 3))
    spent = tuple(replace(n, spent=0.33) for n in seen.nodes)
    wish = replace(WISH, budget=1.0)

    actions = planned(wish, replace(seen, nodes=spent))

    (release,) = of(Terminate, actions)
    assert release.ids == ("i-1", "i-2", "i-3")
    assert "$0.99 of the budget of $1.00 are spent" in release.why
    assert of(Wait, actions)[0].until == 0.0
    assert of(Terminate, planned(replace(wish, budget=1.1), replace(seen, nodes=spent))) == []


def test_while_the_reserve_of_the_budget_lasts_runs_may_save_on_their_nodes() -> None:
    seen = fact((1, 2, 3))
    spent = tuple(replace(n, spent=0.325) for n in seen.nodes)
    wish, used = replace(WISH, budget=1.0), frozenset({"i-1", "i-2"})

    actions = planned(wish, replace(seen, nodes=spent, used=used))

    assert [release.ids for release in of(Terminate, actions)] == [("i-3",)]
    assert {put.node.state for put in of(Put, actions)} == {LEAVING}


def test_what_is_left_of_a_budget_is_not_spent_on_a_start() -> None:
    gone = node(1, GONE, spent=0.95)

    (wait,) = planned(replace(WISH, budget=1.0), fact(nodes=(gone,)))

    assert wait.until == 0.0
    assert "$0.05 of the budget are left, which is too little to start at $0.60/h" in wait.why


def test_all_together_cost_no_more_than_was_said() -> None:
    purchase = bought(wish=replace(WISH, max_price=0.5)).purchase

    assert (purchase.count, purchase.min_nodes) == (2, 2)
    assert purchase.max_price == pytest.approx(0.25)


def test_what_all_may_cost_has_their_disks() -> None:
    wish, seen = replace(WISH, max_price=0.5), fact(offers=(replace(G4, extra_price=0.05),))

    assert bought(seen, wish).purchase.max_price == pytest.approx(0.2)
    (wait,) = planned(replace(wish, max_price=0.4), seen)
    assert "disks and addresses included" in wait.why


def test_where_too_few_may_be_paid_nothing_is_bought() -> None:
    (wait,) = planned(replace(WISH, max_price=0.3))

    assert wait.why == (
        "2 nodes more would cost $0.40/h (g4dn.xlarge), and the max price is $0.30/h; "
        "raise it, or request fewer nodes."
    )


def test_above_the_confirmed_price_it_waits_with_the_remedy() -> None:
    wish = replace(WISH, most_price=0.3)
    dear = fact(offers=(replace(G4, price=0.31),))

    (wait,) = planned(wish, dear)

    assert bought(wish=wish).purchase.max_price == pytest.approx(0.3)
    assert wait.why == (
        "A node costs $0.31/h now (g4dn.xlarge), and at most $0.30/h was confirmed; it is bought "
        "when the price falls, or raise the limit with `workbench up --max-price`."
    )


def test_when_prices_rise_what_is_too_dear_goes() -> None:
    seen = fact((1, 2, 3), READY)

    released = of(Terminate, planned(replace(WISH, max_price=0.5), seen))

    assert [release.ids for release in released] == [("i-3",)]
    everything = of(Terminate, planned(replace(WISH, max_price=0.3), seen))
    assert [release.ids for release in everything] == [("i-1", "i-2", "i-3")]


def test_a_node_too_dear_that_still_carries_a_world_continues_leaving() -> None:
    seen = fact((1, 2, 3))
    leaving = node(3, LEAVING, since=NOW - 5, message="dear")

    actions = planned(replace(WISH, max_price=0.5), replace(seen, nodes=(*seen.nodes[:2], leaving)))

    assert of(Put, actions) == []
    assert of(Buy, actions) == []


@pytest.mark.parametrize(
    ("offers", "words"),
    [
        ((), "There are no offers"),
        ((replace(G4, gpus=0),), "requirements has 1 GPU;"),
        ((replace(G4, quota=0),), "the quota of g4dn.xlarge"),
    ],
)
def test_why_nothing_can_be_bought_is_reported_with_the_remedy(offers, words) -> None:
    (wait,) = planned(seen=fact(offers=offers))

    assert wait.until == 0.0
    assert words in wait.why


# -- the end


def test_a_deleted_cluster_ends_cleans_and_finishes() -> None:
    seen = fact((1, 2, 3))
    ending = tuple(machine(n, MachineState.STOPPING) for n in (1, 2, 3))
    ended = tuple(machine(n, MachineState.GONE, ended=NOW) for n in (1, 2, 3))
    gone = tuple(node(n, GONE, ended=NOW) for n in (1, 2, 3))
    group = Leftover("security group", "sg-1", "lab")

    first = planned(seen=seen, wanted=False)
    assert of(Terminate, first) == [Terminate(("i-1", "i-2", "i-3"), "the cluster was deleted")]
    assert of(Clean, first) == []
    second = planned(seen=replace(seen, machines=ending), wanted=False)
    assert of(Terminate, second) == of(Clean, second) == []
    assert of(Clean, planned(seen=replace(seen, machines=ended), wanted=False)) == [Clean()]
    over = replace(seen, nodes=gone, machines=ended)
    assert planned(seen=replace(over, left=(group,), cleaned=NOW + 1), wanted=False) == [Clean()]
    assert planned(seen=replace(over, left=(), cleaned=NOW - 1), wanted=False) == [Clean()]
    assert planned(seen=replace(over, left=(), cleaned=NOW + 1), wanted=False) == [Finish()]


@pytest.mark.parametrize("outcome", [PurchaseOutcome.WRITTEN, PurchaseOutcome.BOUGHT])
def test_nothing_is_finished_while_something_could_still_come(outcome) -> None:
    record = replace(bought(), outcome=outcome)
    seen = fact(purchases=(record,), left=(), cleaned=NOW + 1, seen=NOW + 59)

    assert planned(seen=seen, wanted=False, now=NOW + 9999) == []


def test_what_comes_after_the_wish_has_gone_is_ended() -> None:
    record = bought()
    late = machine(7, MachineState.PENDING, token=record.purchase.token)

    actions = planned(seen=fact(purchases=(record,), machines=(late,)), wanted=False)

    assert of(Terminate, actions) == [Terminate(("i-7",), "the cluster was deleted")]


def test_at_the_end_of_its_time_a_cluster_is_deleted() -> None:
    wish = replace(WISH, expires=NOW)

    assert of(Terminate, planned(wish, fact((1, 2, 3)))) == [
        Terminate(("i-1", "i-2", "i-3"), "its time to live is over")
    ]
    assert planned(wish, fact((1, 2, 3)), now=NOW - 1) == []


def test_this_machine_alone_needs_no_plan() -> None:
    local = FleetWish()

    assert planned(local, fact()) == []
    assert planned(local, fact(), wanted=False) == [Finish()]


# -- hosts of one's own


def host(address: str) -> Machine:
    return Machine(address, MachineState.RUNNING, address, address, slots=1)


THERE = (host("10.0.0.9"), host("10.0.0.10"))


def test_hosts_are_taken_as_they_are_listed_and_never_bought() -> None:
    actions = planned(replace(HOSTS, nodes=1), fact(machines=THERE))

    assert [(p.node.id, p.node.state) for p in of(Put, actions)] == [("10.0.0.9", BOOTING)]
    assert of(Buy, actions) == []
    (wait,) = of(Wait, planned(replace(HOSTS, nodes=3), fact(machines=THERE)))
    assert "3 nodes are wanted, but 2 hosts are listed" in wait.why


def hosted(**changes) -> FleetFact:
    nodes = tuple(
        Node(m.id, READY, m.address, 1, head=m.id.endswith("9"), since=LONG_AGO) for m in THERE
    )
    contacts = tuple(SessionState(m.id, True, LONG_AGO) for m in THERE)
    return fact(machines=THERE, nodes=nodes, contacts=contacts, **changes)


def test_a_host_that_is_not_wanted_is_let_alone() -> None:
    actions = planned(replace(HOSTS, nodes=1), hosted())

    assert [(p.node.id, p.node.state) for p in of(Put, actions)] == [("10.0.0.10", GONE)]
    assert of(Terminate, actions) == []
    left = hosted(left=(), cleaned=NOW + 1)
    deleted = planned(HOSTS, left, wanted=False)
    assert [put.node.state for put in of(Put, deleted)] == [GONE, GONE]
    assert of(Terminate, deleted) == []


def test_a_host_that_failed_gets_another_chance_when_asked_again() -> None:
    seen = hosted()
    failed = replace(seen.nodes[1], state=VERIFIED, failed=True, message="no disk left")
    seen = replace(seen, nodes=(seen.nodes[0], failed))

    same = planned(HOSTS, replace(seen, asked=LONG_AGO - 1))
    repeated = planned(HOSTS, replace(seen, asked=NOW))

    assert same == []
    assert [(p.node.state, p.node.failed) for p in of(Put, repeated)] == [(BOOTING, False)]


def test_another_host_takes_the_place_of_one_that_failed() -> None:
    seen = hosted()
    failed = replace(seen.nodes[0], state=VERIFIED, failed=True, since=NOW, message="no disk left")

    actions = planned(replace(HOSTS, nodes=1), replace(seen, nodes=(failed,)))

    assert {(p.node.id, p.node.state) for p in of(Put, actions)} == {
        ("10.0.0.9", GONE),
        ("10.0.0.10", BOOTING),
    }
    gone = replace(failed, state=GONE)
    both = planned(HOSTS, replace(seen, nodes=(gone, seen.nodes[1])))
    assert "10.0.0.9" not in {put.node.id for put in of(Put, both)}
