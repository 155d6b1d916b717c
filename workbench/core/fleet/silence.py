"""Decide from the signs of life of all nodes which of them are lost.

A node's kernel acknowledges a probe each second, and what passes between a node that trains and
this computer in between. A node that is silent for longer than it usually is gets asked again and
again, and it is lost if it answers nothing while another one does. If all fall silent at about
the same time, this computer's own connection is the likelier cause: a Wi-Fi that drops for some
seconds must end no world, also not when it is back and one node answers sooner than another. Then,
and where there is no other node to compare with, the ssh session's own keep-alive decides, which
takes longer.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

PROBE_SECONDS = 1
"""Linux takes whole seconds for the interval of its probes."""

BEYOND_SECONDS = 0.2
"""A node is asked when it is silent for so much longer than usual."""

IN_VAIN_SECONDS = 0.9
"""A node is lost that answers nothing for so long."""

MEANWHILE_SECONDS = 0.3
"""Another node has to answer so much later than the lost one was first asked."""

# Bounds of what is usual, and how fast it falls where signs of life come sooner.
_LEAST_USUAL, _MOST_USUAL, _FADING = 0.5, 1.0 * PROBE_SECONDS, 0.15

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class SilenceSigns:
    """A node's signs of life; moments are seconds on one clock.

    Args:
        heard: The moment of the newest one.
        usual: Seconds of its longest silence in the last seconds.
        asked: The moment since when it is asked while another one answers; infinite if it is not.
    """

    heard: float
    usual: float = _MOST_USUAL
    asked: float = math.inf

    def is_silent(self, now: float) -> bool:
        """Return whether it is to be asked."""
        return now - self.heard >= self.usual + BEYOND_SECONDS


def update_signs(
    before: Mapping[Key, SilenceSigns], silences: Mapping[Key, float], now: float
) -> dict[Key, SilenceSigns]:
    """Return the signs of life after a look at all nodes.

    Args:
        before: Those after the last look.
        silences: Seconds since each node's newest sign.
    """
    found = {
        node: _heard(before[node], now - seconds) if node in before else SilenceSigns(now - seconds)
        for node, seconds in silences.items()
    }
    silent = {node for node, signs in found.items() if signs.is_silent(now)}
    if len(silent) == len(found):
        silent = set()
    return {
        node: SilenceSigns(
            one.heard, one.usual, min(one.asked, now) if node in silent else math.inf
        )
        for node, one in found.items()
    }


def lost_nodes(signs: Mapping[Key, SilenceSigns], now: float) -> frozenset[Key]:
    """Return the nodes that are lost.

    Args:
        signs: As `update_signs` returned them.
    """
    newest = max((one.heard for one in signs.values()), default=now)
    return frozenset(
        node
        for node, one in signs.items()
        if now - one.asked >= IN_VAIN_SECONDS and newest - one.asked >= MEANWHILE_SECONDS
    )


def _heard(before: SilenceSigns, heard: float) -> SilenceSigns:
    """Return a node's signs with a newer one; without one its silence lasts, and nothing fades."""
    silence = heard - before.heard
    if silence <= 0:
        return before
    usual = max(_LEAST_USUAL, silence, before.usual - _FADING * silence)
    return SilenceSigns(heard, min(usual, _MOST_USUAL), before.asked)
