"""Horovod's calls, where Horovod is not installed, do what its documentation says."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.frameworks.horovod.framework import offer_horovod

CALLS = Path(__file__).parent / "programs" / "horovod_calls.py"


@pytest.fixture
def unknown() -> Iterator[None]:
    """Have no module of this name before and after the test."""
    finders = [*sys.meta_path]
    yield
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.partition(".")[0] == "horovod"]:
        del sys.modules[name]


def test_an_installed_horovod_is_found_before_ours(unknown, tmp_path, monkeypatch) -> None:
    (tmp_path / "horovod").mkdir()
    (tmp_path / "horovod" / "__init__.py").write_text("real = True")
    monkeypatch.syspath_prepend(str(tmp_path))

    offer_horovod()

    assert importlib.import_module("horovod").real
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module("horovod.torch")
    assert "workbench" not in str(caught.value)


def test_without_a_rank_there_is_no_horovod(unknown) -> None:
    assert importlib.util.find_spec("horovod") is None


def test_what_ours_lacks_is_named(unknown) -> None:
    offer_horovod()

    with pytest.raises(ModuleNotFoundError, match=r"horovod\.keras needs Horovod itself"):
        importlib.import_module("horovod.keras")


@pytest.mark.torch
@pytest.mark.mpi
@pytest.mark.parametrize("size", [1, 2, 3])
def test_calls_and_trainings_have_the_values_of_horovod(on_shared_ranks, size) -> None:
    pytest.importorskip("torch", reason="torch is an extra that the tests do without")

    for mine in on_shared_ranks(CALLS, size):
        assert [what for what, is_right in mine["right"].items() if not is_right] == []
        errors = mine["errors"]
        assert "Horovod has not been initialized" in errors["rank"]
        assert "use hvd.Average" in errors["adasum"]
        assert "names twice: same" in errors["twice"]
        assert "torch.nn.SyncBatchNorm" in errors["norm"]
        assert "needs Horovod itself" in errors["keras"]
