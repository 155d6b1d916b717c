"""The interface to the EC2 API that the other EC2 modules use: one region each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from workbench.core.fleet.cloud_errors import ClassifiedError, classify
from workbench.errors import CloudError


class Calls(Protocol):
    """The API of one region. Every error comes as ``CloudError``."""

    @property
    def region(self) -> str:
        """Its name."""
        ...

    def call(self, service: str, operation: str, **request: Any) -> dict[str, Any]:
        """Make one call.

        Args:
            operation: As boto3 spells it.

        Raises:
            CloudError: The place does not answer, or not to us.
        """
        ...

    def rows(
        self, service: str, operation: str, path: str, **request: Any
    ) -> Iterator[dict[str, Any]]:
        """Give the entries of all pages.

        Args:
            path: Where they are, as ``Reservations.Instances``.

        Raises:
            CloudError: The place does not answer, or not to us.
        """
        ...


def is_denied(error: CloudError) -> bool:
    """Whether a policy of the account or its organisation denies it, whatever else is allowed.

    IAM guide, "Troubleshoot access denied error messages".
    """
    return "explicit deny" in error.said


def refused(code: str, message: str) -> CloudError:
    """Return the error for a place's error code; the only place where it is made of one."""
    return error_of(classify(code, message))


def error_of(refusal: ClassifiedError) -> CloudError:
    """Return the error for a refusal that is understood."""
    return CloudError(
        refusal.sentence,
        refusal.kind,
        refusal.code,
        is_early=refusal.is_early,
        said=refusal.said,
    )
