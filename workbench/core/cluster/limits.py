"""Decide what an administrator's limits allow one user, over all of that user's clusters."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.core.cluster.model import ClusterWish
from workbench.core.units import count, dollars, hourly
from workbench.errors import MachineError, StateError

USERS = "users"
_SHOWN: dict[str, Callable[[float], str]] = {
    "ranks": lambda amount: count(int(amount), "rank"),
    "nodes": lambda amount: count(int(amount), "node"),
    "max_price": hourly,
    "budget": dollars,
}


@dataclass(frozen=True)
class Limits:
    """What one user may have at a time; infinite where there is no limit.

    Args:
        path: The file that says so.
        user: The user for whom it says so.
        ranks: Of all clusters together.
        nodes: Of all clusters together.
        max_price: $/h of all clusters together.
        budget: $ of all clusters there ever were, together.
    """

    path: str
    user: str
    ranks: float = math.inf
    nodes: float = math.inf
    max_price: float = math.inf
    budget: float = math.inf


@dataclass(frozen=True)
class Holding:
    """A cluster that is up, and the $ that it has cost since it was started."""

    wish: ClusterWish
    spent: float = 0.0


def read_limits(text: str, path: str, user: str) -> Limits:
    """Return the limits of a user: those of everybody, and in their place the user's own.

    Args:
        text: TOML, with a table for a user under ``users``.

    Raises:
        MachineError: The text has no limits, or something else besides.
    """
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _unusable(path, f"is not TOML: {error}") from error
    own = given.pop(USERS, {})
    if not isinstance(own, dict) or not isinstance(own.get(user, {}), dict):
        raise _unusable(path, f"has {USERS} that are not tables such as [{USERS}.{user}]")
    limits = replace(Limits(path, user), **_values(path, given))
    return replace(limits, **_values(path, own.get(user, {})))


def check_limits(
    limits: Limits, wanted: ClusterWish, present: Holding, others: Sequence[Holding], spent: float
) -> None:
    """Raise an error if ``wanted`` takes its user over a limit; less than before is always allowed.

    Args:
        present: The cluster as it is now.
        others: The user's other clusters that are up.
        spent: $ of all clusters there ever were.

    Raises:
        StateError: With the limit, what it would be, and the remedy.
    """
    is_up = present.wish.up
    held = [*others, Holding(wanted, present.spent if is_up else 0.0)]

    def check(name: str, option: str, most: Callable[[ClusterWish], float]) -> None:
        limit, before = getattr(limits, name), most(present.wish) if is_up else 0.0
        if limit == math.inf or most(wanted) <= before:
            return
        shown, began = _SHOWN[name], 0.0
        amounts = {one.wish.name: most(one.wish) for one in held}
        rule = f"The limits in {limits.path} allow {limits.user} {shown(limit)}"
        if name == "budget":
            began = spent
            amounts = {one.wish.name: max(0.0, amounts[one.wish.name] - one.spent) for one in held}
            rule = f"{rule} in all, {shown(spent)} of them spent"
        if open_ := [one for one, amount in amounts.items() if amount == math.inf]:
            raise StateError(f"{rule}, and cluster {open_[0]} has no {option}", "give it one.")
        if (total := began + sum(amounts.values())) > limit:
            names = " and ".join(amounts)
            delete = ", or delete another cluster" if others else ""
            raise StateError(
                f"{rule}, and {names} would come to {shown(total)}", f"ask for less{delete}."
            )

    check("ranks", "--slots", _ranks)
    check("nodes", "--nodes", _nodes)
    check("max_price", "--max-price", _price)
    check("budget", "--budget", _budget)


def _values(path: str, given: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in given.items():
        if name not in _SHOWN:
            known = ", ".join(_SHOWN)
            raise _unusable(path, f"has {name!r}, which is none of {known} and {USERS}")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not value >= 0:
            raise _unusable(path, f"has {name} = {value!r}, which is no number of at least 0")
    return {name: float(value) for name, value in given.items()}


def _unusable(path: str, why: str) -> MachineError:
    return MachineError(
        f"The limits file {path} {why}",
        "nothing was started; ask your administrator to correct it.",
    )


def _nodes(wish: ClusterWish) -> int:
    """Return the most nodes that a cluster may have."""
    return max(wish.fleet.nodes, wish.fleet.max_nodes) if wish.fleet.place.has_nodes else 0


def _ranks(wish: ClusterWish) -> float:
    """Return the most ranks that a cluster may have; infinite while its nodes are unknown."""
    if wish.ranks or not wish.fleet.place.has_nodes:
        return wish.ranks
    return _nodes(wish) * (wish.fleet.slots or math.inf) if _nodes(wish) else 0


def _price(wish: ClusterWish) -> float:
    """Return the most that a cluster may cost in $/h."""
    is_billed = wish.fleet.place.is_paid and _nodes(wish)
    return (wish.fleet.max_price or math.inf) if is_billed else 0.0


def _budget(wish: ClusterWish) -> float:
    """Return the most that a cluster may cost in $ until it is deleted."""
    is_billed = wish.fleet.place.is_paid and _nodes(wish)
    return (wish.fleet.budget or math.inf) if is_billed else 0.0
