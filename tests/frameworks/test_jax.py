"""What JAX has joined lasts for as long as it is right."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from workbench.core.world.world import torch_environment
from workbench.engine.run_context import set_current
from workbench.frameworks.jax import JaxRanks, offer_ranks


class State:
    """What stands for JAX's own, which has begun on two ranks."""

    client: object | None = None
    num_processes = 1

    is_broken = False

    def __init__(self) -> None:
        self.client, self.num_processes = object(), 2

    def shutdown(self) -> None:
        if self.is_broken:
            raise RuntimeError("a task has died")
        self.client = None


class Joined:
    """What stands for JAX: its processes, and whether it has devices."""

    def __init__(self) -> None:
        self.state, self.has_devices = State(), True

    def clear(self) -> None:
        self.has_devices = False

    @property
    def stays(self) -> bool:
        assert (self.state.client is not None) is self.has_devices
        return self.has_devices


@pytest.fixture
def joined(monkeypatch) -> Joined:
    made = Joined()
    modules: dict[str, Any] = {
        "jax._src.distributed": SimpleNamespace(global_state=made.state),
        "jax._src.xla_bridge": SimpleNamespace(backends_are_initialized=lambda: made.has_devices),
        "jax.extend.backend": SimpleNamespace(clear_backends=made.clear),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return made


@pytest.mark.parametrize(
    ("size", "is_script", "stays"), [(2, False, True), (1, False, False), (2, True, False)]
)
def test_a_cell_on_as_many_ranks_finds_what_an_earlier_one_joined(
    joined: Joined, size: int, is_script: bool, stays: bool
) -> None:
    JaxRanks().begin_run(size, is_script=is_script)

    assert joined.stays is stays
    assert joined.state.num_processes == 1 + stays


def test_a_script_begins_as_one_process_where_the_last_has_only_ended_its_service(
    joined: Joined,
) -> None:
    joined.state.shutdown()

    JaxRanks().begin_run(2, is_script=True)

    assert joined.state.num_processes == 1


def test_a_rank_that_misses_a_run_keeps_the_devices_that_it_has_alone(joined: Joined) -> None:
    joined.state.client, joined.state.num_processes = None, 1

    JaxRanks().leave()

    assert joined.has_devices


@pytest.mark.parametrize("is_new", [True, False])
def test_joining_begins_again_in_another_run_and_not_in_the_same(
    joined: Joined, current_run, is_new: bool
) -> None:
    ranks = JaxRanks()
    joined.has_devices = is_new
    ranks.begin_run(2, is_script=False)
    joined.has_devices = True  # in the same run, JAX refuses what came too late

    ranks.beginning(lambda: None)()

    assert joined.has_devices is not is_new


def test_a_service_whose_rank_has_failed_is_forgotten(joined: Joined) -> None:
    joined.state.is_broken = True

    JaxRanks().begin_run(2, is_script=True)

    assert not joined.stays


def test_ranks_are_found_before_other_surroundings_and_only_in_a_run(
    current_run, monkeypatch
) -> None:
    class ClusterEnv:
        _cluster_types: list[Any] = ["slurm"]  # noqa: RUF012  # JAX's own is a list, too

        def __init_subclass__(cls) -> None:
            cls._cluster_types.append(cls)

    package: Any = ModuleType("jax._src.clusters")
    package.ClusterEnv = ClusterEnv
    for name, value in torch_environment(3, [0, 0, 1, 1], "node0", 12_345).items():
        monkeypatch.setenv(name, value)

    offer_ranks(package)
    ours, other = ClusterEnv._cluster_types

    assert other == "slurm"
    assert ours.is_env_present()
    assert ours.get_coordinator_address(300, None) == "node0:12345"
    assert ours.get_coordinator_address(300, "8476") == "node0:8476"
    assert (ours.get_process_count(), ours.get_process_id()) == (4, 3)
    assert ours.get_local_process_id() == 1
    set_current(None)
    assert not ours.is_env_present()
