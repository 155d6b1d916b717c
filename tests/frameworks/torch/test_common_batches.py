"""The place in batches that all ranks have in common."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is an extra that the tests do without")
pytestmark = pytest.mark.torch

from torch.utils.data import BatchSampler, SequentialSampler  # noqa: E402  # it may be absent

from workbench.frameworks.torch.common_batches import (  # noqa: E402  # torch may be absent
    CommonBatches,
)


def test_what_an_update_was_read_from_is_not_that_of_an_earlier_epoch() -> None:
    batches = CommonBatches(BatchSampler(SequentialSampler(range(8)), 2, False), 2, 2, 0, 1)
    batches.continues = True
    batches.may_be_saved = lambda: (batches.epoch, batches.done) == (0, 0)
    asked = iter(batches)
    next(asked)
    next(asked)  # read ahead
    batches.advance()
    assert batches.place()["drawn"] is not None
    for _ in range(4):
        batches.advance()

    assert (batches.epoch, batches.done) == (1, 1)
    assert batches.place()["drawn"] is None
