"""Name the tags by which all that a cluster owns is found again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

CLUSTER = "workbench:cluster"
TOKEN = "workbench:token"
EXPIRES = "workbench:expires"
"""Epoch seconds at which everything is deleted, as a whole number; not there for never."""
IMAGE = "workbench:image"


def borne(
    cluster: str, token: str = "", tags: Iterable[tuple[str, str]] = ()
) -> tuple[tuple[str, str], ...]:
    """Return the tags that something bears: ours, and those that were asked for, by name."""
    ours = {CLUSTER: cluster, TOKEN: token}
    return tuple(
        sorted({**dict(tags), **{key: value for key, value in ours.items() if value}}.items())
    )


def asked(tags: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return tags as EC2 takes them."""
    return [{"Key": key, "Value": value} for key, value in tags]


def read(answer: Sequence[Mapping[str, str]] | None) -> tuple[tuple[str, str], ...]:
    """Return the tags that EC2 tells."""
    return tuple((tag["Key"], tag["Value"]) for tag in answer or ())
