from __future__ import annotations

import json
from typing import Any

import pytest

from workbench.cloud.ec2.policy import Principal, policy, policy_text
from workbench.cloud.ec2.preflight import NO_FLEET, NO_NAME, NOTHING
from workbench.errors import InputError

# IAM counts what is not white space.
MAX_CHARACTERS = 6144


def is_allowed(document: dict[str, Any], action: str) -> bool:
    """Return whether some statement allows an action, whatever its conditions."""
    return any(
        action in (one["Action"] if isinstance(one["Action"], list) else [one["Action"]])
        for one in document["Statement"]
        if one["Effect"] == "Allow"
    )


def actions(statement):
    named = statement["Action"]
    return named if isinstance(named, list) else [named]


@pytest.mark.parametrize("principal", Principal)
def test_it_is_short_enough_for_iam(principal):
    assert len("".join(policy_text(principal).split())) < MAX_CHARACTERS


@pytest.mark.parametrize("principal", Principal)
def test_no_action_is_a_pattern(principal):
    for statement in policy(principal)["Statement"]:
        assert not [action for action in actions(statement) if "*" in action]


def test_a_node_may_use_one_prefix_and_nothing_else():
    text = policy_text(Principal.NODE, "s3://bucket/a/prefix/")

    assert {
        action.partition(":")[0] for s in json.loads(text)["Statement"] for action in actions(s)
    } == {"s3"}
    assert "arn:aws:s3:::bucket/a/prefix/*" in text
    assert "PREFIX" not in text


@pytest.mark.parametrize(
    "store", ["bucket/prefix", "s3://bucket", "s3://bucket/", 's3://b/p"', "s3://b/*"]
)
def test_what_is_not_one_prefix_is_refused(store):
    with pytest.raises(InputError):
        policy(Principal.NODE, store)


def test_what_exists_is_changed_only_where_it_is_tagged_as_ours():
    tried = {NOTHING, NO_FLEET, NO_NAME, "sir-00000000"}
    for statement in policy(Principal.PERSON)["Statement"]:
        if any("Delete" in action or "Terminate" in action for action in actions(statement)):
            condition = json.dumps(statement.get("Condition", {}))
            resources = statement["Resource"]
            nothing = resources != "*" and all(
                any(name in one for name in tried) for one in resources
            )
            assert nothing or "aws:ResourceTag/workbench:cluster" in condition


def test_a_person_may_not_make_images_and_a_baker_may_not_buy():
    assert not is_allowed(policy(Principal.PERSON), "ec2:CreateImage")
    assert not is_allowed(policy(Principal.BAKER), "ec2:RunInstances")
