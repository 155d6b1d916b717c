"""An administrator's limits count all clusters of a user, and refuse with the rule and a remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.cluster.limits import Holding, check_limits, read_limits
from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.model import FleetWish
from workbench.errors import MachineError, StateError

FILE = """
ranks = 4
nodes = 2
max_price = 1.5
budget = 20

[users.ann]
ranks = 8
"""
RENTED = FleetWish("ec2", nodes=1, slots=2, max_price=1.0, budget=5.0)
NONE = ClusterWish("new", False, 0)


def here(ranks: int, name: str = "new") -> ClusterWish:
    return ClusterWish(name, True, ranks)


def rented(name: str = "new", **changes) -> ClusterWish:
    return ClusterWish(name, True, 0, fleet=replace(RENTED, **changes))


def ask(wanted, *others, present=NONE, present_spent=0.0, spent=0.0, user="bo", text=FILE):
    limits = read_limits(text, "limits.toml", user)
    held = [Holding(one, 0.0) for one in others]
    check_limits(limits, wanted, Holding(present, present_spent), held, spent)


@pytest.mark.parametrize(
    ("wanted", "others", "sentence"),
    [
        (
            here(5),
            (),
            "The limits in limits.toml allow bo 4 ranks, and new would come to 5 ranks; "
            "ask for less.",
        ),
        (
            here(2),
            (here(3, "old"),),
            "allow bo 4 ranks, and old and new would come to 5 ranks; ask for less, or delete "
            "another cluster.",
        ),
        (rented(slots=0), (), "allow bo 4 ranks, and cluster new has no --slots; give it one."),
        (rented(nodes=3, slots=1), (), "allow bo 2 nodes, and new would come to 3 nodes;"),
        (rented(max_nodes=3, slots=1), (), "allow bo 2 nodes, and new would come to 3 nodes;"),
        (rented(max_price=0), (), "allow bo $1.50/h, and cluster new has no --max-price; give"),
        (rented(), (rented("old"),), "allow bo $1.50/h, and old and new would come to $2.00/h;"),
        (rented(budget=0), (), "allow bo $20.00 in all, $0.00 of them spent, and cluster new has"),
        (rented(budget=21.0), (), "new would come to $21.00; ask for less."),
    ],
)
def test_more_than_is_allowed_is_refused_with_the_rule(wanted, others, sentence) -> None:
    with pytest.raises(StateError) as refusal:
        ask(wanted, *others)

    assert sentence in str(refusal.value)


def test_what_was_spent_before_counts_once() -> None:
    ask(rented(budget=5.0), spent=15.0)
    ask(rented(budget=6.0), present=rented(), present_spent=2.0, spent=16.0)

    with pytest.raises(StateError, match=r"\$16.00 of them spent, and new would come to \$21.00"):
        ask(rented(budget=5.0), spent=16.0)


def test_as_much_as_is_allowed_is_not_refused() -> None:
    ask(here(4))
    ask(here(8), user="ann")
    ask(rented(nodes=2))
    ask(here(400), text="nodes = 0")
    ask(rented(provider="rehearsal", max_price=0.0, budget=0.0))


def test_less_than_before_is_allowed_even_above_the_limit() -> None:
    ask(here(6), present=here(7))

    with pytest.raises(StateError):
        ask(here(6), present=replace(here(7), up=False))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ranks = ", "is not TOML"),
        ("rank = 4", "has 'rank', which is none of ranks, nodes, max_price, budget and users"),
        ("ranks = true", "has ranks = True, which is no number of at least 0"),
        ("nodes = -1", "has nodes = -1, which is no number of at least 0"),
        ("users = 3", "has users that are not tables such as [users.bo]"),
        ("[users]\nbo = 3", "has users that are not tables such as [users.bo]"),
    ],
)
def test_a_file_that_is_wrong_allows_nothing(text, sentence) -> None:
    with pytest.raises(MachineError) as refusal:
        ask(here(1), text=text)

    assert sentence in str(refusal.value)
    assert str(refusal.value).endswith("nothing was started; ask your administrator to correct it.")
