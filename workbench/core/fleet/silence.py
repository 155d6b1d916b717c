"""Decide from the silence of all nodes which of them are lost.

A node's kernel acknowledges a probe each second. One that alone stays silent is lost after
``SILENCE_SECONDS``. If all fall silent at about the same time, this computer's own connection is
the likelier cause: a Wi-Fi that drops for some seconds must end no world. Then, and where there is
no other node to compare with, the ssh session's own keep-alive decides, which takes longer.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

PROBE_SECONDS = 1
"""Linux takes whole seconds for the interval of its probes."""

SILENCE_SECONDS = 2.2
LATER_SECONDS = 1.2
"""Another node has answered so much later; nodes that all answer differ by less."""

Key = TypeVar("Key", bound=Hashable)


def lost_nodes(silences: Mapping[Key, float]) -> frozenset[Key]:
    """Return the nodes that are lost.

    Args:
        silences: Seconds since each node's last sign of life.
    """
    least = min(silences.values(), default=0.0)
    return frozenset(
        node
        for node, seconds in silences.items()
        if seconds >= SILENCE_SECONDS and seconds - least >= LATER_SECONDS
    )
