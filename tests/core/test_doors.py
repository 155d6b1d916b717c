from __future__ import annotations

import pytest

from workbench.core.doors import check_door, is_public
from workbench.errors import InputError


@pytest.mark.parametrize(
    ("text", "network", "public"),
    [
        ("203.0.113.7", "203.0.113.7/32", True),
        ("8.8.8.8/32", "8.8.8.8/32", True),
        ("10.8.0.9/16", "10.8.0.0/16", False),
        ("172.31.4.5", "172.31.4.5/32", False),
        ("100.64.3.2", "100.64.3.2/32", False),
        ("fd00:1::/32", "fd00:1::/32", False),
        ("2001:db8::1", "2001:db8::1/128", True),
    ],
)
def test_a_door_is_one_address_or_a_private_network(text, network, public):
    assert str(check_door(text)) == network
    assert is_public([network]) is public


@pytest.mark.parametrize("text", ["0.0.0.0/0", "203.0.113.0/24", "10.0.0.0/7", "::/0", "here", ""])
def test_what_lets_in_strangers_or_nobody_is_refused(text):
    with pytest.raises(InputError):
        check_door(text)
