"""Judge why a place refused, and what may help: the next rung, a person, or patience."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a refusal is about; throttling is any plea for patience."""

    CAPACITY = "capacity"
    QUOTA = "quota"
    PRICE = "price"
    PERMISSION = "permission"
    CREDENTIALS = "credentials"
    CONFIGURATION = "configuration"
    THROTTLING = "throttling"
    UNKNOWN = "unknown"


class Step(StrEnum):
    """What follows a refusal."""

    NEXT_RUNG = "try the next rung"
    STOP = "stop until a person has acted"
    BACK_OFF = "say nothing, and repeat the same call later"


@dataclass(frozen=True)
class Refusal:
    """A refusal, understood.

    Args:
        sentence: For the reader: why, and the remedy.
        code: The vendor's own word.
    """

    kind: Kind
    sentence: str
    code: str

    @property
    def step(self) -> Step:
        """What follows."""
        return step(self.kind)


def step(kind: str) -> Step:
    """Return what follows a refusal of this kind; what is not understood is for a person."""
    if kind == Kind.CAPACITY:
        return Step.NEXT_RUNG
    return Step.BACK_OFF if kind == Kind.THROTTLING else Step.STOP


_NO_CAPACITY = "there are not enough such machines free now; the next rung of the ladder is tried"
_PATIENCE = "the place asks for patience; the same call is repeated later"
_PERMISSION = (
    "you may not do {action}; have the policy that workbench doctor --iam prints attached to "
    "your user or role"
)
_QUOTA = "{what}; ask for more in the Service Quotas console, or for fewer or smaller nodes"

_KNOWN: dict[str, tuple[Kind, str]] = {
    "InsufficientInstanceCapacity": (Kind.CAPACITY, _NO_CAPACITY),
    "UnfulfillableCapacity": (Kind.CAPACITY, _NO_CAPACITY),
    "InsufficientCapacity": (Kind.CAPACITY, _NO_CAPACITY),
    "InsufficientHostCapacity": (Kind.CAPACITY, _NO_CAPACITY),
    "InsufficientFreeAddressesInSubnet": (
        Kind.CAPACITY,
        "the subnet has too few free addresses; another zone is tried, or name fewer nodes",
    ),
    "Unsupported": (
        Kind.CAPACITY,
        "the zone does not lend such machines in this way; the next rung of the ladder is tried",
    ),
    "MaxSpotInstanceCountExceeded": (
        Kind.QUOTA,
        _QUOTA.format(what="the account's spot quota is used up"),
    ),
    "VcpuLimitExceeded": (
        Kind.QUOTA,
        _QUOTA.format(what="the account's vCPU quota for this class of machines is used up"),
    ),
    "InstanceLimitExceeded": (
        Kind.QUOTA,
        _QUOTA.format(what="the account's limit of machines is reached"),
    ),
    "SpotMaxPriceTooLow": (
        Kind.PRICE,
        "the spot price is above the most that you would pay; raise that, or choose another type",
    ),
    "UnauthorizedOperation": (Kind.PERMISSION, _PERMISSION),
    "AccessDenied": (Kind.PERMISSION, _PERMISSION),
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": (
        Kind.PERMISSION,
        "the account has no service-linked role for spot, and you may not make it; have an "
        "administrator run: aws iam create-service-linked-role --aws-service-name "
        "spot.amazonaws.com",
    ),
    "AuthFailure": (
        Kind.CREDENTIALS,
        "the credentials were not accepted; check them with aws sts get-caller-identity",
    ),
    "InvalidClientTokenId": (
        Kind.CREDENTIALS,
        "the access key is not known; check the credentials with aws sts get-caller-identity",
    ),
    "SignatureDoesNotMatch": (
        Kind.CREDENTIALS,
        "the secret key does not belong to the access key; enter both anew with aws configure",
    ),
    "NoCredentials": (
        Kind.CREDENTIALS,
        "no credentials were found; give them with aws configure or aws sso login",
    ),
    "ExpiredToken": (
        Kind.CREDENTIALS,
        "the credentials have expired; sign in anew, for example with aws sso login",
    ),
    "RequestExpired": (
        Kind.CREDENTIALS,
        "the request came too late: the credentials have expired, or this computer's clock is "
        "wrong; sign in anew, and set the clock by NTP",
    ),
    "InvalidAMIID.NotFound": (
        Kind.CONFIGURATION,
        "the image does not exist in this region; choose one that does, or leave image empty",
    ),
    "InvalidSubnetID.NotFound": (
        Kind.CONFIGURATION,
        "the subnet does not exist; make the region's default VPC with aws ec2 create-default-vpc",
    ),
    "VPCIdNotSpecified": (
        Kind.CONFIGURATION,
        "the region has no default VPC; make it with aws ec2 create-default-vpc",
    ),
    "OptInRequired": (
        Kind.CONFIGURATION,
        "the account has not opted in to this region or image; do so in the AWS console, or "
        "choose another region",
    ),
    "PendingVerification": (
        Kind.CONFIGURATION,
        "the account is still being verified by AWS; try again in a few hours",
    ),
    "IdempotentParameterMismatch": (
        Kind.CONFIGURATION,
        "the same purchase was asked for before with other settings; press Start again",
    ),
    "RequestLimitExceeded": (Kind.THROTTLING, _PATIENCE),
    "Throttling": (Kind.THROTTLING, _PATIENCE),
    "Unavailable": (Kind.THROTTLING, _PATIENCE),
    "ServiceUnavailable": (Kind.THROTTLING, _PATIENCE),
    "InternalError": (Kind.THROTTLING, _PATIENCE),
    "InvalidInstanceID.NotFound": (
        Kind.THROTTLING,
        "the place does not list the machine yet; it is asked again",
    ),
    "NoAnswer": (
        Kind.THROTTLING,
        "the place does not answer; the same call is repeated later, with the same token",
    ),
}
# Other spellings of the same: one service says it so, another so.
_SAME = {
    "AccessDeniedException": "AccessDenied",
    "ExpiredTokenException": "ExpiredToken",
    "ThrottlingException": "Throttling",
    "UnrecognizedClientException": "InvalidClientTokenId",
    "InternalFailure": "InternalError",
}
# Vendors add codes; their families keep their names. Looked through in this order.
_FAMILIES: tuple[tuple[str, Kind, str], ...] = (
    (r"ServiceLinkedRole", Kind.PERMISSION, _PERMISSION),
    (r"Unauthorized|AccessDenied|NotPermitted", Kind.PERMISSION, _PERMISSION),
    (r"Throttl|RequestLimit|SlowDown|TooManyRequests", Kind.THROTTLING, _PATIENCE),
    (r"Capacity", Kind.CAPACITY, _NO_CAPACITY),
    (r"(Limit|Quota|Count)Exceeded", Kind.QUOTA, _QUOTA.format(what="a quota is used up")),
    (r"Price", Kind.PRICE, "the price does not do; raise the most that you would pay"),
    (
        r"AuthFailure|Credential|Token|Signature",
        Kind.CREDENTIALS,
        "the credentials were not accepted; check them with aws sts get-caller-identity",
    ),
    (
        r"^Invalid|^Malformed|^Missing|NotFound|^Validation|^Unknown|NotSupported|OptIn",
        Kind.CONFIGURATION,
        "the place does not take these settings; change what it names",
    ),
)
_STRANGE = "the place refused for a reason that is not known here; read its words, then try again"
_LONGEST = 200


def classify(code: str, message: str) -> Refusal:
    """Return what a place's error code means, and what may help.

    Args:
        code: The vendor's own word; ``NoAnswer`` and ``NoCredentials`` where there is none.
        message: The vendor's own sentence.
    """
    kind, sentence = _KNOWN.get(_SAME.get(code, code)) or _by_family(code)
    said = _first_words(message)
    words = f"{code}: {said}" if said else code
    return Refusal(kind, f"{sentence.format(action=_action(message))} ({words}).", code)


def _by_family(code: str) -> tuple[Kind, str]:
    for pattern, kind, sentence in _FAMILIES:
        if re.search(pattern, code):
            return kind, sentence
    return Kind.UNKNOWN, _STRANGE


def _action(message: str) -> str:
    found = re.search(r"\b([a-z0-9-]+:[A-Z]\w+)", message)
    return found[1] if found else "that"


def _first_words(message: str) -> str:
    """Leave out the encoded part that AWS appends for administrators, and line ends."""
    plain = " ".join(message.partition("Encoded authorization failure")[0].split()).rstrip(". ")
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"
