"""What a rehearsal is as a provider: simulated nodes on this machine, with prices to watch."""

from __future__ import annotations

from workbench.core.fleet.form import FieldKind, FormField
from workbench.core.fleet.provider import BOUGHT_OPTIONS, NODE_OPTIONS, Provider

# They are taken, so that a command for rented nodes can be rehearsed as it is.
_WITHOUT_EFFECT = frozenset({"region", "subnets", "image", "disk", "cuda", "ssh_from", "lease"})

_LINK = FormField("link", "Link, Gbit/s", "Simulated link speed; 0 = unlimited", FieldKind.NUMBER)

PROVIDER = Provider(
    name="rehearsal",
    label="rehearsal (nothing is bought)",
    located="in a rehearsal",
    summary="Use simulated nodes: they act like EC2's and cost nothing.",
    adapter="workbench.cloud.rehearsal.provider:open_rehearsal",
    flag="rehearsal",
    order=30,
    is_remote=False,
    is_priced=True,
    notice=120.0,
    common=NODE_OPTIONS | BOUGHT_OPTIONS,
    fields=(
        FormField("link", "Link, Gbit/s", "Simulated link speed; 0 = unlimited", FieldKind.NUMBER),
    ),
    unasked=_WITHOUT_EFFECT,
    reclaims=True,
)
