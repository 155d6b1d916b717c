"""Validate the network from which nodes accept ssh: one public address, or a private network."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from ipaddress import IPv4Network

from workbench.errors import InputError

# Not Python's ``is_private``: that includes the addresses of examples, and not the shared addresses
# of VPNs.
PRIVATE = tuple(
    IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
)


def check_ssh_source(text: str) -> IPv4Network:
    """Return the network that may use ssh; a single address is a network of one.

    Raises:
        InputError: It is invalid, of IPv6, or public with more than one address.
    """
    try:
        network = ipaddress.ip_network(text.strip(), strict=False)
    except ValueError as error:
        raise InputError(
            f"{text!r} is not a network",
            "write an address, such as 203.0.113.7, or a private network, such as 10.8.0.0/16.",
        ) from error
    if not isinstance(network, IPv4Network):
        raise InputError(
            f"{text} is an IPv6 address, and nodes are reached by IPv4",
            "name this computer's IPv4 "
            "address (`curl -4 https://checkip.amazonaws.com` prints it).",
        )
    if network.num_addresses > 1 and is_public([str(network)]):
        raise InputError(
            f"{text} is public and more than one address", "allow this computer alone (/32)."
        )
    return network


def is_public(ssh_sources: Sequence[str]) -> bool:
    """Return whether ssh comes over the internet, so that nodes need public addresses."""
    return any(not _is_private(ssh_source) for ssh_source in ssh_sources)


def _is_private(ssh_source: str) -> bool:
    network = ipaddress.ip_network(ssh_source)
    return isinstance(network, IPv4Network) and any(map(network.subnet_of, PRIVATE))
