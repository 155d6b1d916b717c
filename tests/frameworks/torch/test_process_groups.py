"""What accelerate keeps of the ranks lasts for as long as it is right."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from workbench.frameworks.accelerate import AccelerateFramework, wrap_accelerator
from workbench.frameworks.torch.framework import TorchFramework


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

    module: Any = ModuleType("accelerate.accelerator")
    module.Accelerator = Accelerator
    wrap_accelerator(module)
    if not is_there:
        kept.destroy()

    assert bool(module.Accelerator().found) is is_there
