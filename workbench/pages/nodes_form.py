"""Answer a page's form about nodes: what it asks, what its values mean, what is left at the end.

The form is the same in JupyterLab's panel and below a cell. ``pages.estimate`` has the prices.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.core.cluster.model import ClusterState
from workbench.core.fleet.form import HOUR, FieldKind, FormField, Value, form_values, option_values
from workbench.core.fleet.model import FleetWish
from workbench.core.fleet.provider import Provider, find_provider, known_providers
from workbench.core.fleet.request import FleetRequest, Spelling, fleet_wish
from workbench.core.quote import quote_value
from workbench.core.world.hostfile import hosts_text, parse_hosts
from workbench.errors import InputError, StateError
from workbench.pages.protocol import (
    FieldMessage,
    FormMessage,
    HostsMessage,
    KeyMessage,
    KeysMessage,
    PlaceMessage,
    ProofMessage,
)
from workbench.pages.requests import FormRequest, HostFileRequest, KeysRequest, ProofRequest
from workbench.requests import cloud_queries
from workbench.requests.cluster import known_wish
from workbench.store import Store
from workbench.store.paths import trust

MOST_BYTES = 64_000  # of a host file
_NUMBERS = (FieldKind.WHOLE, FieldKind.NUMBER)


def form_message(store: Store, name: str) -> FormMessage:
    """Return what may be asked for a cluster, and what was asked for last."""
    wish = store.cluster_wish(name)
    fleet = wish.fleet if wish else FleetWish()
    if wish and not wish.up:
        fleet = replace(fleet, expires=0.0)  # the next one has a whole life
    return FormMessage(
        places=tuple(_place_message(place) for place in known_providers()),
        asked=form_request(fleet, time.time()) if fleet.place.has_nodes else None,
    )


def form_request(fleet: FleetWish, now: float) -> FormRequest:
    """Return the values of a form that ask for ``fleet``.

    Args:
        now: Epoch seconds.
    """
    lives = round(max(0.0, fleet.expires - now) / HOUR, 2) * HOUR
    limits = {"ttl": lives or None, "idle": fleet.idle if fleet.asked else None}
    wished = {**vars(fleet.needs), **vars(fleet), **dict(fleet.settings), **limits}
    return FormRequest(
        provider=fleet.provider,
        nodes=fleet.nodes,
        min_nodes=fleet.min_nodes,
        max_nodes=fleet.max_nodes,
        hosts=hosts_text(fleet.hosts),
        type=fleet.needs.types[0] if fleet.needs.types else "",
        values=show_values(fleet.place.form, wished),
    )


def show_values(fields: tuple[FormField, ...], wished: Mapping[str, Any]) -> dict[str, str | bool]:
    """Return what fields of a form show; numbers as text.

    Args:
        wished: The present options and settings, by name.
    """
    return {
        name: value if isinstance(value, (bool, str)) else f"{value:g}"
        for name, value in form_values(fields, wished).items()
    }


def read_form(form: FormRequest) -> FleetWish:
    """Return the nodes that a form asks for.

    Raises:
        InputError: Its values are not valid.
    """
    place = find_provider(form.provider)
    if not place.has_nodes:
        raise InputError(f"{place.label} has no nodes", "choose another provider.")
    values = {one.name: _read_value(one, form.values.get(one.name, "")) for one in place.form}
    request = FleetRequest(
        provider=place.name,
        hosts=parse_hosts(form.hosts) if place.lists_hosts else (),
        nodes=form.nodes,
        min_nodes=form.min_nodes,
        max_nodes=form.max_nodes or None,
        types=(form.type,) if form.type else None,
        **option_values(place.form, values, FleetRequest.__dataclass_fields__),
    )
    spelling = Spelling(lambda name: find_label(place, name), str)
    wish = fleet_wish(request, spelling, now=time.time())
    assert wish is not None
    return replace(wish, starts_early=False)


def count_hosts(form: FormRequest) -> int:
    """Return the number of listed hosts; 0 while a line is not valid."""
    try:
        return len(parse_hosts(form.hosts)) if form.hosts.strip() else 0
    except InputError:
        return 0


def find_label(place: Provider, name: str) -> str:
    """Return what a provider's form calls an option."""
    labels = {one.name: one.label for one in place.form}
    return labels.get(name, name.replace("_", " "))


def ask_keys(store: Store, name: str, asked: KeysRequest) -> KeysMessage:
    """Return the host keys to confirm before a cluster may start; this takes as long as its hosts.

    Raises:
        InputError: A host cannot be used.
    """
    fleet = read_form(asked.form)
    if asked.trusted:
        trust(name, asked.trusted)
    probes = cloud_queries.ask_contact(fleet, name)
    unknown = [one for one in probes if not one.known and one.line]
    failed = [one for one in probes if one.error]
    if failed and not unknown:
        raise InputError(failed[0].error)
    keys = [
        KeyMessage(
            address=one.address,
            kind=one.line.partition(" ")[2].partition(" ")[0],
            fingerprint=one.fingerprint,
            line=one.line,
        )
        for one in unknown
    ]
    return KeysMessage(keys=tuple(keys))


def read_hosts(store: Store, asked: HostFileRequest) -> HostsMessage:
    """Return the text of a host file.

    Raises:
        InputError: There is no such file, or it names no hosts.
    """
    path = Path(asked.path.strip()).expanduser()
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path} has more than {MOST_BYTES:,} bytes", "name a host file.")
        found = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InputError(f"The host file {path} cannot be read ({reason}).") from error
    return HostsMessage(text=found, count=len(parse_hosts(found)))


def prove_gone(store: Store, name: str, asked: ProofRequest) -> ProofMessage:
    """Return what the provider has left of a cluster, and what it cost.

    Raises:
        ClusterError: Something is left.
        StateError: The cluster is not down yet.
    """
    from workbench.view.cluster_changes import cluster_cost, gone_sentence

    wish = known_wish(store, name)
    if wish.up or store.cluster_fact(name).state is not ClusterState.DOWN:
        raise StateError(f"Cluster {name!r} is not deleted yet", "ask again when it is.")
    if wish.fleet.place.lists_hosts:
        return ProofMessage(sentence="The ranks have ended; the hosts keep running.")
    spent = max(asked.spent, cluster_cost(store, name))
    return ProofMessage(sentence=gone_sentence(wish, spent))


def _place_message(place: Provider) -> PlaceMessage:
    return PlaceMessage(
        name=place.name,
        label=place.label,
        has_nodes=place.has_nodes,
        lists_hosts=place.lists_hosts,
        fields=tuple(
            FieldMessage(
                name=one.name,
                label=one.label,
                hint=one.hint,
                kind=one.kind,
                usual=one.usual,
                example=one.example,
                is_folded=one.is_folded,
            )
            for one in (place.form if place.has_nodes else ())
        ),
    )


def _read_value(one: FormField, entered: str | bool) -> Value:
    """Return the value of a field.

    Raises:
        InputError: It is not a number, or less than 0.
    """
    if one.kind not in _NUMBERS:
        return entered if one.kind is not FieldKind.SWITCH else bool(entered)
    kind = "whole number" if one.kind is FieldKind.WHOLE else "number"
    try:
        value = (int if one.kind is FieldKind.WHOLE else float)(str(entered) or str(one.usual))
    except ValueError:
        raise InputError(f"{one.label} must be a {kind}, not {quote_value(entered)}.") from None
    if not 0 <= value < math.inf:
        raise InputError(f"{one.label} must be at least 0, not {value:g}.")
    return value
