"""The interface to one region's EC2 API that the other EC2 modules use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from workbench.core.fleet.cloud_errors import ClassifiedError, classify
from workbench.errors import CloudError


class Ec2Api(Protocol):
    """The API of one region. Every error is a ``CloudError``."""

    @property
    def region(self) -> str:
        """The region's name."""
        ...

    def call(self, service: str, operation: str, **request: Any) -> dict[str, Any]:
        """Make one call.

        Args:
            operation: As boto3 spells it.

        Raises:
            CloudError: EC2 does not answer, or denies the call.
        """
        ...

    def rows(
        self, service: str, operation: str, path: str, **request: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield the entries of all pages.

        Args:
            path: The key of the entries, such as ``Reservations.Instances``.

        Raises:
            CloudError: EC2 does not answer, or denies the call.
        """
        ...


def is_denied(error: CloudError) -> bool:
    """Return whether a policy of the account or its organisation denies the call explicitly.

    IAM guide, "Troubleshoot access denied error messages".
    """
    return "explicit deny" in error.provider_message


def build_error(code: str, message: str) -> CloudError:
    """Return the error for an error code of EC2; all of them are made here."""
    return error_of(classify(code, message))


def error_of(classified: ClassifiedError) -> CloudError:
    """Return the error for a classified one."""
    return CloudError(
        classified.what,
        classified.kind,
        classified.code,
        remedy=classified.remedy,
        is_early=classified.is_early,
        provider_message=classified.provider_message,
    )
