"""Say from which network rented nodes let in ssh: one address of the internet, or a private one."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from workbench.errors import InputError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# Not what Python calls private: that holds the documents' examples too, and not the shared
# addresses that VPNs use.
PRIVATE: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)


def check_door(text: str) -> Network:
    """Return the network from which ssh is let in; an address alone is a network of one.

    Raises:
        InputError: It is none, or of the public network and more than one address.
    """
    try:
        network = ipaddress.ip_network(text.strip(), strict=False)
    except ValueError as error:
        raise InputError(
            f"{text!r} is no network; write an address, such as 203.0.113.7, or a private "
            "network, such as 10.8.0.0/16."
        ) from error
    if network.num_addresses > 1 and is_public([str(network)]):
        raise InputError(
            f"{text} is public and more than one address; let in this computer alone (/32)."
        )
    return network


def is_public(doors: Sequence[str]) -> bool:
    """Tell whether ssh comes through the internet, so that nodes are reached there too."""
    return any(not _is_private(ipaddress.ip_network(door)) for door in doors)


def _is_private(network: Network) -> bool:
    return any(
        network.version == private.version and network.subnet_of(private)  # type: ignore[arg-type]  # one version
        for private in PRIVATE
    )
