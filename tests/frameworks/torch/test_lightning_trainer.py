"""A fit of Lightning's Trainer says before it trains why it cannot be saved; its batches are those
of the first ranks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from workbench.engine.run_context import RunContext

torch = pytest.importorskip("torch", reason="torch is an extra that the tests do without")
lightning = pytest.importorskip("lightning", reason="lightning is no requirement")
pytestmark = pytest.mark.torch

from lightning.pytorch import callbacks  # noqa: E402  # it may be absent
from lightning.pytorch.plugins.environments import LightningEnvironment  # noqa: E402  # it may be absent
from torch.utils.data import (  # noqa: E402  # it may be absent
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
)

from workbench.frameworks.lightning_trainer import LightningTrainer  # noqa: E402  # it may be absent
from workbench.frameworks.torch.common_batches import (  # noqa: E402  # it may be absent
    CommonBatches,
    common_batches_of,
    has_order,
)


class Trainer(lightning.Trainer):
    """A user's own."""


def make_trainer(**given: Any) -> Any:
    environment = LightningEnvironment()
    return Trainer(accelerator="cpu", devices=1, logger=False, plugins=[environment], **given)


class Finetuning(callbacks.BaseFinetuning):
    """Changes the optimizer, by a class of the user's own."""


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, ""),
        ({"callbacks": [callbacks.EarlyStopping("loss")]}, ""),
        ({"strategy": "ddp_find_unused_parameters_true"}, ""),
        ({"reload_dataloaders_every_n_epochs": 2}, "its data is loaded again after some epochs"),
        ({"callbacks": [Finetuning()]}, "its Finetuning changes the optimizer's parameters"),
        (
            {"callbacks": [callbacks.StochasticWeightAveraging(0.1)]},
            "its StochasticWeightAveraging replaces the scheduler",
        ),
        ({"callbacks": [callbacks.BatchSizeFinder()]}, "its BatchSizeFinder looks for a batch"),
    ],
)
def test_a_fit_that_cannot_be_saved_says_why(current_run: RunContext, given, why) -> None:
    trainer = make_trainer(**given)
    current_run.world = {"WORLD_SIZE": "1"}
    module = SimpleNamespace(automatic_optimization=True)

    found = LightningTrainer(trainer, current_run).why_refused(module)

    assert found.startswith(why)
    assert bool(found) == bool(why)


def test_ranks_that_train_alone_are_not_saved(current_run: RunContext) -> None:
    trainer = make_trainer()
    current_run.world = {"WORLD_SIZE": "2"}
    module = SimpleNamespace(automatic_optimization=True)

    found = LightningTrainer(trainer, current_run).why_refused(module)

    assert found == "each rank trains alone (devices=1)"


def test_a_release_that_was_not_tried_is_not_saved(current_run: RunContext, monkeypatch) -> None:
    trainer = make_trainer()
    current_run.world = {"WORLD_SIZE": "1"}
    monkeypatch.setattr("importlib.metadata.version", lambda _: "2.7.0")

    found = LightningTrainer(trainer, current_run).why_refused(SimpleNamespace())

    assert found == "Lightning 2.7.0 was not tried, only 2.6"


def take(loader: Any, place: tuple[int, int] = (0, 1), **given: Any) -> CommonBatches | str:
    wanted = {"accumulated": 1, "ranks": 2, "seed": 5, **given}
    return common_batches_of(loader, place=place, **wanted)


def flat(batches: Any) -> list[int]:
    return [number for batch in batches for number in batch]


def test_an_update_has_the_examples_that_lightning_gives_the_first_ranks() -> None:
    loader = DataLoader(range(24), batch_size=4, shuffle=True)
    shares = []
    for rank in range(2):
        sampler = DistributedSampler(range(24), 2, rank, seed=5)
        sampler.set_epoch(3)
        shares.append([*BatchSampler(sampler, 4, drop_last=False)])
    wanted = [sorted(first + second) for first, second in zip(*shares, strict=True)]

    for size in (1, 2, 3):
        found = [take(loader, (rank, size)) for rank in range(size)]
        for one in found:
            one.set_epoch(3)
        parts = found[0].parts
        batches = [[*one] for one in found]
        updates = [
            sorted(flat(flat(each[n : n + parts] for each in batches)))
            for n in range(0, len(batches[0]), parts)
        ]
        assert updates == wanted


@pytest.mark.parametrize(("limit", "examples"), [(2, 16), (9, 24), (1.0, 24), (0.5, 8), (1, 8)])
def test_a_limit_is_one_of_the_first_ranks(limit, examples) -> None:
    found = take(DataLoader(range(24), batch_size=4, shuffle=True), limit=limit)

    assert len(set(flat(found))) == found.examples == examples


def test_a_part_of_an_epoch_without_a_batch_is_named() -> None:
    why = "the part of its data that an epoch uses is no whole batch"

    assert take(DataLoader(range(24), batch_size=4), limit=0.1) == why


def test_examples_have_an_order_unless_ranks_draw_or_divide_them() -> None:
    data = range(24)

    assert has_order(DataLoader(data, batch_size=4))
    assert not has_order(DataLoader(data, batch_size=4, shuffle=True))
    assert not has_order(DataLoader(data, sampler=DistributedSampler(data, 2, 0)))
    assert not has_order([1, 2])


class Rebalancing(DistributedSampler):
    """Divides the data in a way of its own."""


@pytest.mark.parametrize(
    ("loader", "why"),
    [
        ([1, 2], "its data is no DataLoader"),
        (DataLoader(range(8), batch_size=None), "its loader makes no batches (batch_size=None)"),
        (
            DataLoader(range(8), sampler=Rebalancing(range(8), 2, 0)),
            "its Rebalancing divides the data by ranks itself",
        ),
    ],
)
def test_data_without_a_common_order_is_named(loader, why) -> None:
    assert take(loader) == why


def test_a_sampler_of_its_own_draws_the_same_on_all_ranks() -> None:
    sampler = RandomSampler(range(8), replacement=True, num_samples=16)
    loader = DataLoader(range(8), batch_size=8, sampler=sampler)
    first = flat(take(loader, (0, 1)))
    sampler.generator = None

    assert flat(take(loader, (0, 1))) == first
    assert flat(take(DataLoader(range(8), batch_size=4))) == [*range(8)]
    assert isinstance(take(DataLoader(range(8))).sampler, SequentialSampler)
