"""Any number of ranks reads a stream, each example once in an epoch, and continues at its place."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from workbench.errors import InputError

torch: Any = pytest.importorskip("torch", reason="torch is an extra that the tests do without")
pytestmark = pytest.mark.torch

from torch.utils.data import DataLoader, IterableDataset, Sampler  # noqa: E402  # it may be absent

from workbench.frameworks.torch import common_stream  # noqa: E402  # it may be absent
from workbench.frameworks.torch.common_stream import (  # noqa: E402  # it may be absent
    CHANGED,
    StreamedBatches,
    find_stream,
    take_stream,
)
from workbench.frameworks.torch.data import LoaderData, loader_data  # noqa: E402  # it may be absent

EXAMPLES = 46
TOTAL = 8


class Silent(IterableDataset):
    """Says nothing of its place; each epoch has another order, of random numbers."""

    def __iter__(self) -> Iterator[Any]:
        for number in torch.randperm(EXAMPLES).tolist():
            yield number, random.random(), np.random.rand()


class Placed(Silent):
    """Says its place, and counts what it reads from its beginning."""

    def __init__(self) -> None:
        self.epoch = self.position = 0
        self.begun: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        generator = torch.Generator().manual_seed(self.epoch)
        order = torch.randperm(EXAMPLES, generator=generator).tolist()
        self.begun.append(self.position)
        while self.position < EXAMPLES:
            self.position += 1
            yield order[self.position - 1], random.random(), torch.rand(3)

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]


class Buffered(Placed):
    """Shuffles by a buffer, and loses that where it continues."""

    def __iter__(self) -> Iterator[Any]:
        draw, held, kept = random.Random(self.epoch), [], super().__iter__()
        for one in itertools.chain(kept, [None] * 5):
            held.append(one)
            if len(held) > 5:
                found = held.pop(draw.randrange(len(held)) if one is not None else 0)
                if found is not None:
                    yield found


class Changing(Placed):
    """Has another order each time, and a state that does not help."""

    def __iter__(self) -> Iterator[Any]:
        numbers = [*range(EXAMPLES)]
        random.SystemRandom().shuffle(numbers)
        return iter((number,) for number in numbers)


class Endless(Sampler[int]):
    """A sampler that has no length."""

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(EXAMPLES).tolist())


def take(
    size: int, rank: int, data: Any = None, most: int = 2, drop_last: bool = False, limit: int = 0
) -> tuple[Any, StreamedBatches]:
    loader = DataLoader(data or Placed(), 4, collate_fn=list)
    stream = find_stream(loader.dataset, loader.batch_sampler)
    torch.manual_seed(7)
    found = take_stream(loader, stream, most, TOTAL, (rank, size), drop_last, limit=limit)
    assert not isinstance(found, str), found
    return found


class Attempt:
    """Some ranks in one process, which train update by update."""

    def __init__(self, size: int, saved: Any = None, **given: Any) -> None:
        taken = [take(size, rank, **given) for rank in range(size)]
        self.batches = [batches for _, batches in taken]
        for one in self.batches:
            one.continues = True
        self.said = [one.set_place(saved) for one in self.batches if saved is not None]
        self._loaders = [loader for loader, _ in taken]
        self._passes: list[Any] = []

    def update(self) -> tuple[int, list[Any], float]:
        """Train on an update; return its epoch, its examples, and the sum of their weights."""
        first = self.batches[0]
        epoch, parts = first.epoch, first.count_parts(first.done)
        self._passes = self._passes or [iter(one) for one in self._loaders]
        examples, weights = [], 0.0
        for part in range(parts):
            # As a library does that draws random numbers of its own between two batches.
            torch.rand(1), random.random()
            given = [next(one) for one in self._passes]
            for batches, found in zip(self.batches, given, strict=True):
                weight = batches.weight(part)
                weights += weight
                examples += found if weight else []
                assert len(found) <= batches.most
        assert weights == pytest.approx(parts * first.ranks)
        for one in self.batches:
            one.advance()
        assert len({(one.epoch, one.done) for one in self.batches}) == 1
        if not first.done:
            assert all(next(one, None) is None for one in self._passes)
            self._passes = []
        return epoch, [one[0] for one in examples], weights


def train(sizes: list[int], updates: int, epochs: int, **given: Any) -> list[tuple[int, list[int]]]:
    """Train on sizes after one another, some updates on each but the last."""
    found, saved = [], None
    for number, size in enumerate(sizes, 1):
        attempt = Attempt(size, saved, **given)
        assert not any(attempt.said)
        while attempt.batches[0].epoch < epochs:
            epoch, numbers, _ = attempt.update()
            found.append((epoch, numbers))
            if number < len(sizes) and len(found) == updates * number:
                break
        saved = attempt.batches[0].place()
    return found


@pytest.mark.parametrize("kind", [Placed, Silent, Buffered])
def test_each_example_is_given_once_in_an_epoch_on_changing_ranks(kind) -> None:
    whole = train([2], 0, 4, data=kind())

    found = train([2, 4, 3, 1, 4], 5, 4, data=kind())

    assert [(epoch, sorted(one)) for epoch, one in found] == [
        (epoch, sorted(one)) for epoch, one in whole
    ]
    for epoch in range(4):
        once = Counter(n for at, numbers in found if at == epoch for n in numbers)
        assert once == Counter(range(EXAMPLES))


def test_an_update_of_fewer_examples_than_ranks_has_the_mean_of_these() -> None:
    found = train([4], 0, 1, data=Placed(), limit=TOTAL + 3)

    assert [len(numbers) for _, numbers in found] == [TOTAL, 3]


@pytest.mark.parametrize(("limit", "sizes"), [(0, [8] * 5), (17, [8] * 2), (7, [])])
def test_a_last_batch_that_is_smaller_can_be_left_out(limit, sizes) -> None:
    _, batches = take(1, 0, most=TOTAL, drop_last=True, limit=limit)
    batches.continues = True

    assert [len(one) for one in batches] == sizes


def test_data_that_says_its_place_is_not_read_from_its_beginning() -> None:
    data = Placed()
    first = Attempt(1, data=data)
    for _ in range(4):
        first.update()
    data.begun.clear()

    again = Attempt(1, first.batches[0].place(), data=data)
    data.begun.remove(0), data.begun.remove(0)  # whether it is the same when it is read again
    again.update()

    assert data.begun == [3 * TOTAL]


def test_a_place_that_is_skipped_is_not_read() -> None:
    first = Attempt(1)
    for _ in range(3):
        first.update()
    _, batches = take(1, 0, most=TOTAL)
    batches.set_place(first.batches[0].place())

    given = [*batches]

    assert given[:3] == [[]] * 3
    assert len(given) == 6


def test_random_numbers_of_the_training_are_its_own() -> None:
    loader, _ = take(1, 0)
    before = random.getstate(), torch.get_rng_state().tolist()
    torch.manual_seed(3)
    drawn = [torch.rand(1) for _ in range(2)]
    torch.manual_seed(3)

    passed = iter(loader)
    torch.manual_seed(3)
    next(passed)
    first = torch.rand(1)
    next(passed)

    assert [first, torch.rand(1)] == drawn
    assert random.getstate() == before[0]


def test_data_that_became_another_is_said() -> None:
    first = Attempt(1, data=Silent())
    for _ in range(2):
        first.update()

    again = Attempt(1, first.batches[0].place(), data=Placed())

    assert again.said == [CHANGED]


def refused(loader: Any) -> str:
    with pytest.raises(InputError) as raised:
        loader_data(loader)
    return str(raised.value)


def test_what_cannot_be_continued_is_named_before_training(monkeypatch) -> None:
    assert "read in other processes" in refused(DataLoader(Placed(), 4, num_workers=2))
    assert "makes no batches" in refused(DataLoader(Placed(), batch_size=None))
    assert "not the same when it is read again" in refused(DataLoader(Changing(), 4))
    monkeypatch.setattr(common_stream, "_each", lambda value: [value, [1, 1]])
    assert "gives each rank other examples" in refused(DataLoader(Placed(), 4))


def test_a_sampler_without_a_length_is_read_as_a_stream() -> None:
    loader = DataLoader(range(EXAMPLES), 4, sampler=Endless())
    data = loader_data(loader)
    assert data is not None

    given = [data.give() for _ in range(12)]

    assert sorted(n for one in given if one for n in one[0].tolist()) == [*range(EXAMPLES)]
    assert isinstance(loader_data(DataLoader(range(EXAMPLES), 4)), LoaderData)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"x": torch.zeros(2)}, {"x": torch.ones(2)}),
        ([np.zeros((2, 2)).T], [np.eye(2).T]),
        (torch.tensor(1.0, dtype=torch.bfloat16), torch.tensor(2.0, dtype=torch.bfloat16)),
        (("a", [1, None]), ("a", [2, None])),
    ],
)
def test_examples_are_known_from_others(one, other) -> None:
    assert common_stream._checksum(one) != common_stream._checksum(other)
    assert common_stream._checksum(one) == common_stream._checksum(one)
