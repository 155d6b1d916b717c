"""Make each rank of this machine a node of its own, so that sockets join them."""

from __future__ import annotations

import os

from workbench.core.fleet.connection_limits import NETWORK_VARIABLE, SOCKETS_VARIABLE
from workbench.core.world.world import NODE_VARIABLE


def be_a_node(rank: int, sockets: int = 3) -> None:
    """Set what the next communicator reads: a node's name, its network and how many sockets."""
    os.environ |= {
        SOCKETS_VARIABLE: str(sockets),
        NETWORK_VARIABLE: "127.0.0.0/8",
        NODE_VARIABLE: f"node-{rank}@test",
    }
