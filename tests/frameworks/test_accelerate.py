"""What accelerate prepares is given to any number of ranks, or named before it is trained on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

import workbench
from workbench.core.run.run_options import BATCH_VARIABLE
from workbench.errors import InputError

torch: Any = pytest.importorskip("torch", reason="torch is an extra that the tests do without")
accelerate: Any = pytest.importorskip("accelerate", reason="accelerate is no requirement")
pytestmark = pytest.mark.torch

EXAMPLES = 10


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Accelerate begins on this process, and forgets it again."""
    from workbench.frameworks.accelerate import reset_state

    reset_state()
    yield
    reset_state()


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(EXAMPLES))


def loader(data: Any = None, **given: Any) -> Any:
    data = torch.arange(EXAMPLES) if data is None else data
    return torch.utils.data.DataLoader(data, 4, **given)


def accelerator(**given: Any) -> Any:
    return accelerate.Accelerator(cpu=True, **given)


def prepare(loader: Any, **configuration: Any) -> Any:
    how = accelerate.DataLoaderConfiguration(**configuration)
    return accelerator(dataloader_config=how).prepare(loader)


def loop_data(loader: Any) -> Any:
    from workbench.frameworks.accelerate import AccelerateFramework

    return AccelerateFramework().loop_data(loader)


def test_one_rank_that_reads_for_all_is_named() -> None:
    with pytest.raises(InputError, match="one rank reads the data of all"):
        loop_data(prepare(loader(), dispatch_batches=True))


@pytest.mark.parametrize("dispatches", [False, None])
def test_a_stream_is_read_by_each_rank(dispatches) -> None:
    given = prepare(torch.utils.data.DataLoader(Stream(), 4), dispatch_batches=dispatches)

    data = loop_data(given)

    assert [data.give()[0].tolist() for _ in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("data", [torch.arange(EXAMPLES), Stream()])
def test_batches_that_are_left_out_are_named(data) -> None:
    with pytest.raises(InputError, match="skip_first_batches"):
        loop_data(accelerate.skip_first_batches(prepare(loader(data)), 1))


def test_a_step_is_an_update_where_gradients_are_accumulated() -> None:
    own = accelerator(gradient_accumulation_steps=2)
    loop = workbench.elastic({}, data=own.prepare(loader()), epochs=2)

    found = []
    for step in loop:
        with own.accumulate(torch.nn.Linear(1, 1)):
            found.append((int(step), step.batch.tolist(), own.sync_gradients))

    assert found[:3] == [(0, [0, 1, 2, 3], False), (0, [4, 5, 6, 7], True), (1, [8, 9], True)]
    assert [step for step, *_ in found[3:]] == [2, 2, 3]
    assert loop.step == 4


@pytest.mark.parametrize("counted", [0, 1])
def test_batches_that_accelerate_counts_otherwise_are_named(counted) -> None:
    own = accelerator(gradient_accumulation_steps=2)
    data = own.prepare(loader())
    for _ in range(counted):  # of an update that was begun before the loop
        with own.accumulate():
            pass

    def train() -> None:
        for _ in workbench.elastic({}, data=data, epochs=1):
            with own.accumulate() if counted else nullcontext():
                pass

    with pytest.raises(InputError, match="it has not counted batch 1 of this update"):
        train()


def test_an_update_that_reaches_over_the_end_of_an_epoch_is_named() -> None:
    plugin = accelerate.utils.GradientAccumulationPlugin(2, sync_with_dataloader=False)

    with pytest.raises(InputError, match="reach over the end of an epoch"):
        loop_data(accelerator(gradient_accumulation_plugin=plugin).prepare(loader()))


def test_a_batch_of_each_rank_is_named(monkeypatch) -> None:
    monkeypatch.setenv(BATCH_VARIABLE, "per-rank")

    with pytest.raises(InputError, match="--keep-batch per-rank cannot be kept"):
        loop_data(prepare(loader()))


def test_a_sampler_that_divides_the_data_in_its_own_way_is_named() -> None:
    class Own(torch.utils.data.DistributedSampler):
        pass

    own = Own(range(EXAMPLES), num_replicas=2, rank=0)

    with pytest.raises(InputError, match="its Own divides the data by ranks itself"):
        loop_data(prepare(loader(sampler=own)))


@pytest.mark.parametrize("splits", [False, True])
def test_a_distributed_sampler_gives_each_example_once_in_its_order(splits) -> None:
    found = []
    for rank in (0, 1):
        own = torch.utils.data.DistributedSampler(range(EXAMPLES), 2, rank, seed=3)
        data = loop_data(prepare(loader(sampler=own), split_batches=splits))
        data._loader.set_epoch(1)
        found.append(torch.cat([*data._loader]).tolist())

    generator = torch.Generator().manual_seed(3 + 1)
    assert found == [torch.randperm(EXAMPLES, generator=generator).tolist()] * 2
