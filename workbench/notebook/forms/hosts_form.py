"""The form for the user's own hosts, and the confirmation of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from workbench.core.fleet.model import FleetWish
from workbench.core.fleet.provider import Provider
from workbench.core.node.host_findings import HostProbe
from workbench.core.world.hostfile import hosts_text, parse_hosts
from workbench.errors import InputError
from workbench.notebook.forms.form_fields import HtmlField, alert_html, button, page, row, text
from workbench.notebook.forms.provider_form import ProviderForm
from workbench.view.html import Html, join_html
from workbench.view.tables.listing import NOTHING, Table, table_html

MOST_BYTES = 1 << 20


class HostsForm(ProviderForm):
    """The hosts, in a box or from a file, in mpiexec's format."""

    def __init__(self, place: Provider) -> None:
        super().__init__(place)
        self.hosts = page("Hosts", "172.31.41.13 slots=1", "One per line, in mpiexec's format")
        self.file = text("Host file", "/path/to/hosts", "A file on this machine to read them from")
        self.read = button("Read file", "Put the file's hosts into the box above")
        self.widget = widgets.VBox([self.hosts, row(self.file, self.read), self.extras])

    def wish(self, nodes: int, min_nodes: int, max_nodes: int, now: float) -> FleetWish:
        """Return what the boxes ask for.

        Raises:
            InputError: They ask for what cannot be.
        """
        hosts = parse_hosts(self.hosts.value)
        return self.wish_for(nodes, min_nodes, max_nodes, now, hosts=hosts)

    def show(self, wish: FleetWish, now: float) -> None:
        """Write what was asked for into the boxes."""
        super().show(wish, now)
        self.hosts.value = hosts_text(wish.hosts)

    def read_file(self) -> int:
        """Put the file's text into the box, and return how many hosts it names.

        Raises:
            InputError: There is no such file, or it names no hosts.
        """
        path = Path(self.file.value.strip()).expanduser()
        try:
            if path.stat().st_size > MOST_BYTES:
                raise InputError(f"{path} has more than {MOST_BYTES:,} bytes", "name a host file.")
            found = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise InputError(f"The host file {path} cannot be read ({reason}).") from error
        hosts = parse_hosts(found)
        self.hosts.value = found
        return len(hosts)

    def count(self) -> int:
        """Return the number of hosts in the box; 0 while a line is not valid."""
        try:
            return len(parse_hosts(self.hosts.value))
        except InputError:
            return 0


class KeyQuestion:
    """The confirmation of host keys that are not trusted yet.

    Args:
        on_answer: Called with whether the keys were confirmed.
    """

    def __init__(self, on_answer: Any) -> None:
        self.keys: tuple[HostProbe, ...] = ()
        self.shown = HtmlField()
        self.yes = button("Trust these keys", "Compare each fingerprint first", "primary")
        self.no = button("Cancel", "Start nothing")
        self.yes.on_click(lambda _: on_answer(True))
        self.no.on_click(lambda _: on_answer(False))
        self.widget = widgets.VBox([self.shown, row(self.yes, self.no)])
        self.ask(())

    def ask(self, keys: Sequence[HostProbe]) -> None:
        """Show the keys; hide everything if there are none."""
        self.keys = tuple(keys)
        self.shown.value = keys_html(self.keys) if keys else ""
        self.widget.layout.display = None if keys else "none"


def keys_html(keys: Sequence[HostProbe]) -> Html:
    """Return the keys as a table, and how to compare them."""
    rows = tuple(
        (one.address, (one.line.split() or [NOTHING] * 2)[1], one.fingerprint) for one in keys
    )
    listed = table_html(Table(("host", "kind of key", "fingerprint"), rows))
    advice = (
        "These host keys are not trusted yet. Compare the fingerprints: on each host, "
        "`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` prints it."
    )
    return join_html([alert_html(advice), listed])
