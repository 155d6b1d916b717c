"""The bandwidth of TCP connections between two nodes, if it is below the network's."""

from __future__ import annotations

import math

from workbench.core.fleet.model import Offer

# A pair of ranks uses at most so many connections.
MOST_FLOWS = 4
# Environment of a rank: the number of connections, and the network of all nodes.
SOCKETS_VARIABLE = "WORKBENCH_SOCKETS"
NETWORK_VARIABLE = "WORKBENCH_NETWORK"


def flows_for(gbits: float, flow: float) -> int:
    """Return how many connections a pair of ranks needs for ``gbits``, from 1 to the limit.

    Args:
        gbits: Sustained rate of a node; 0 if unknown.
        flow: Limit of one connection in Gbit/s; 0 for no limit.
    """
    if gbits <= 0 or flow <= 0:
        return 1
    return max(1, min(MOST_FLOWS, math.ceil(gbits / flow)))


def limit_rate(network: float, flow: float, flows: int) -> float:
    """Return the rate of a number of connections on a network; 0 for ``flow`` is no limit."""
    return min(network, flows * flow) if flow else network


def pair_gbits(offer: Offer, flows: int = MOST_FLOWS) -> float:
    """Return the rate between a pair of nodes of this type, in Gbit/s, over some connections."""
    return limit_rate(offer.network, offer.flow, flows)
