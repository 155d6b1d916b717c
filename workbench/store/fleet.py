"""Store a cluster's nodes, purchases and costs, also those of the past."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.core.cluster.model import THIS_MACHINE, ClusterWish, ResizeAt
from workbench.core.fleet.model import FleetWish, Node, NodeState
from workbench.core.fleet.purchases import PurchaseRecord
from workbench.store.database import Database
from workbench.store.rows import (
    build_row,
    columns_of,
    insert,
    insert_or_update,
    json_of,
    of_json,
    readable,
    reading,
)


@dataclass(frozen=True)
class Account:
    """The spending of a cluster over its lives.

    Args:
        founded: Epoch seconds at which the cluster was defined; a deleted one is defined again.
        asked: Epoch seconds at which the current wish was first seen.
        spent_before: $ paid for earlier clusters of this name, which were deleted.
    """

    founded: float
    asked: float
    spent_before: float


class Fleets:
    """The nodes, purchases and costs of clusters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # -- nodes

    def put_nodes(self, cluster: str, nodes: Iterable[Node]) -> None:
        """Write nodes as they were last seen, all or none; other nodes are unchanged."""
        with self._database.transaction() as connection:
            for node in nodes:
                insert(connection, "nodes", {"cluster": cluster, **columns_of(node)}, "REPLACE")

    def nodes(self, cluster: str, *, gone: bool = False) -> list[Node]:
        """Return the nodes of ``cluster`` by id; those that are gone only with ``gone``."""
        return self._database.values(
            Node,
            f"a node of {cluster!r}",
            "SELECT * FROM nodes WHERE cluster = ? AND (? OR state != ?) ORDER BY id",
            (cluster, gone, NodeState.GONE),
        )

    def reclaimed_nodes(self, cluster: str) -> tuple[Node, ...]:
        """Return the nodes of ``cluster`` that have an interruption notice, by id."""
        nodes = self._database.values(
            Node,
            f"a node of {cluster!r}",
            "SELECT * FROM nodes WHERE cluster = ? AND reclaimed > 0 AND state != ? ORDER BY id",
            (cluster, NodeState.GONE),
        )
        return tuple(nodes)

    # -- money

    def put_prices(self, cluster: str, prices: Iterable[tuple[str, float, float]]) -> None:
        """Write the price of nodes from a moment on; a price stored for the same moment is kept.

        Args:
            prices: A node's id, epoch seconds and $/h.
        """
        with self._database.transaction() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO prices VALUES (?, ?, ?, ?)",
                [(cluster, *price) for price in prices],
            )

    def prices(self, cluster: str) -> dict[str, tuple[tuple[float, float], ...]]:
        """Return the prices of each node, also of those gone, with their start, oldest first."""
        found: dict[str, list[tuple[float, float]]] = {}
        rows = self._database.all(
            "SELECT node, since, price FROM prices WHERE cluster = ? ORDER BY node, since",
            (cluster,),
        )
        segments = readable(self._database.path, f"the prices of {cluster!r}", rows, _read_segment)
        for node, segment in segments:
            found.setdefault(node, []).append(segment)
        return {node: tuple(all_) for node, all_ in found.items()}

    def spent(self, cluster: str) -> float:
        """Return the $ of all nodes since the cluster was last deleted, also of those gone."""
        row = self._database.one("SELECT total(spent) FROM nodes WHERE cluster = ?", (cluster,))
        assert row is not None
        return float(row[0])

    def account(self, cluster: str, revision: int, now: float) -> Account:
        """Return the account of ``cluster``, opened at ``now`` if there is none.

        Args:
            revision: Of the current wish; a larger one than before was requested at ``now``.
        """
        query = "SELECT * FROM accounts WHERE cluster = ?"
        rows = self._database.rows(query, (cluster,))
        if not (rows and rows[0]["founded"] and rows[0]["revision"] == revision):
            opened = Account(founded=now, asked=now, spent_before=0.0)
            with self._database.transaction() as connection:
                insert_or_update(
                    connection,
                    "accounts",
                    {"cluster": cluster, "revision": revision, **columns_of(opened)},
                    key=("cluster",),
                    founded="iif(founded, founded, excluded.founded)",
                    revision="excluded.revision",
                    asked="excluded.asked",
                )
            rows = self._database.rows(query, (cluster,))
        with reading(self._database.path, f"the account of {cluster!r}"):
            return build_row(Account, rows[0])

    def spent_in_all(self) -> float:
        """Return the $ paid for all clusters there ever were; a rehearsal's are not paid."""
        row = self._database.one("SELECT total(spent_before) FROM accounts")
        assert row is not None
        wishes = self._database.values(ClusterWish, "a cluster", "SELECT * FROM clusters")
        paid = (wish.name for wish in wishes if wish.fleet.place.is_paid)
        return float(row[0]) + sum(self.spent(name) for name in paid)

    def settle(self, cluster: str, *, paid: bool = True) -> None:
        """Close the account of a deleted cluster: its next life starts at $ 0.

        Args:
            paid: Whether what it cost counts; the $ of a rehearsal are simulated.
        """
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE accounts SET founded = 0, spent_before = spent_before + "
                "(SELECT total(spent) FROM nodes WHERE cluster = ? AND ?) WHERE cluster = ?",
                (cluster, paid, cluster),
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
        said = columns_of(record)
        sent = {"purchase": said.pop("purchase"), "user_data": user_data, "tags": json_of(tags)}
        key = {"cluster": record.purchase.cluster, "token": record.purchase.token}
        changes = {name: f"excluded.{name}" for name in said}
        with self._database.transaction() as connection:
            insert_or_update(connection, "purchases", key | sent | said, (*key,), **changes)

    def read_sent(self, cluster: str, token: str) -> tuple[str, tuple[tuple[str, str], ...]] | None:
        """Return the user data and tags that were stored with a purchase; None without one."""
        row = self._database.one(
            "SELECT user_data, tags FROM purchases WHERE cluster = ? AND token = ?",
            (cluster, token),
        )
        if row is None:
            return None
        with reading(self._database.path, f"a purchase of {cluster!r}"):
            return str(row[0]), of_json(tuple[tuple[str, str], ...], row[1])

    def purchases(self, cluster: str) -> list[PurchaseRecord]:
        """Return all purchases of ``cluster``, in the order in which they were first written."""
        return self._database.values(
            PurchaseRecord,
            f"a purchase of {cluster!r}",
            "SELECT * FROM purchases WHERE cluster = ? ORDER BY number",
            (cluster,),
        )


def _read_segment(row: Sequence[Any]) -> tuple[str, tuple[float, float]]:
    return str(row[0]), (float(row[1]), float(row[2]))


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
    wish = ClusterWish(name, up, ranks, oversubscribe, 1, fleet or THIS_MACHINE, resize_at)
    changes = ["up", "ranks", "oversubscribe", "resize_at", *["fleet"] * (fleet is not None)]
    insert_or_update(
        connection,
        "clusters",
        columns_of(wish),
        key=("name",),
        revision="revision + 1",
        **{column: f"excluded.{column}" for column in changes},
    )
    if not (up or (fleet is not None and fleet.expires)):  # the next one of this name is new
        connection.execute("DELETE FROM setups WHERE cluster = ?", (name,))
