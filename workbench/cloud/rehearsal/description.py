"""What a rehearsal is as a provider: simulated nodes on this machine, with prices to watch."""

from __future__ import annotations

from workbench.cloud.ec2.description import ZONE_PRICE
from workbench.core.fleet.cost import HOUR
from workbench.core.fleet.form import FieldKind, FormField
from workbench.core.fleet.provider import BOUGHT_OPTIONS, NODE_OPTIONS, Provider, Wished
from workbench.core.option import CLUSTER_MAGIC, JOB, Option, amount
from workbench.core.option import PROVIDER as SECTION

LINK = FormField(
    "link", "Link, Gbit/s", "Simulated link speed; 0 = unlimited", FieldKind.NUMBER,
    typed=Option(
        "link", "Limit the links of simulated nodes, in Gbit/s.",
        amount("GBITS", "Gbit/s that join simulated nodes"), on=("up", CLUSTER_MAGIC, JOB),
        section=SECTION, shown="no limit", example=0.1,
    ),
)  # fmt: skip


class RehearsedNodes(Provider):
    """Nodes of a rehearsal."""

    def link(self, wish: Wished) -> float:
        """Return the limit in Gbit/s on a rank's connection to one of another node."""
        return wish.setting("link", 0.0)


PROVIDER = RehearsedNodes(
    name="rehearsal",
    label="rehearsal (nothing is bought)",
    located="in a rehearsal",
    summary="Use simulated nodes: they act like EC2's and cost nothing.",
    adapter="workbench.cloud.rehearsal.provider:open_rehearsal",
    flag="rehearsal",
    order=30,
    is_remote=False,
    is_priced=True,
    credited_seconds=HOUR,
    zone_price=ZONE_PRICE,
    notice=120.0,
    common=NODE_OPTIONS | BOUGHT_OPTIONS,
    unasked=frozenset({"region"}),
    fields=(LINK,),
    rehearses=True,
    reclaims=True,
)
