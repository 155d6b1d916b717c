"""What crates are as a provider of nodes: boxes with a price, on this machine."""

from workbench.core.fleet.form import FormField
from workbench.core.fleet.provider import BOUGHT_OPTIONS, NODE_OPTIONS, Provider
from workbench.errors import InputError

YARDS = ("east", "west")


def check_yard(text: str) -> None:
    """Raise ``InputError`` for a yard that there is not."""
    if text not in YARDS:
        raise InputError(f"There is no yard {text!r}", f"choose one of {', '.join(YARDS)}.")


PROVIDER = Provider(
    name="crates",
    label="crates",
    located="in crates",
    summary="Use crates, which are on this machine.",
    adapter="crates_nodes:open_crates",
    is_remote=False,
    is_priced=True,
    is_paid=True,
    common=NODE_OPTIONS | BOUGHT_OPTIONS,
    fields=(FormField("yard", "Yard", "Where the crates are", example="east", check=check_yard),),
)
