"""PyTorch's groups listen where the ranks of their world are, unless the user says otherwise."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from workbench.core.fleet.connection_limits import NETWORK_VARIABLE
from workbench.frameworks.torch.group_sockets import GroupSockets


def opened(sockets: GroupSockets, *args: Any, **kwargs: Any) -> str:
    """Return where a store's socket is bound; empty if PyTorch is to choose by itself."""
    given: dict[str, Any] = {}
    sockets.opening(lambda store, *a, **k: given.update(k))(object(), *args, **kwargs)
    if given.get("master_listen_fd") is None:
        return ""
    with socket.socket(fileno=given["master_listen_fd"]) as bound:
        return str(bound.getsockname()[0])


def test_gloo_and_nccl_of_a_world_on_one_machine_use_its_loopback() -> None:
    environment: dict[str, str] = {}

    GroupSockets(environment).stay_within(alone=True)

    name = environment["GLOO_SOCKET_IFNAME"]
    assert name in {name for _, name in socket.if_nameindex()}
    assert environment["NCCL_SOCKET_IFNAME"] == f"={name}"


def test_those_of_several_hosts_use_the_interface_in_the_hosts_network() -> None:
    environment = {NETWORK_VARIABLE: "127.0.0.0/30"}

    GroupSockets(environment).stay_within(alone=False)

    assert environment["GLOO_SOCKET_IFNAME"] in {name for _, name in socket.if_nameindex()}


@pytest.mark.parametrize("network", ["", "203.0.113.128/32"], ids=["no", "another"])
def test_without_an_address_in_the_hosts_network_nothing_is_chosen(network: str) -> None:
    environment = {NETWORK_VARIABLE: network}

    GroupSockets(environment).stay_within(alone=False)

    assert environment == {NETWORK_VARIABLE: network}


def test_what_the_user_has_set_stays() -> None:
    environment = {"GLOO_SOCKET_IFNAME": "eth7", "NCCL_SOCKET_IFNAME": "eth8"}

    GroupSockets(environment).stay_within(alone=True)

    assert environment == {"GLOO_SOCKET_IFNAME": "eth7", "NCCL_SOCKET_IFNAME": "eth8"}


def test_a_store_listens_at_its_own_address() -> None:
    sockets = GroupSockets({})

    assert opened(sockets, "127.0.0.1", 0, 2, True) == "127.0.0.1"
    assert opened(sockets, host_name="127.0.0.1", port=0, is_master=True) == "127.0.0.1"


def test_a_name_is_looked_up_only_where_all_ranks_are_on_this_machine() -> None:
    several, alone = GroupSockets({}), GroupSockets({})
    alone.stay_within(alone=True)

    assert opened(several, "localhost", 0, is_master=True) == ""
    assert opened(alone, "localhost", 0, is_master=True) in ("127.0.0.1", "::1")


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("127.0.0.1", 0), {}),
        (("203.0.113.1", 0), {"is_master": True}),
        ((None, None), {"is_master": True}),
        (("127.0.0.1", "no port"), {"is_master": True}),
    ],
    ids=["client", "address of another machine", "no address", "wrong port"],
)
def test_any_other_store_is_opened_as_it_was_asked_for(args: Any, kwargs: Any) -> None:
    seen: list[Any] = []

    GroupSockets({}).opening(lambda store, *a, **k: seen.append((a, k)))(None, *args, **kwargs)

    assert seen == [(args, kwargs)]
