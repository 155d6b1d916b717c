"""Lay out the boxes and buttons of a cluster's panel; what they do is the panel's."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets as widgets

from workbench.core.cluster import ClusterWish
from workbench.core.fleet import Place
from workbench.notebook.agreement import Agreement
from workbench.notebook.deletion import DeleteQuestion
from workbench.notebook.fields import STYLE, amount, button, row, whole
from workbench.notebook.hosts_form import HostsForm, KeyQuestion
from workbench.notebook.local_form import LocalForm
from workbench.notebook.market_form import MarketForm
from workbench.store.wishes import local_slots

WHERE = (
    ("This machine", Place.LOCAL),
    ("ssh hosts", Place.HOSTS),
    ("EC2 spot", Place.EC2),
    ("Rehearsal: no account, nothing is bought", Place.FAKE),
)


class ClusterBoxes:
    """All that can be seen of one cluster's panel.

    Args:
        wish: What was asked for before.
        on_delete: Called when everything is to be deleted.
        on_keys: Called with whether the keys that were shown are the hosts' own.
    """

    def __init__(
        self,
        wish: ClusterWish | None,
        on_delete: Callable[[], None],
        on_keys: Callable[[bool], None],
    ) -> None:
        local = LocalForm(wish, local_slots())
        self.ranks, self.oversubscribe = local.ranks, local.oversubscribe
        self.forms: dict[Place, LocalForm | HostsForm | MarketForm] = {
            Place.LOCAL: local,
            Place.HOSTS: HostsForm(),
            Place.EC2: MarketForm(Place.EC2),
            Place.FAKE: MarketForm(Place.FAKE),
        }
        self.where = widgets.Dropdown(
            options=WHERE,
            value=Place.LOCAL,
            description="Where",
            style=STYLE,
            layout=widgets.Layout(width="34em"),
        )
        self.nodes = whole("Nodes", 2, "How many; 0 keeps the definition and pays nothing")
        self.least = whole("At least", 1, "Below as many nothing starts, and no world goes on")
        self.most = whole("Grow up to", 0, "While runs wait; 0 not to grow by itself")
        self.sizes = row(self.nodes, self.least, self.most)
        self.hours = amount("Longer by, h", 1.0, "How much longer the cluster may live")
        self.extend = button("Extend", "Let the cluster live longer", "clock-o")
        self.state = widgets.HTML(description="State", style=STYLE)
        self.price = widgets.HTML(value="free")
        self.price.description = "Price"
        self.message, self.facts = widgets.HTML(), widgets.HTML()
        self.start = button("Start", "Start the cluster as the boxes say", "play", "success")
        self.resize = button("Resize", "Give the cluster this size", "arrows-h")
        self.stop = button("Stop", "Stop the cluster's ranks", "stop", "danger")
        self.delete = DeleteQuestion(on_delete)
        self.keys = KeyQuestion(on_keys)
        self.more = Agreement()
        self.box = widgets.VBox([local.widget])
        self.longer = row(self.hours, self.extend)
        self.widget = widgets.VBox(
            [
                widgets.HBox([self.where, self.price]),
                self.sizes,
                self.box,
                self.state,
                widgets.HBox([self.start, self.resize, self.stop]),
                self.longer,
                self.delete.widget,
                self.keys.widget,
                self.more.widget,
                self.message,
                self.facts,
            ]
        )

    @property
    def form(self) -> LocalForm | HostsForm | MarketForm:
        """What asks for a cluster at the place that was chosen."""
        return self.forms[self.where.value]
