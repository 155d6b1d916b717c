"""Every word with which a place refuses has its class, its step and its sentence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.refusal import Kind, Step, classify, step

PROFILE = settings(derandomize=True, deadline=None, max_examples=200)
NEXT, STOP, BACK_OFF = Step.NEXT_RUNG, Step.STOP, Step.BACK_OFF

CODES = [
    ("InsufficientInstanceCapacity", Kind.CAPACITY, NEXT, "not enough such machines free"),
    ("UnfulfillableCapacity", Kind.CAPACITY, NEXT, "not enough such machines free"),
    ("InsufficientCapacity", Kind.CAPACITY, NEXT, "not enough such machines free"),
    ("InsufficientHostCapacity", Kind.CAPACITY, NEXT, "not enough such machines free"),
    ("InsufficientFreeAddressesInSubnet", Kind.CAPACITY, NEXT, "another zone"),
    ("Unsupported", Kind.CAPACITY, NEXT, "does not lend such machines"),
    ("MaxSpotInstanceCountExceeded", Kind.QUOTA, STOP, "Service Quotas"),
    ("VcpuLimitExceeded", Kind.QUOTA, STOP, "vCPU quota"),
    ("InstanceLimitExceeded", Kind.QUOTA, STOP, "Service Quotas"),
    ("SpotMaxPriceTooLow", Kind.PRICE, STOP, "raise that"),
    ("UnauthorizedOperation", Kind.PERMISSION, STOP, "workbench doctor --iam"),
    ("AccessDenied", Kind.PERMISSION, STOP, "workbench doctor --iam"),
    (
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        Kind.PERMISSION,
        STOP,
        "create-service-linked-role",
    ),
    ("AuthFailure", Kind.CREDENTIALS, STOP, "aws sts get-caller-identity"),
    ("ExpiredToken", Kind.CREDENTIALS, STOP, "sign in anew"),
    ("RequestExpired", Kind.CREDENTIALS, STOP, "clock"),
    ("NoCredentials", Kind.CREDENTIALS, STOP, "aws configure"),
    ("InvalidClientTokenId", Kind.CREDENTIALS, STOP, "not known"),
    ("SignatureDoesNotMatch", Kind.CREDENTIALS, STOP, "secret key"),
    ("InvalidAMIID.NotFound", Kind.CONFIGURATION, STOP, "image"),
    ("InvalidSubnetID.NotFound", Kind.CONFIGURATION, STOP, "subnet"),
    ("VPCIdNotSpecified", Kind.CONFIGURATION, STOP, "create-default-vpc"),
    ("OptInRequired", Kind.CONFIGURATION, STOP, "opted in"),
    ("PendingVerification", Kind.CONFIGURATION, STOP, "verified"),
    ("IdempotentParameterMismatch", Kind.CONFIGURATION, STOP, "Start again"),
    ("RequestLimitExceeded", Kind.THROTTLING, BACK_OFF, "patience"),
    ("Throttling", Kind.THROTTLING, BACK_OFF, "patience"),
    ("Unavailable", Kind.THROTTLING, BACK_OFF, "patience"),
    ("ServiceUnavailable", Kind.THROTTLING, BACK_OFF, "patience"),
    ("InternalError", Kind.THROTTLING, BACK_OFF, "patience"),
    ("InvalidInstanceID.NotFound", Kind.THROTTLING, BACK_OFF, "asked again"),
    ("NoAnswer", Kind.THROTTLING, BACK_OFF, "same token"),
]


@pytest.mark.parametrize(("code", "kind", "follows", "words"), CODES)
def test_a_known_code_has_its_class_its_step_and_its_sentence(code, kind, follows, words) -> None:
    refusal = classify(code, "")

    assert (refusal.kind, refusal.step, refusal.code) == (kind, follows, code)
    assert words in refusal.sentence
    assert refusal.sentence.endswith(f" ({code}).")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ThrottlingException", Kind.THROTTLING),
        ("EC2ThrottledException", Kind.THROTTLING),
        ("AccessDeniedException", Kind.PERMISSION),
        ("ExpiredTokenException", Kind.CREDENTIALS),
        ("UnrecognizedClientException", Kind.CREDENTIALS),
        ("InsufficientReservedInstanceCapacity", Kind.CAPACITY),
        ("VolumeLimitExceeded", Kind.QUOTA),
        ("MaxSpotFleetRequestCountExceeded", Kind.QUOTA),
        ("InvalidParameterValue", Kind.CONFIGURATION),
        ("InvalidKeyPair.NotFound", Kind.CONFIGURATION),
        ("SomethingNew", Kind.UNKNOWN),
        ("", Kind.UNKNOWN),
    ],
)
def test_a_new_code_is_known_by_its_family_or_shown_as_it_is(code, kind) -> None:
    refusal = classify(code, "What the vendor says.")

    assert refusal.kind is kind
    assert f"{code}: What the vendor says" in refusal.sentence


def test_a_refused_permission_names_what_was_not_allowed() -> None:
    refusal = classify(
        "UnauthorizedOperation",
        "You are not authorized to perform this operation. User: arn:aws:iam::123456789012:user/x "
        "is not authorized to perform: ec2:CreateFleet because no policy allows it. "
        "Encoded authorization failure message: c2VjcmV0c2VjcmV0",
    )

    assert refusal.sentence.startswith("you may not do ec2:CreateFleet;")
    assert "c2Vj" not in refusal.sentence


@PROFILE
@given(st.text(max_size=40), st.text(max_size=900))
def test_whatever_is_said_becomes_one_short_sentence(code, message) -> None:
    refusal = classify(code, message)

    assert len(refusal.sentence) < 600
    assert refusal == classify(code, message)
    assert refusal.step is step(refusal.kind)


def test_a_kind_that_nobody_knows_is_for_a_person() -> None:
    assert step("sunspots") is Step.STOP
