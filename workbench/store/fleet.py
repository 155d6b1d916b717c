"""Store a cluster's nodes, purchases and costs, also those of the past."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from workbench.core.cluster.model import THIS_MACHINE
from workbench.core.cluster.resize_time import ResizeAt
from workbench.core.fleet.model import FleetWish, Node, NodeState
from workbench.core.fleet.purchases import PurchaseRecord
from workbench.store.database import Database
from workbench.store.rows import built, readable, reading

_NODE = tuple(Node.__dataclass_fields__)
_RECORD = tuple(name for name in PurchaseRecord.__dataclass_fields__ if name != "purchase")


@dataclass(frozen=True)
class Account:
    """The spending of a cluster over its lives.

    Args:
        founded: Epoch seconds at which the cluster was defined; a deleted one is defined again.
        asked: Epoch seconds at which the current wish was first seen.
        spent_before: $ spent on earlier clusters of this name, which were deleted.
    """

    founded: float
    asked: float
    spent_before: float


class Fleets(Database):
    """The part of the store that holds nodes, purchases and costs."""

    # -- nodes

    def put_nodes(self, cluster: str, nodes: Iterable[Node]) -> None:
        """Write nodes as they were last seen, all or none; other nodes are unchanged."""
        rows = [(cluster, *(getattr(node, name) for name in _NODE)) for node in nodes]
        marks = ", ".join("?" * (len(_NODE) + 1))
        with self._transaction() as connection:
            connection.executemany(
                f"INSERT OR REPLACE INTO nodes (cluster, {', '.join(_NODE)}) VALUES ({marks})",
                rows,
            )

    def put_node(self, cluster: str, node: Node) -> None:
        """Write one node as it was last seen."""
        self.put_nodes(cluster, (node,))

    def nodes(self, cluster: str, *, gone: bool = False) -> list[Node]:
        """Return the nodes of ``cluster`` by id; those that are gone only with ``gone``."""
        rows = self._all(
            f"SELECT {', '.join(_NODE)} FROM nodes WHERE cluster = ? AND (? OR state != ?) "
            "ORDER BY id",
            (cluster, gone, NodeState.GONE),
        )
        return [*readable(self.path, f"a node of {cluster!r}", rows, _node)]

    def reclaimed_nodes(self, cluster: str) -> tuple[Node, ...]:
        """Return the nodes of ``cluster`` that have an interruption notice, by id."""
        rows = self._all(
            f"SELECT {', '.join(_NODE)} FROM nodes "
            "WHERE cluster = ? AND reclaimed > 0 AND state != ? ORDER BY id",
            (cluster, NodeState.GONE),
        )
        return tuple(readable(self.path, f"a node of {cluster!r}", rows, _node))

    # -- money

    def put_prices(self, cluster: str, prices: Iterable[tuple[str, float, float]]) -> None:
        """Write the price of nodes from a moment on; a price stored for the same moment is kept.

        Args:
            prices: A node's id, epoch seconds and $/h.
        """
        with self._transaction() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO prices VALUES (?, ?, ?, ?)",
                [(cluster, *price) for price in prices],
            )

    def prices(self, cluster: str) -> dict[str, tuple[tuple[float, float], ...]]:
        """Return the prices of each node, also of those gone, with their start, oldest first."""
        found: dict[str, list[tuple[float, float]]] = {}
        rows = self._all(
            "SELECT node, since, price FROM prices WHERE cluster = ? ORDER BY node, since",
            (cluster,),
        )
        segments = readable(self.path, f"the prices of {cluster!r}", rows, _segment)
        for node, segment in segments:
            found.setdefault(node, []).append(segment)
        return {node: tuple(all_) for node, all_ in found.items()}

    def spent(self, cluster: str) -> float:
        """Return the $ of all nodes since the cluster was last deleted, also of those gone."""
        row = self._one("SELECT total(spent) FROM nodes WHERE cluster = ?", (cluster,))
        assert row is not None
        return float(row[0])

    def account(self, cluster: str, revision: int, now: float) -> Account:
        """Return the account of ``cluster``, opened at ``now`` if there is none.

        Args:
            revision: Of the current wish; a larger one than before was requested at ``now``.
        """
        row = self._one("SELECT * FROM accounts WHERE cluster = ?", (cluster,))
        if row is None or not row[1] or row[2] != revision:
            with self._transaction() as connection:
                connection.execute(
                    "INSERT INTO accounts VALUES (?, ?, ?, ?, 0) ON CONFLICT (cluster) DO UPDATE "
                    "SET founded = iif(founded, founded, excluded.founded), "
                    "revision = excluded.revision, asked = excluded.asked",
                    (cluster, now, revision, now),
                )
            row = self._one("SELECT * FROM accounts WHERE cluster = ?", (cluster,))
        assert row is not None
        return Account(founded=row[1], asked=row[3], spent_before=row[4])

    def settle(self, cluster: str) -> None:
        """Close the account of a deleted cluster: its next life starts at $ 0."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE accounts SET founded = 0, spent = spent + "
                "(SELECT total(spent) FROM nodes WHERE cluster = ?) WHERE cluster = ?",
                (cluster, cluster),
            )
            for table in ("nodes", "prices", "purchases"):
                connection.execute(f"DELETE FROM {table} WHERE cluster = ?", (cluster,))

    # -- purchases

    def put_purchase(
        self, record: PurchaseRecord, user_data: str = "", tags: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Write a purchase before its call, or the result of it; the last write wins.

        What the call sends (``purchase``, ``user_data`` and ``tags``) is never overwritten: calls
        with the same token must have the same content.
        """
        purchase = record.purchase
        fields = [getattr(record, name) for name in _RECORD]
        sent = (json.dumps(asdict(purchase)), user_data, json.dumps(list(tags)))
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO purchases (cluster, token, purchase, user_data, tags, "
                f"{', '.join(_RECORD)}) VALUES (?, ?, ?, ?, ?, {', '.join('?' * len(_RECORD))}) "
                "ON CONFLICT (cluster, token) DO UPDATE SET "
                + ", ".join(f"{name} = excluded.{name}" for name in _RECORD),
                (purchase.cluster, purchase.token, *sent, *fields),
            )

    def sent(self, cluster: str, token: str) -> tuple[str, tuple[tuple[str, str], ...]] | None:
        """Return the user data and tags that were stored with a purchase; None without one."""
        row = self._one(
            "SELECT user_data, tags FROM purchases WHERE cluster = ? AND token = ?",
            (cluster, token),
        )
        if row is None:
            return None
        with reading(self.path, f"a purchase of {cluster!r}"):
            return str(row[0]), tuple((str(key), str(value)) for key, value in json.loads(row[1]))

    def purchases(self, cluster: str) -> list[PurchaseRecord]:
        """Return all purchases of ``cluster``, in the order in which they were first written."""
        rows = self._all(
            f"SELECT purchase, {', '.join(_RECORD)} FROM purchases "
            "WHERE cluster = ? ORDER BY number",
            (cluster,),
        )
        what = f"a purchase of {cluster!r}"
        return [*readable(self.path, what, rows, lambda row: _record(row[0], row[1:]))]


def fleet_text(wish: FleetWish) -> str:
    """Return a wish as the store keeps it; an empty text for this machine alone."""
    return "" if wish == THIS_MACHINE else json.dumps(asdict(wish))


def fleet_wish(text: str) -> FleetWish:
    """Return the wish that ``fleet_text`` encoded."""
    if not text:
        return THIS_MACHINE
    return built(FleetWish, json.loads(text))


def _node(row: Sequence[Any]) -> Node:
    return built(Node, dict(zip(_NODE, row, strict=True)))


def _segment(row: Sequence[Any]) -> tuple[str, tuple[float, float]]:
    return str(row[0]), (float(row[1]), float(row[2]))


def _record(text: str, fields: Sequence[Any]) -> PurchaseRecord:
    values = dict(zip(_RECORD, fields, strict=True))
    return built(PurchaseRecord, values | {"purchase": json.loads(text)})


def put_cluster(
    connection: sqlite3.Connection,
    name: str,
    up: bool,
    ranks: int,
    oversubscribe: bool,
    fleet: FleetWish | None = None,
    resize_at: ResizeAt = ResizeAt.STEP,
) -> None:
    """Write the desired state of a cluster, in the caller's transaction."""
    connection.execute(
        "INSERT INTO clusters (name, up, ranks, oversubscribe, revision, resize_at) "
        "VALUES (?, ?, ?, ?, 1, ?) "
        "ON CONFLICT (name) DO UPDATE SET up = excluded.up, ranks = excluded.ranks, "
        "oversubscribe = excluded.oversubscribe, revision = revision + 1, "
        "resize_at = excluded.resize_at",
        (name, up, ranks, oversubscribe, resize_at),
    )
    if fleet is not None:
        connection.execute(
            "UPDATE clusters SET fleet = ? WHERE name = ?", (fleet_text(fleet), name)
        )
    if not (up or (fleet is not None and fleet.expires)):  # the next one of this name is new
        connection.execute("DELETE FROM setups WHERE cluster = ?", (name,))
