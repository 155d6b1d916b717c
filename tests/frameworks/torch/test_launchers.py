"""Launchers of processes call their function on the ranks that there are, or say why not."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from multiprocessing import Pipe
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from workbench.engine.run_context import RunContext
from workbench.errors import InputError
from workbench.frameworks import accelerate, lightning
from workbench.frameworks.torch import launchers
from workbench.frameworks.torch.launchers import begins_group
from workbench.frameworks.torch.process_groups import groups

WORLD = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "4711"}
init_process_group: Any = None  # as PyTorch's name in a program


def setup() -> None:
    init_process_group("gloo")


def train(rank: int, *args: Any) -> None:
    calls.append((rank, *args))
    if rank < 0:
        setup()


def compute(rank: int) -> None:
    calls.append((rank,))


class Program:
    """A program whose parts are methods."""

    def __call__(self, rank: int) -> None:
        self.begin()

    def begin(self) -> None:
        setup()


calls: list[tuple[Any, ...]] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    calls.clear()


@pytest.fixture
def spawn(current_run: RunContext, monkeypatch) -> Callable[..., Any]:
    """PyTorch's launcher on rank 1 of 2, which counts what it starts."""
    current_run.world = dict(WORLD)

    def start(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
        return f"started {nprocs}"

    module = ModuleType("torch.multiprocessing.spawn")
    package = SimpleNamespace(start_processes=start)
    module.start_processes = start
    monkeypatch.setitem(sys.modules, module.__name__, module)
    launchers.wrap_spawn(package)
    assert package.start_processes is module.start_processes
    return module.start_processes


@pytest.mark.parametrize(
    "function",
    [
        setup, train, functools.partial(train, 1), Program(), Program().begin, Program,
        lambda rank: setup(), lambda rank: [Program() for _ in range(2)],
    ],
)  # fmt: skip
def test_a_function_that_begins_a_group_is_known_by_its_code(function) -> None:
    assert begins_group(function)


@pytest.mark.parametrize("function", [compute, len, dict, lambda rank: os.path.join("a"), 3])
def test_a_function_that_begins_none_is_known_too(function) -> None:
    assert not begins_group(function)


def test_a_function_that_would_begin_a_group_is_called_here_as_this_rank(spawn) -> None:
    assert spawn(train, (2, "data"), nprocs=2) is None

    assert calls == [(1, 2, "data")]


def test_a_launcher_that_does_not_wait_returns_what_has_ended(spawn) -> None:
    assert spawn(train, nprocs=2, join=False).join()


def test_an_exit_of_the_function_is_the_end_of_its_process_alone(spawn) -> None:
    spawn(lambda rank: (sys.exit(), setup()), nprocs=2)

    with pytest.raises(SystemExit):
        spawn(lambda rank: (sys.exit(3), setup()), nprocs=2)


def test_another_number_of_processes_is_refused_in_one_sentence(spawn) -> None:
    with pytest.raises(InputError) as caught:
        spawn(train, nprocs=4)

    assert str(caught.value) == (
        "mp.spawn is to train by 4 processes, and 2 ranks are there; "
        "give nprocs=2, or run it on --ranks 4."
    )


def test_a_queue_is_refused_that_is_to_be_read_beside_the_function(spawn) -> None:
    reader, writer = Pipe()
    with reader, writer, pytest.raises(InputError, match="gives train a Connection, which ranks"):
        spawn(train, (writer,), nprocs=2)


def test_workers_without_a_group_are_started_as_before(spawn) -> None:
    assert spawn(compute, nprocs=3) == "started 3"
    assert calls == []


def test_one_rank_starts_processes_of_its_own_and_says_so(spawn, current_run, capsys) -> None:
    current_run.world = {**WORLD, "RANK": "0", "WORLD_SIZE": "1"}

    assert spawn(train, nprocs=2) == "started 2"
    assert "beside this rank, without a curve; with --ranks 2" in capsys.readouterr().err


def test_outside_of_ranks_nothing_changes(spawn, current_run) -> None:
    current_run.world = {}

    assert spawn(train, nprocs=2) == "started 2"


def test_the_functions_group_is_met_at_the_ranks_own_address(
    spawn, current_run, monkeypatch
) -> None:
    monkeypatch.setitem(
        sys.modules, "torch.distributed", SimpleNamespace(is_initialized=lambda: False)
    )
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "its own")
    begun = []
    begin = groups.beginning(lambda *args, **kwargs: begun.append((args, kwargs)))

    def function(rank: int) -> None:
        begin("gloo", init_method="tcp://localhost:12355", rank=rank, world_size=2)
        begin("gloo", "tcp://localhost:12355")
        setup.__name__  # noqa: B018  # leads to the group

    spawn(function, nprocs=2)

    assert begun == [
        (("gloo",), {"init_method": "env://", "rank": 1, "world_size": 2}),
        (("gloo", "env://"), {}),
    ]
    assert os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] == ("10.0.0.1", "4711")


def test_accelerates_launcher_calls_its_function_with_its_precision(
    current_run, monkeypatch
) -> None:
    current_run.world = dict(WORLD)
    monkeypatch.delenv("ACCELERATE_MIXED_PRECISION", raising=False)

    def notebook_launcher(function, args=(), num_processes=None, mixed_precision="no"):
        raise AssertionError("it would start processes")

    module = SimpleNamespace(notebook_launcher=notebook_launcher)
    accelerate.wrap_launchers(module)

    def function(*args: Any) -> None:
        calls.append((*args, os.environ.get("ACCELERATE_MIXED_PRECISION")))

    module.notebook_launcher(function, (1,), num_processes=8, mixed_precision="bf16")
    module.notebook_launcher(function)

    assert calls == [(1, "bf16"), (None,)]


def strategy(processes: int, method: str = "fork") -> tuple[Any, list[str]]:
    configured = []

    class DDPStrategy:
        num_nodes, num_processes, _start_method = 1, processes, method

        def _configure_launcher(self) -> None:
            configured.append(self._start_method)

    lightning.wrap_strategy(SimpleNamespace(DDPStrategy=DDPStrategy))
    return DDPStrategy(), configured


@pytest.mark.parametrize("method", ["fork", "spawn", "popen"])
def test_lightning_trains_on_the_ranks(current_run, method) -> None:
    current_run.world = dict(WORLD)
    made, configured = strategy(2, method)

    made._configure_launcher()

    assert configured == ["popen"]


def test_lightning_is_not_left_waiting_for_processes_that_never_come(current_run) -> None:
    current_run.world = dict(WORLD)
    made, _ = strategy(4)

    with pytest.raises(InputError, match=r"4 processes, and 2 ranks are there; give devices=2, or"):
        made._configure_launcher()


ALL = {"devices": 2, "num_nodes": 2}


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ({}, {**ALL, "strategy": "ddp"}),
        ({"devices": 8}, {**ALL, "strategy": "ddp"}),
        ({"devices": "auto", "strategy": "ddp_notebook"}, {**ALL, "strategy": "ddp_notebook"}),
        ({"devices": 1, "num_nodes": 3}, {**ALL, "strategy": "ddp"}),
        ({"devices": 1}, {"devices": 1}),
    ],
)
def test_a_trainer_of_lightning_uses_the_ranks_that_there_are(current_run, given, used) -> None:
    sizes = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "GROUP_WORLD_SIZE": "2"}
    current_run.world = {**WORLD, **sizes}

    lightning.use_ranks(current_run, given, lambda: "the ranks")

    assert given.pop("plugins", ["the ranks"]) == ["the ranks"]
    assert given == used


def test_ranks_that_share_a_gpu_have_no_more_devices_than_there_are(current_run) -> None:
    current_run.world, given = {**WORLD, "LOCAL_WORLD_SIZE": "2"}, dict[str, Any]()

    lightning.use_ranks(current_run, given, object, gpus=1)

    assert (given["devices"], given["num_nodes"]) == (1, 1)


def test_a_trainer_that_wants_other_ranks_says_so(current_run, capsys) -> None:
    current_run.world = {**WORLD, "RANK": "0", "LOCAL_WORLD_SIZE": "2"}

    lightning.use_ranks(current_run, {"devices": 4}, object)

    said = "workbench: Lightning trains on the 2 ranks of this run, in place of 4.\n"
    assert capsys.readouterr().err == said
