"""Host files are read in every form that mpiexec reads; errors name the line."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.world.hostfile import hosts_text, parse_hosts
from workbench.core.world.world import Host
from workbench.errors import InputError

PROFILE = settings(derandomize=True, deadline=None, max_examples=200)


@pytest.mark.parametrize(
    ("line", "host"),
    [
        ("172.31.41.13 slots=1", Host("172.31.41.13", 1)),
        ("172.31.41.13 cpu=2", Host("172.31.41.13", 2)),
        ("172.31.41.13", Host("172.31.41.13", 0)),
        ("node-1.example.com   slots=4   # the big one", Host("node-1.example.com", 4)),
        ("node1 slots=2 max_slots=4", Host("node1", 2)),
        ("node1 max-slots=4", Host("node1", 4)),
        ("node1:4", Host("node1", 4)),
        ("node1:2222 slots=4", Host("node1", 4, port=2222)),
        ("ec2-user@node1 slots=4", Host("node1", 4, "ec2-user")),
        ("me@node1:2222", Host("node1", 0, "me", 2222)),
        ("me@node1:2222 slots=4", Host("node1", 4, "me", 2222)),
        ("fe80::1%eth0 slots=2", Host("fe80::1%eth0", 2)),
        ("[fd00::2]:4", Host("fd00::2", 4)),
        ("me@[fd00::2]:22 slots=2", Host("fd00::2", 2, "me", 22)),
    ],
)
def test_a_line_names_a_host(line, host) -> None:
    assert parse_hosts(line) == (host,)


def test_hosts_keep_their_order_and_comments_are_passed_over() -> None:
    text = "# my lab\n\n b slots=1\r\n\ta slots=2 # fast\n"

    assert parse_hosts(text) == (Host("b", 1), Host("a", 2))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a\nb slots=none", "Line 2: slots must be a whole number from 1 to 4096, not 'none'"),
        ("a slots=0", "not '0'"),
        ("a slots=-1", "not '-1'"),
        ("a slots=99999", "not '99999'"),
        ("a slots=", "not ''"),
        ("a gpus=2", "'gpus=2' is not a known setting"),
        ("a slots 4", "'slots' is not a known setting"),
        ("a slots=2 cpu=3", "slots=2 cpu=3 contradict each other"),
        ("a:", "slots must be a whole number"),
        ("me@a:99999", "port must be a whole number from 1 to 65535"),
        ("@a", "'' is not a user name"),
        ("me you@a", "'you@a' is not a known setting"),
        ("-oProxyCommand=x slots=1", "'-oProxyCommand=x' is not a host address"),
        ("-x@a slots=1", "'-x' is not a user name"),
        ("172.31.41 slots=1", "'172.31.41' is not a host address"),
        ("10.0.0.300", "'10.0.0.300' is not a host address"),
        ("fd00::zz", "'fd00::zz' is not an IPv6 address"),
        ("fe80::1%$(x)", "'fe80::1%$(x)' is not an IPv6 address"),
        ("fe80::1%`x`", "'fe80::1%`x`' is not an IPv6 address"),
        ("[fe80::1%]:2222", "'fe80::1%' is not an IPv6 address"),
        ("fe80::1%a%b", "'fe80::1%a%b' is not an IPv6 address"),
        (f"fe80::1%{'e' * 16}", f"'fe80::1%{'e' * 16}' is not an IPv6 address"),
        ("a,b", "'a,b' is not a host address"),
        ("a slots=1\n\na slots=2", "Line 3: a is already in line 1"),
        ("you@a\nme@a", "Line 2: a is already in line 1"),
    ],
)
def test_a_line_that_is_wrong_is_refused_with_its_number(text, words) -> None:
    with pytest.raises(InputError) as refused:
        parse_hosts(text)

    assert words in str(refused.value)
    assert str(refused.value).startswith("Line ")
    assert "\n" not in str(refused.value)


addresses = st.one_of(
    st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?(\.[a-z0-9]{1,5})?", fullmatch=True),
    st.ip_addresses().map(str),
)
hosts = st.builds(
    Host,
    addresses,
    st.integers(1, 4096),
    st.one_of(st.just(""), st.from_regex(r"[a-z_][a-z0-9-]{0,8}", fullmatch=True)),
    st.one_of(st.just(0), st.integers(1, 65535)),
)


@PROFILE
@given(st.lists(hosts, unique_by=lambda host: host.address, max_size=5).map(tuple))
def test_what_is_written_is_read_back_the_same(listed) -> None:
    assert parse_hosts(hosts_text(listed)) == listed


@PROFILE
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_in_one_sentence(text) -> None:
    read, sentence = (), ""

    try:
        read = parse_hosts(text)
    except InputError as error:
        sentence = str(error)

    assert "\n" not in sentence
    assert len({host.address for host in read}) == len(read)
    assert all(":" not in host.address or ipaddress.ip_address(host.address) for host in read)
