"""What the rooms of EC2 ask of its API; one connection to one region answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from workbench.core.refusal import classify
from workbench.errors import CloudRefused


class Calls(Protocol):
    """The API of one region. Every error comes as ``CloudRefused``."""

    @property
    def region(self) -> str:
        """Its name."""
        ...

    def call(self, service: str, operation: str, **request: Any) -> dict[str, Any]:
        """Make one call.

        Args:
            operation: As boto3 spells it.

        Raises:
            CloudRefused: The place does not answer, or not to us.
        """
        ...

    def rows(
        self, service: str, operation: str, path: str, **request: Any
    ) -> Iterator[dict[str, Any]]:
        """Give the entries of all pages.

        Args:
            path: Where they are, as ``Reservations.Instances``.

        Raises:
            CloudRefused: The place does not answer, or not to us.
        """
        ...


def refused(code: str, message: str) -> CloudRefused:
    """Return the error for a place's error code; the only place where it is made of one."""
    refusal = classify(code, message)
    return CloudRefused(refusal.sentence, refusal.kind, refusal.code)
