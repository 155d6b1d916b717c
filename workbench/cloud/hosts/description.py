"""What a user's own hosts are as a provider: they are listed, cost nothing and stay on."""

from __future__ import annotations

from workbench.core.fleet.form import LEASE, FieldKind, FormField
from workbench.core.fleet.provider import NODE_OPTIONS, Provider, Wished
from workbench.core.option import FLAG, JOB, Option
from workbench.core.option import PROVIDER as SECTION

EQUIP = FormField(
    "equip", "Equip the hosts", "Install this computer's environment on hosts that have only ssh",
    FieldKind.SWITCH, is_folded=False,
    typed=Option(
        "equip", "Install this machine's environment on hosts that have only ssh.", FLAG,
        on=("up", JOB), section=SECTION, is_kept=True, example=True,
    ),
)  # fmt: skip


class OwnHosts(Provider):
    """Hosts of the user's."""

    def relays(self, wish: Wished) -> bool:
        """Return whether nodes cannot log in to each other, so that this computer does it."""
        return wish.setting("equip", False)


PROVIDER = OwnHosts(
    name="hosts",
    label="ssh hosts",
    located="on ssh hosts",
    summary="Use your own hosts.",
    adapter="workbench.cloud.hosts.boxes:open_hosts",
    order=10,
    lists_hosts=True,
    common=NODE_OPTIONS - {"idle"},
    unasked=frozenset({"idle"}),
    examines=True,
    fields=(EQUIP, LEASE),
)
