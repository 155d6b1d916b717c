"""What a user's own hosts are as a provider: they are listed, cost nothing and stay on."""

from __future__ import annotations

from workbench.core.fleet.provider import NODE_OPTIONS, Provider

PROVIDER = Provider(
    name="hosts",
    label="ssh hosts",
    located="on ssh hosts",
    summary="Use your own hosts.",
    adapter="workbench.cloud.hosts.listed_hosts:open_hosts",
    order=10,
    lists_hosts=True,
    common=NODE_OPTIONS - {"idle"},
    unasked=frozenset({"idle"}),
    examines=True,
)
