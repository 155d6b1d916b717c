"""Build the IAM policies with the fewest rights: for a person, a node and an image baker."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

from workbench.errors import InputError

# The role, and its instance profile, of nodes that read or write a bucket.
NODE_ROLE = "workbench-node"
_BUCKET, _PREFIX = "BUCKET", "PREFIX"
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "ec2.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}


class Principal(StrEnum):
    """The recipient of a policy."""

    PERSON = "person"
    NODE = "node"
    BAKER = "baker"


def policy(principal: Principal, store: str = "") -> dict[str, Any]:
    """Return the policy's document.

    Args:
        store: ``s3://bucket/prefix`` that the node may read and write; empty leaves the words
            BUCKET and PREFIX in the text, for the user to replace.

    Raises:
        InputError: ``store`` is not of this form.
    """
    from importlib.resources import files  # most processes need no policy

    text = (files("workbench.cloud") / "policy.json").read_text(encoding="utf-8")
    if store:
        bucket, prefix = _parts(store)
        text = text.replace(_BUCKET, bucket).replace(_PREFIX, prefix)
    document: dict[str, Any] = json.loads(text)[principal]
    return document


def policy_text(principal: Principal, store: str = "") -> str:
    """Return the document as JSON for AWS's console and command line."""
    return json.dumps(policy(principal, store), indent=2)


def profile_commands(role: str = NODE_ROLE) -> tuple[str, ...]:
    """Return the commands that create the nodes' role and its instance profile.

    The console creates a profile of the same name with each role; commands have to create it.
    """
    trust = json.dumps(_TRUST, separators=(",", ":"))
    return (
        f"aws iam create-role --role-name {role} --assume-role-policy-document '{trust}'",
        f"aws iam create-instance-profile --instance-profile-name {role}",
        f"aws iam add-role-to-instance-profile --instance-profile-name {role} --role-name {role}",
    )


def role_commands() -> tuple[str, ...]:
    """Return the commands that create the nodes' role with the policy in ``node.json``."""
    made, *profile = profile_commands()
    rights = (
        f"aws iam put-role-policy --role-name {NODE_ROLE} --policy-name {NODE_ROLE} "
        "--policy-document file://node.json"
    )
    return (made, rights, *profile)


def _parts(store: str) -> tuple[str, str]:
    bucket, _, prefix = store.removeprefix("s3://").partition("/")
    prefix = prefix.strip("/")
    if not store.startswith("s3://") or not bucket or not prefix:
        raise InputError(
            f"{store!r} is not s3://bucket/prefix", "name a bucket and a prefix in it."
        )
    # Both are put into JSON text, where "*" would match more than one prefix.
    if set(store) & set('"\\*?${}\n'):
        raise InputError(
            f"{store!r} has a character that a policy reads otherwise", "leave it out."
        )
    return bucket, prefix
