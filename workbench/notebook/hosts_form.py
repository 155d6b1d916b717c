"""Ask for a person's own hosts, and for a yes to the keys that they show."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from workbench.core.contact import Contact
from workbench.core.fleet import FleetWish, Place
from workbench.core.hosts import hosts_text, parse_hosts
from workbench.errors import InputError
from workbench.notebook.extras_form import ExtrasForm
from workbench.notebook.fields import button, page, row, text
from workbench.notebook.page import table
from workbench.view.listing import NOTHING, Table

MOST_BYTES = 1 << 20


class HostsForm:
    """The hosts, in a box or from a file, as mpiexec takes them."""

    place = Place.HOSTS

    def __init__(self) -> None:
        self.hosts = page("Hosts", "172.31.41.13 slots=1", "One on each line, as mpiexec takes it")
        self.file = text("Host file", "/path/to/hosts", "A file on this machine to read them from")
        self.read = button("Read file", "Put the file's hosts into the box above", "folder-open")
        self.extras = ExtrasForm(self.place)
        self.widget = widgets.VBox([self.hosts, row(self.file, self.read), self.extras.widget])

    def wish(self, nodes: int, least: int, most: int, now: float) -> FleetWish:
        """Return what the boxes ask for.

        Raises:
            InputError: They ask for what cannot be.
        """
        hosts = parse_hosts(self.hosts.value)
        asked = FleetWish(self.place, nodes=nodes, least=least, most=most, hosts=hosts)
        return self.extras.added_to(asked)

    def show(self, wish: FleetWish, now: float) -> None:
        """Write what was asked for into the boxes."""
        self.hosts.value = hosts_text(wish.hosts)
        self.extras.show(wish)

    def read_file(self) -> int:
        """Put the file's text into the box, and return how many hosts it names.

        Raises:
            InputError: There is no such file, or it names no hosts.
        """
        path = Path(self.file.value.strip()).expanduser()
        try:
            if path.stat().st_size > MOST_BYTES:
                raise InputError(f"{path} has more than {MOST_BYTES:,} bytes; name a host file.")
            found = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise InputError(f"The host file {path} cannot be read ({reason}).") from error
        hosts = parse_hosts(found)
        self.hosts.value = found
        return len(hosts)

    def count(self) -> int:
        """Return how many hosts stand in the box; 0 while a line of it will not do."""
        try:
            return len(parse_hosts(self.hosts.value))
        except InputError:
            return 0


class KeyQuestion:
    """Shows the keys of hosts that nobody knows yet, once, for a yes.

    Args:
        on_answer: Called with whether it was a yes.
    """

    def __init__(self, on_answer: Any) -> None:
        self.keys: tuple[Contact, ...] = ()
        self.shown = widgets.HTML()
        self.yes = button("Yes, trust these keys", "Compare each fingerprint first", "check")
        self.no = button("No", "Start nothing")
        self.yes.on_click(lambda _: on_answer(True))
        self.no.on_click(lambda _: on_answer(False))
        self.widget = widgets.VBox([self.shown, row(self.yes, self.no)])
        self.ask(())

    def ask(self, keys: Sequence[Contact]) -> None:
        """Show keys; nothing, and no buttons, for none."""
        self.keys = tuple(keys)
        self.shown.value = keys_html(self.keys) if keys else ""
        self.widget.layout.display = None if keys else "none"


def keys_html(keys: Sequence[Contact]) -> str:
    """Return the keys as a table with what to compare them with."""
    rows = tuple(
        (one.address, (one.line.split() or [NOTHING] * 2)[1], one.fingerprint) for one in keys
    )
    listed = table(Table(("host", "kind of key", "fingerprint"), rows))["text/html"]
    advice = "on each host, ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub prints its own."
    return (
        '<p role="alert">Nobody has said yes to these host keys yet. Compare them: '
        f"{escape(advice)}</p>{listed}"
    )
