"""Show what is so of a cluster's nodes: money, the rungs that are tried, and each node."""

from __future__ import annotations

from html import escape

from workbench.core.fleet import Place
from workbench.notebook.page import dense, table
from workbench.view.kept import Bundle
from workbench.view.nodes import Fleet, money_line, nodes_line, nodes_table, rungs_table


def fleet_tables(fleet: Fleet) -> list[Bundle]:
    """Return the rungs, while nodes are missing, and the nodes by their state, as tables."""
    parts = []
    if fleet.orders:
        parts.append(table(rungs_table(fleet.orders), "What is tried, one after another"))
    if fleet.nodes:
        parts.append(table(nodes_table(fleet.nodes), "Nodes"))
    return parts


def fleet_html(fleet: Fleet) -> str:
    """Return the tables for a page."""
    return dense("".join(str(part["text/html"]) for part in fleet_tables(fleet)))


def price_html(fleet: Fleet, now: float) -> str:
    """Return price, money and time."""
    if fleet.wish.fleet.place is Place.LOCAL:
        return "free"
    return escape(money_line(fleet, now))


def standing(fleet: Fleet) -> str:
    """Return nodes against nodes asked for; nothing for this machine."""
    if fleet.wish.fleet.place is Place.LOCAL or not (fleet.asked or fleet.nodes):
        return ""
    return f", {escape(nodes_line(fleet))}"
