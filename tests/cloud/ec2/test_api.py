"""Every error code of a provider has its class, its reaction and its sentence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.cloud.ec2.api import ROWS, build_error, of_fleet
from workbench.core.fleet.cloud_errors import ErrorKind, Reaction, kind_for_fallbacks, step

PROFILE = settings(derandomize=True, deadline=None, max_examples=200)
NEXT, PAUSE, STOP, BACK_OFF = (
    Reaction.NEXT_CANDIDATE,
    Reaction.PAUSE,
    Reaction.STOP,
    Reaction.BACK_OFF,
)

CODES = [
    ("InsufficientInstanceCapacity", ErrorKind.CAPACITY, NEXT, "too few such machines free"),
    ("UnfulfillableCapacity", ErrorKind.CAPACITY, NEXT, "too few such machines free"),
    ("InsufficientCapacity", ErrorKind.CAPACITY, NEXT, "too few such machines free"),
    ("InsufficientHostCapacity", ErrorKind.CAPACITY, NEXT, "too few such machines free"),
    ("InsufficientFreeAddressesInSubnet", ErrorKind.CAPACITY, NEXT, "another zone"),
    ("Unsupported", ErrorKind.CAPACITY, NEXT, "does not offer such machines"),
    ("InvalidFleetConfiguration", ErrorKind.CAPACITY, NEXT, "does not offer such machines"),
    ("InvalidPlacementGroup.InUse", ErrorKind.CAPACITY, NEXT, "in use in another zone"),
    ("MaxFleetCountExceeded", ErrorKind.QUOTA, NEXT, "too many fleets"),
    ("MaxSpotInstanceCountExceeded", ErrorKind.QUOTA, NEXT, "Service Quotas"),
    ("VcpuLimitExceeded", ErrorKind.QUOTA, NEXT, "vCPU quota"),
    ("InstanceLimitExceeded", ErrorKind.QUOTA, NEXT, "Service Quotas"),
    ("SpotMaxPriceTooLow", ErrorKind.PRICE, NEXT, "raise the maximum"),
    ("UnauthorizedOperation", ErrorKind.PERMISSION, STOP, "workbench doctor --iam"),
    ("AccessDenied", ErrorKind.PERMISSION, STOP, "workbench doctor --iam"),
    (
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        ErrorKind.PERMISSION,
        STOP,
        "create-service-linked-role",
    ),
    ("AuthFailure", ErrorKind.CREDENTIALS, PAUSE, "aws sts get-caller-identity"),
    ("ExpiredToken", ErrorKind.CREDENTIALS, PAUSE, "sign in again"),
    ("RequestExpired", ErrorKind.CREDENTIALS, PAUSE, "clock"),
    ("NoCredentials", ErrorKind.CREDENTIALS, PAUSE, "aws configure"),
    ("InvalidClientTokenId", ErrorKind.CREDENTIALS, PAUSE, "not known"),
    ("SignatureDoesNotMatch", ErrorKind.CREDENTIALS, PAUSE, "secret key"),
    ("InvalidAMIID.NotFound", ErrorKind.CONFIGURATION, STOP, "image"),
    ("InvalidSubnetID.NotFound", ErrorKind.CONFIGURATION, STOP, "subnet"),
    ("VPCIdNotSpecified", ErrorKind.CONFIGURATION, STOP, "create-default-vpc"),
    ("OptInRequired", ErrorKind.CONFIGURATION, STOP, "opted in"),
    ("Blocked", ErrorKind.CONFIGURATION, STOP, "support"),
    ("PendingVerification", ErrorKind.BUSY, PAUSE, "verified"),
    ("IdempotentParameterMismatch", ErrorKind.BUSY, PAUSE, "a new purchase"),
    ("InvalidGroup.NotFound", ErrorKind.EARLY, PAUSE, "not known everywhere yet"),
    ("InvalidSecurityGroupID.NotFound", ErrorKind.EARLY, PAUSE, "not known everywhere yet"),
    ("InvalidKeyPair.NotFound", ErrorKind.EARLY, PAUSE, "not known everywhere yet"),
    ("InvalidPlacementGroup.Unknown", ErrorKind.EARLY, PAUSE, "not known everywhere yet"),
    ("InvalidLaunchTemplateId.NotFound", ErrorKind.EARLY, PAUSE, "not known everywhere yet"),
    (
        "InvalidLaunchTemplateName.NotFoundException",
        ErrorKind.EARLY,
        PAUSE,
        "not known everywhere yet",
    ),
    ("RequestLimitExceeded", ErrorKind.THROTTLING, BACK_OFF, "rate of calls"),
    ("Throttling", ErrorKind.THROTTLING, BACK_OFF, "rate of calls"),
    ("Unavailable", ErrorKind.THROTTLING, BACK_OFF, "rate of calls"),
    ("ServiceUnavailable", ErrorKind.THROTTLING, BACK_OFF, "rate of calls"),
    ("InternalError", ErrorKind.THROTTLING, BACK_OFF, "rate of calls"),
    ("Server.InternalError", ErrorKind.THROTTLING, BACK_OFF, "rate of calls"),
    ("InvalidInstanceID.NotFound", ErrorKind.THROTTLING, BACK_OFF, "looked up again"),
    ("NoAnswer", ErrorKind.THROTTLING, BACK_OFF, "same token"),
]
# Code, what AWS says with it, and what that makes of it; each verbatim from where ROWS names it.
SENTENCES = [
    (
        "InvalidParameterCombination",
        "Cluster placement groups are not supported by the 't3.xlarge' instance type.",
        (ErrorKind.CAPACITY, NEXT, False),
        "close together",
    ),
    (
        "InvalidParameterCombination",
        "The specified instance type is not eligible for Free Tier.",
        (ErrorKind.CONFIGURATION, STOP, False),
        "paid plan",
    ),
    (
        "InvalidParameterValue",
        "Value (workbench-node) for parameter iamInstanceProfile.name is invalid. Invalid IAM "
        "Instance Profile name",
        (ErrorKind.CONFIGURATION, STOP, True),
        "aws iam create-instance-profile --instance-profile-name workbench-node;",
    ),
    (
        "InvalidParameterValue",
        "Invalid value 'x' for instance type.",
        (ErrorKind.UNKNOWN, NEXT, False),
        "Invalid value 'x'",
    ),
]


@pytest.mark.parametrize(("code", "kind", "follows", "words"), CODES)
def test_a_known_code_has_its_class_its_step_and_its_sentence(code, kind, follows, words) -> None:
    refusal = build_error(code, "")

    assert (refusal.kind, step(refusal.kind), refusal.code) == (kind, follows, code)
    assert words in f"{refusal.what}; {refusal.remedy}"
    assert refusal.what.endswith(f" ({code})")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ThrottlingException", ErrorKind.THROTTLING),
        ("EC2ThrottledException", ErrorKind.THROTTLING),
        ("AccessDeniedException", ErrorKind.PERMISSION),
        ("ExpiredTokenException", ErrorKind.CREDENTIALS),
        ("UnrecognizedClientException", ErrorKind.CREDENTIALS),
        ("InsufficientReservedInstanceCapacity", ErrorKind.CAPACITY),
        ("VolumeLimitExceeded", ErrorKind.QUOTA),
        ("MaxSpotFleetRequestCountExceeded", ErrorKind.QUOTA),
        ("ServerInternal", ErrorKind.THROTTLING),
        ("Client.UnauthorizedOperation", ErrorKind.PERMISSION),
        ("InvalidParameterValue", ErrorKind.UNKNOWN),
        ("InvalidVolume.NotFound", ErrorKind.UNKNOWN),
        ("SomethingNew", ErrorKind.UNKNOWN),
        ("", ErrorKind.UNKNOWN),
    ],
)
def test_a_new_code_is_known_by_its_family_or_shown_as_it_is(code, kind) -> None:
    refusal = build_error(code, "What the vendor says.")

    assert refusal.kind is kind
    assert f"{code}: What the vendor says" in refusal.what


def test_a_refused_permission_names_what_was_not_allowed() -> None:
    refusal = build_error(
        "UnauthorizedOperation",
        "You are not authorized to perform this operation. User: arn:aws:iam::123456789012:user/x "
        "is not authorized to perform: ec2:CreateFleet because no policy allows it. "
        "Encoded authorization failure message: c2VjcmV0c2VjcmV0",
    )

    assert refusal.what.startswith("you may not do ec2:CreateFleet (")
    assert "c2Vj" not in refusal.what


@PROFILE
@given(st.text(max_size=40), st.text(max_size=900))
def test_whatever_is_reported_becomes_one_short_sentence(code, message) -> None:
    refusal = build_error(code, message)

    assert len(refusal.what) + len(refusal.remedy) < 600
    assert str(refusal) == str(build_error(code, message))


def test_an_unknown_kind_is_tried_otherwise() -> None:
    assert step("sunspots") is NEXT


@pytest.mark.parametrize(("code", "message", "judged", "words"), SENTENCES)
def test_one_code_says_several_things_by_its_sentence(code, message, judged, words) -> None:
    refusal = build_error(code, message)

    assert (refusal.kind, step(refusal.kind), refusal.is_early) == judged
    assert words in f"{refusal.what}; {refusal.remedy}"


def test_every_row_of_the_table_is_met_by_a_code_of_these_tests() -> None:
    said = [(code, "") for code, *_ in CODES] + [(code, text) for code, text, *_ in SENTENCES]

    met = {next(row for row in ROWS if row.meets(*_plain(one))) for one in said}

    named = [row for row in ROWS if not row.code.startswith((".*", "(?s", "(Invalid|Malformed"))]
    assert [row.code for row in named if row not in met] == []


def _plain(said: tuple[str, str]) -> tuple[str, str]:
    return said[0].removeprefix("Server."), said[1]


@pytest.mark.parametrize(
    ("codes", "kind", "is_early"),
    [
        ((), ErrorKind.CAPACITY, False),
        (("Unsupported", "SpotMaxPriceTooLow"), ErrorKind.PRICE, False),
        (("InvalidFleetConfiguration", "UnauthorizedOperation"), ErrorKind.PERMISSION, False),
        (("Unsupported", "InvalidFleetConfiguration"), ErrorKind.CAPACITY, False),
        (("UnauthorizedOperation", "InsufficientInstanceCapacity"), ErrorKind.CAPACITY, False),
        (("SomethingNew", "MaxSpotInstanceCountExceeded"), ErrorKind.QUOTA, False),
        (("InvalidGroup.NotFound", "InvalidKeyPair.NotFound"), ErrorKind.EARLY, True),
        (("InvalidGroup.NotFound", "InvalidFleetConfiguration"), ErrorKind.EARLY, True),
        (("InvalidGroup.NotFound", "InsufficientInstanceCapacity"), ErrorKind.CAPACITY, False),
    ],
)
def test_of_several_pools_the_most_telling_refusal_counts(codes, kind, is_early) -> None:
    refusal = of_fleet((code, "") for code in codes)

    assert (refusal.kind, refusal.is_early) == (kind, is_early)


@pytest.mark.parametrize("code", ["InternalError", "Server.InternalError", "RequestLimitExceeded"])
def test_an_answer_that_is_kept_for_its_token_is_not_asked_for_again(code) -> None:
    assert step(build_error(code, "").kind) is BACK_OFF
    assert step(of_fleet([(code, "")]).kind) is PAUSE


@pytest.mark.parametrize("kind", ErrorKind)
def test_close_together_only_what_lasts_ends_the_candidates(kind) -> None:
    everywhere = {
        ErrorKind.PERMISSION,
        ErrorKind.CREDENTIALS,
        ErrorKind.QUOTA,
        ErrorKind.THROTTLING,
        ErrorKind.BUSY,
    }

    assert kind_for_fallbacks(kind, placement=True) == (
        kind if kind in everywhere else ErrorKind.CAPACITY
    )
    assert kind_for_fallbacks(kind, placement=False) == kind
