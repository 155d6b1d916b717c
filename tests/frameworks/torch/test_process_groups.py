"""What accelerate keeps of the ranks lasts for as long as it is right."""

from __future__ import annotations

import socket
import sys
import threading
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from workbench.core.fleet.connection_limits import NETWORK_VARIABLE
from workbench.frameworks.accelerate import AccelerateFramework, wrap_accelerator
from workbench.frameworks.torch.framework import TorchFramework
from workbench.frameworks.torch.process_groups import GroupSockets


class Kept:
    """What stands for accelerate, which began on two ranks."""

    def __init__(self) -> None:
        self.group: int | None = 2
        self.ranks = {"num_processes": 2, "backend": "gloo"}
        self.accumulation: dict[str, Any] = {"num_steps": 1}

    def destroy(self) -> None:
        self.group = None


@pytest.fixture
def kept(monkeypatch) -> Kept:
    made = Kept()
    modules: dict[str, Any] = {
        "torch.distributed": SimpleNamespace(
            is_initialized=lambda: made.group is not None,
            get_world_size=lambda: made.group,
            destroy_process_group=made.destroy,
        ),
        "accelerate.state": SimpleNamespace(
            PartialState=SimpleNamespace(_shared_state=made.ranks),
            GradientState=SimpleNamespace(_shared_state=made.accumulation),
        ),
    }
    modules["accelerate"] = SimpleNamespace(state=modules["accelerate.state"])
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    AccelerateFramework().install()
    return made


def begin_run(size: int, *, is_script: bool) -> None:
    for one in (AccelerateFramework(), TorchFramework()):
        one.begin_run(size, is_script=is_script)


@pytest.mark.parametrize(
    ("size", "is_script", "stays"), [(2, False, True), (1, False, False), (2, True, False)]
)
def test_a_cell_on_as_many_ranks_finds_what_an_earlier_one_left(
    kept: Kept, size: int, is_script: bool, stays: bool
) -> None:
    begin_run(size, is_script=is_script)

    assert (kept.group is not None) is bool(kept.ranks) is bool(kept.accumulation) is stays


def test_what_one_rank_left_without_a_group_is_not_taken_by_two(kept: Kept) -> None:
    kept.group, kept.ranks["num_processes"] = None, 1

    begin_run(2, is_script=False)

    assert kept.ranks == {}


@pytest.mark.parametrize("is_there", [True, False])
def test_an_accelerator_begins_again_where_its_group_was_destroyed(
    kept: Kept, current_run, is_there: bool
) -> None:
    class Accelerator:
        def __init__(self) -> None:
            self.found = dict(kept.ranks)

        def log(self, values: Any) -> None:
            """Log nothing."""

        def load_state(self, folder: str) -> None:
            """Load nothing."""

    module: Any = ModuleType("accelerate.accelerator")
    module.Accelerator = Accelerator
    wrap_accelerator(module)
    if not is_there:
        kept.destroy()

    assert bool(module.Accelerator().found) is is_there


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


def test_a_client_waits_until_the_other_store_listens() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        where = listener.getsockname()
        begins = threading.Timer(0.2, listener.listen)
        begins.start()

        GroupSockets({}).opening(lambda *_: socket.create_connection(where).close())(None, *where)

        begins.join()


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("127.0.0.1", 0), {"timeout": timedelta(0)}),
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
