"""The result of probing a listed host, before it becomes a node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostProbe:
    """One host's answer.

    Args:
        line: The exact line of known_hosts that trusts the key that it showed; empty for this
            machine itself where no sshd answers.
        known: Whether somebody said yes to that key before; if not, nobody logged in.
        slots: Ranks that it carries, as it says; 0 while nobody logged in, or it cannot tell.
        error: Why it is of no use as it is, with the remedy.
    """

    address: str
    line: str = ""
    fingerprint: str = ""
    known: bool = False
    slots: int = 0
    error: str = ""
