"""This machine, as the provider of clusters without nodes."""

from __future__ import annotations

from workbench.core.fleet.provider import LOCAL, Provider

PROVIDER = Provider(
    name=LOCAL,
    label="this machine",
    located="on this machine",
    summary="Use only this machine.",
    flag="here",
    order=0,
    is_remote=False,
    common=frozenset(),
)
