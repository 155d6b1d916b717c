"""The observed state of a cluster's nodes: costs, purchases, and each node."""

from __future__ import annotations

from workbench.notebook.cell_output import dense, table
from workbench.view.html import Html
from workbench.view.run_output import Bundle
from workbench.view.tables.nodes import FleetNodes, nodes_line, nodes_table, purchases_table


def fleet_tables(fleet: FleetNodes) -> list[Bundle]:
    """Return the purchases, while nodes are missing, and the nodes by state, as tables."""
    parts = []
    if fleet.purchases:
        parts.append(
            table(
                purchases_table(fleet.purchases), "Purchases, in the order in which they are tried"
            )
        )
    if fleet.nodes:
        parts.append(table(nodes_table(fleet.nodes, fleet.now), "Nodes"))
    return parts


def fleet_html(fleet: FleetNodes) -> Html:
    """Return the tables for a page."""
    return dense(part["text/html"] for part in fleet_tables(fleet))


def standing(fleet: FleetNodes) -> str:
    """Return the actual and desired number of nodes; empty for this machine."""
    if not fleet.wish.fleet.place.has_nodes or not (fleet.asked or fleet.nodes):
        return ""
    return f", {nodes_line(fleet)}"
