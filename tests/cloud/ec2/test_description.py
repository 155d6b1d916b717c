from __future__ import annotations

import pytest

from workbench.cloud.ec2.description import check_ssh_source, is_public, parse_ssh_sources
from workbench.errors import InputError


@pytest.mark.parametrize(
    ("text", "network", "public"),
    [
        ("203.0.113.7", "203.0.113.7/32", True),
        ("8.8.8.8/32", "8.8.8.8/32", True),
        ("10.8.0.9/16", "10.8.0.0/16", False),
        ("172.31.4.5", "172.31.4.5/32", False),
        ("100.64.3.2", "100.64.3.2/32", False),
        ("203.0.113.9/24", "203.0.113.0/24", True),
    ],
)
def test_a_door_is_an_address_a_pool_of_them_or_a_private_network(text, network, public):
    assert str(check_ssh_source(text)) == network
    assert is_public([network]) is public


@pytest.mark.parametrize("text", ["0.0.0.0/0", "203.0.112.0/23", "10.0.0.0/7", "::/0", "here", ""])
def test_what_lets_in_strangers_or_no_one_is_refused(text):
    with pytest.raises(InputError):
        check_ssh_source(text)


@pytest.mark.parametrize("text", ["2001:db8::1", "fd00:1::/32"])
def test_ipv6_is_refused_as_nodes_are_reached_by_ipv4(text):
    with pytest.raises(InputError, match="curl -4"):
        check_ssh_source(text)


def test_several_doors_are_separated_by_commas_and_auto_is_looked_up_later():
    assert parse_ssh_sources("203.0.113.7, auto,10.8.0.9/16,203.0.113.7") == (
        "203.0.113.7/32",
        "auto",
        "10.8.0.0/16",
    )
    assert is_public(["auto"])
    with pytest.raises(InputError, match="'nowhere' is not a network"):
        parse_ssh_sources("auto,nowhere")
