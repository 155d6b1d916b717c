"""The bandwidth of TCP connections between two EC2 nodes, where it is below the network's."""

from __future__ import annotations

import math

from workbench.core.fleet.model import Offer

# EC2 holds one flow (addresses, ports and protocol) between two instances to so many Gbit/s,
# and to twice of it within a cluster placement group: EC2 guide, "Amazon EC2 instance network
# bandwidth".
APART_GBITS = 5.0
CLOSE_GBITS = 10.0
# A pair of ranks exchanges over so many connections at most.
MOST_FLOWS = 4
# Environment of a rank: the number of connections, and the network in which all nodes are.
SOCKETS_VARIABLE = "WORKBENCH_SOCKETS"
NETWORK_VARIABLE = "WORKBENCH_NETWORK"


def one_flow_gbits(placement: bool) -> float:
    """Return what one connection between two EC2 nodes gets, in Gbit/s.

    Args:
        placement: Whether both stand in the same cluster placement group.
    """
    return CLOSE_GBITS if placement else APART_GBITS


def flows_for(gbits: float, flow: float) -> int:
    """Return how many connections a pair of ranks needs for ``gbits``, from 1 to the most.

    Args:
        gbits: What a node sustains; 0 when unknown.
        flow: Gbit/s that one connection gets; 0 where it gets all.
    """
    if gbits <= 0 or flow <= 0:
        return 1
    return max(1, min(MOST_FLOWS, math.ceil(gbits / flow)))


def carried(network: float, flow: float, flows: int) -> float:
    """Return what so many connections carry of a network; 0 for ``flow`` is no bound."""
    return min(network, flows * flow) if flow else network


def pair_gbits(offer: Offer, flows: int = MOST_FLOWS) -> float:
    """Return what a pair of nodes of this type exchanges, in Gbit/s, over so many connections."""
    return carried(offer.network, offer.flow, flows)
