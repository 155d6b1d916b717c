"""The batch that stays on other ranks is chosen by name."""

from __future__ import annotations

import pytest

from workbench.core.run.batch_option import batch_environment
from workbench.errors import InputError


def test_the_choice_becomes_a_variable() -> None:
    assert batch_environment("per-rank") == (("WORKBENCH_BATCH", "per-rank"),)


def test_what_is_not_asked_for_is_not_set() -> None:
    assert batch_environment(None) == ()


def test_a_size_is_no_choice() -> None:
    with pytest.raises(InputError, match="no batch '64' to keep; use one of global, per-rank"):
        batch_environment("64")
