"""The interface to one region's EC2 API that the other EC2 modules use, and what its errors mean.

``ROWS`` is the whole table: one row per code, or per code and words of its message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from workbench.core.fleet.cloud_errors import ErrorKind
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


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Args:
        code: Pattern that matches the provider's whole code, without ``Client.`` and ``Server.``.
        what: What is wrong; the provider's own code and message are appended.
        remedy: What is done about it, or can be.
        words: Pattern that is found in the provider's message; empty for any.
        is_early: See ``CloudError``.
    """

    code: str
    kind: ErrorKind
    what: str
    remedy: str
    words: str = ""
    is_early: bool = False

    def meets(self, code: str, message: str) -> bool:
        """Return whether the row is about this error."""
        return bool(re.fullmatch(self.code, code) and re.search(self.words, message, re.I))


_NO_CAPACITY = ("there are too few such machines free now", "the next fallback is tried")
_NOT_HERE = ("the zone does not offer such machines in this way", "the next fallback is tried")
_PATIENCE = ("the provider is busy, or limits the rate of calls", "the same call is repeated later")
_PERMISSION = (
    "you may not do {action}",
    "attach the policy that `workbench doctor --iam` prints to your user or role",
)
_QUOTA = (
    "machines that have just ended may count for some minutes, so it is tried again; else request "
    "a higher quota in the Service Quotas console, or use fewer or smaller nodes"
)
_NOT_ACCEPTED = (
    "the credentials were not accepted",
    "check them with aws sts get-caller-identity; they are read again within a minute",
)
_EXPIRED = (
    "the credentials have expired",
    "sign in again, for example with aws sso login; they are read again within a minute",
)
_MADE = ("a new resource of the nodes is not known everywhere yet", "it is tried again")
_PROFILE = (
    "the nodes' instance profile does not exist",
    "create it for the role of the same name: aws iam create-instance-profile "
    "--instance-profile-name {profile}; aws iam add-role-to-instance-profile "
    "--instance-profile-name {profile} --role-name {profile}; the role itself is described by "
    "`workbench doctor --iam node`",
)
_LATER = "other ways are tried, and this one again later"
_STRANGE = ("the provider failed for an unknown reason", _LATER)

# Sources: "Error codes for the Amazon EC2 API" of the API reference, where no other is named.
ROWS = (
    Row("InsufficientInstanceCapacity", ErrorKind.CAPACITY, *_NO_CAPACITY),
    Row("UnfulfillableCapacity", ErrorKind.CAPACITY, *_NO_CAPACITY),
    Row("InsufficientCapacity", ErrorKind.CAPACITY, *_NO_CAPACITY),
    Row("InsufficientHostCapacity", ErrorKind.CAPACITY, *_NO_CAPACITY),
    Row(
        "InsufficientFreeAddressesInSubnet", ErrorKind.CAPACITY,
        "the subnet has too few free addresses",
        "another zone is tried, or name fewer nodes",
    ),
    Row("Unsupported", ErrorKind.CAPACITY, *_NOT_HERE),
    # hashicorp/packer 9946; compiler-explorer/infra 601: of spot fleets of type instant.
    Row("InvalidFleetConfiguration", ErrorKind.CAPACITY, *_NOT_HERE),
    # A cluster placement group is in one zone at a time: bcbio/bcbio-nextgen-vm 45.
    Row(
        r"InvalidPlacementGroup\.InUse", ErrorKind.CAPACITY,
        "the placement group is in use in another zone",
        "the next fallback is tried",
    ),
    # dstackai/dstack 2872.
    Row(
        "InvalidParameterCombination", ErrorKind.CAPACITY,
        "such machines cannot be placed close together",
        "the next fallback is tried",
        words="placement group",
    ),
    # Karpenter's pkg/errors counts it with the unfulfillable.
    Row(
        "MaxFleetCountExceeded", ErrorKind.QUOTA,
        "the account has too many fleets", _QUOTA,
    ),
    Row(
        "MaxSpotInstanceCountExceeded", ErrorKind.QUOTA,
        "the account's spot quota is used up", _QUOTA,
    ),
    Row(
        "VcpuLimitExceeded", ErrorKind.QUOTA,
        "the account's vCPU quota for this class of machines is used up", _QUOTA,
    ),
    Row(
        "InstanceLimitExceeded", ErrorKind.QUOTA,
        "the account's limit of machines is reached", _QUOTA,
    ),
    Row(
        "SpotMaxPriceTooLow", ErrorKind.PRICE,
        "the spot price is above your maximum price",
        "it is tried again as prices change; else raise the maximum, or choose another type",
    ),
    Row("UnauthorizedOperation", ErrorKind.PERMISSION, *_PERMISSION),
    Row("AccessDenied", ErrorKind.PERMISSION, *_PERMISSION),
    # EC2 user guide, "Service-linked role for Spot Instance requests".
    Row(
        r"AuthFailure\.ServiceLinkedRoleCreationNotPermitted", ErrorKind.PERMISSION,
        "the account has no service-linked role for spot, and you may not create it",
        "have an administrator run: aws iam create-service-linked-role --aws-service-name "
        "spot.amazonaws.com",
    ),
    Row("AuthFailure", ErrorKind.CREDENTIALS, *_NOT_ACCEPTED),
    Row(
        "InvalidClientTokenId", ErrorKind.CREDENTIALS,
        "the access key is not known",
        "check the credentials with aws sts get-caller-identity; they are read again within "
        "a minute",
    ),
    Row(
        "SignatureDoesNotMatch", ErrorKind.CREDENTIALS,
        "the secret key does not belong to the access key",
        "enter both again with aws configure",
    ),
    Row(
        "NoCredentials", ErrorKind.CREDENTIALS,
        "no credentials were found", "configure them with aws configure or aws sso login",
    ),
    Row("ExpiredToken", ErrorKind.CREDENTIALS, *_EXPIRED),
    Row(
        "RequestExpired", ErrorKind.CREDENTIALS, _EXPIRED[0],
        f"{_EXPIRED[1]}; or this computer's clock is wrong: set it by NTP",
    ),
    Row(
        r"InvalidAMIID\.(NotFound|Malformed|Unavailable)", ErrorKind.CONFIGURATION,
        "the image does not exist in this region",
        "choose one that does, or leave image empty",
    ),
    Row(
        r"InvalidSubnetID\.NotFound", ErrorKind.CONFIGURATION,
        "there is no such subnet",
        "name an existing one (--subnet subnet-…), or create the region's default VPC with aws ec2 "
        "create-default-vpc",
    ),
    Row(
        "VPCIdNotSpecified", ErrorKind.CONFIGURATION,
        "the region has no default VPC",
        "create it with aws ec2 create-default-vpc, or name subnets of another one (--subnet "
        "subnet-…)",
    ),
    Row(
        "OptInRequired", ErrorKind.CONFIGURATION,
        "the account has not opted in to this region or image",
        "do so in the AWS console, or choose another region",
    ),
    Row(
        "Blocked", ErrorKind.CONFIGURATION,
        "AWS has blocked the account",
        "write to its support, then press Start again",
    ),
    # Accounts since July 2025: AWS Billing guide, "Free Tier plans".
    Row(
        "InvalidParameterCombination", ErrorKind.CONFIGURATION,
        "the account is on AWS's free plan, which has no such machines",
        "upgrade it to the paid plan in the Billing console, or name one of the two types that it "
        "has and nodes can use: --type m7i-flex.large or --type c7i-flex.large",
        words="free.tier",
    ),
    # hashicorp/packer 9810; Karpenter's IsInstanceProfileNotFound: also seconds after its creation.
    Row(
        "InvalidParameterValue", ErrorKind.CONFIGURATION, *_PROFILE, words="IAM Instance Profile",
        is_early=True,
    ),
    Row(
        "PendingVerification", ErrorKind.BUSY,
        "the account is still being verified by AWS, which takes up to four hours",
        "it is tried again",
    ),
    Row(
        "IdempotentParameterMismatch", ErrorKind.BUSY,
        "the same purchase was requested before with other settings",
        "a new purchase is tried",
    ),
    # Created a moment ago, and not known everywhere yet: jtriley/StarCluster 413; the EC2 API
    # reference, "Eventual consistency".
    Row(
        r"Invalid(Group|SecurityGroupID|SecurityGroupId|KeyPair|LaunchTemplate\w*)"
        r"\.(NotFound|Unknown|VersionNotFound)\w*",
        ErrorKind.EARLY, *_MADE, is_early=True,
    ),
    Row(r"InvalidPlacementGroup\.(Unknown|NotFound)", ErrorKind.EARLY, *_MADE, is_early=True),
    Row("RequestLimitExceeded", ErrorKind.THROTTLING, *_PATIENCE),
    Row("Throttling", ErrorKind.THROTTLING, *_PATIENCE),
    Row("Unavailable", ErrorKind.THROTTLING, *_PATIENCE),
    Row("ServiceUnavailable", ErrorKind.THROTTLING, *_PATIENCE),
    Row("InternalError", ErrorKind.THROTTLING, *_PATIENCE),
    Row(
        r"InvalidInstanceID\.NotFound", ErrorKind.THROTTLING,
        "the provider does not list the machine yet", "it is looked up again",
    ),
    Row(
        "NoAnswer", ErrorKind.THROTTLING,
        "the provider does not answer",
        "the same call is repeated later, with the same token",
    ),
    # Providers add codes; the families of codes keep their names.
    Row(r".*ServiceLinkedRole.*", ErrorKind.PERMISSION, *_PERMISSION),
    Row(r".*(Unauthorized|AccessDenied|NotPermitted).*", ErrorKind.PERMISSION, *_PERMISSION),
    Row(r".*(Throttl|RequestLimit|SlowDown|TooManyRequests).*", ErrorKind.THROTTLING, *_PATIENCE),
    Row(r".*Capacity.*", ErrorKind.CAPACITY, *_NO_CAPACITY),
    Row(
        r".*(Limit|Quota|Count)Exceeded.*", ErrorKind.QUOTA,
        "a quota is used up", _QUOTA,
    ),
    Row(
        r".*Price.*", ErrorKind.PRICE,
        "the price is not accepted",
        "it is tried again as prices change; else raise your maximum price",
    ),
    Row(r".*(AuthFailure|Credential|Token|Signature).*", ErrorKind.CREDENTIALS, *_NOT_ACCEPTED),
    Row(
        r"(Invalid|Malformed|Missing|Validation|Unknown).*|.*(NotFound|NotSupported).*",
        ErrorKind.UNKNOWN,
        "the provider does not accept these settings",
        f"{_LATER}; else change what it names",
    ),
    Row(
        r".*OptIn.*", ErrorKind.CONFIGURATION,
        "the account has not opted in",
        "do so in the AWS console",
    ),
    Row(r"(?s:.*)", ErrorKind.UNKNOWN, *_STRANGE),
)  # fmt: skip
# Other spellings of the same code in other services.
_SAME = {
    "AccessDeniedException": "AccessDenied",
    "ExpiredTokenException": "ExpiredToken",
    "ThrottlingException": "Throttling",
    "UnrecognizedClientException": "InvalidClientTokenId",
    "InternalFailure": "InternalError",
    "ServerInternal": "InternalError",
}
_LONGEST = 200
# The most informative kind first, for a purchase whose pools have several errors.
_TELLING = (
    ErrorKind.CAPACITY, ErrorKind.QUOTA, ErrorKind.PRICE, ErrorKind.CREDENTIALS,
    ErrorKind.PERMISSION, ErrorKind.CONFIGURATION, ErrorKind.BUSY, ErrorKind.THROTTLING,
    ErrorKind.EARLY, ErrorKind.UNKNOWN,
)  # fmt: skip
# One zone may never have a type: this is ignored if another pool has another error.
_SILENT = ("Unsupported", "InvalidFleetConfiguration")


def build_error(code: str, message: str) -> CloudError:
    """Return the error for an error code of EC2: its cause, and what may help.

    Args:
        code: The API's own code; ``NoAnswer`` and ``NoCredentials`` if there is none.
        message: The API's own message.
    """
    plain = re.sub(r"^(Client|Server)\.", "", code)
    plain = _SAME.get(plain, plain)
    row = next(row for row in ROWS if row.meets(plain, message))
    found = _first_words(message)
    words = f"{code}: {found}" if found else code
    what, remedy = (
        text.format(action=_action(message), profile=_profile(message))
        for text in (row.what, row.remedy)
    )
    return CloudError(
        f"{what} ({words})",
        row.kind,
        code,
        remedy=f"{remedy}.",
        is_early=row.is_early,
        provider_message=message,
    )


def of_fleet(errors: Iterable[tuple[str, str]]) -> CloudError:
    """Return the error of a call that was granted, but gave no machine.

    EC2 keeps the answer for the call's token, so a repeated call gives the same.

    Args:
        errors: Code and message of each of its pools.
    """
    all_ = [build_error(*error) for error in errors] or [build_error("UnfulfillableCapacity", "")]
    found = [one for one in all_ if one.code not in _SILENT] or all_
    chosen = min(found, key=lambda one: _TELLING.index(ErrorKind(one.kind)))
    chosen.is_early = all(one.is_early for one in found)
    if chosen.kind == ErrorKind.THROTTLING:
        chosen.kind = ErrorKind.BUSY
    return chosen


def is_denied(error: CloudError) -> bool:
    """Return whether a policy of the account or its organisation denies the call explicitly.

    IAM guide, "Troubleshoot access denied error messages".
    """
    return "explicit deny" in error.provider_message


def _action(message: str) -> str:
    found = re.search(r"\b([a-z0-9-]+:[A-Z]\w+)", message)
    return found[1] if found else "that"


def _profile(message: str) -> str:
    found = re.search(r"\((?:[^()\s]*/)?([\w+=,.@-]{1,128})\)", message)
    return found[1] if found else "NAME"


def _first_words(message: str) -> str:
    """Return a message without line ends and the encoded part that AWS appends."""
    plain = " ".join(message.partition("Encoded authorization failure")[0].split()).rstrip(". ")
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"
