"""A script of Lightning's Trainer that is resumed on real ranks is the one never interrupted."""

from __future__ import annotations

import pytest

from tests.engine.elastic.test_resumed_trainer import Train, attempts, once, train, visits

torch = pytest.importorskip("torch", reason="torch is an extra that the tests do without")
pytest.importorskip("lightning", reason="lightning is no requirement")
pytestmark = [pytest.mark.mpi, pytest.mark.torch, pytest.mark.timeout(400)]
__all__ = ["train"]

WEEKLY = pytest.mark.weekly
KIND = {"kind": "lightning_script"}


def assert_same(found, whole, rel: float = 1e-5) -> None:
    """Assert that a fit ended with the numbers of the one that was never interrupted."""
    for name in ("losses", "rates", "means", "evaluated", "score"):
        assert found[0][name] == pytest.approx(whole[0][name], rel=rel), name
    assert found[0]["best"] == whole[0]["best"]
    assert found[0]["weights"] == pytest.approx(whole[0]["weights"], rel=rel, abs=1e-6)


@WEEKLY
@pytest.mark.parametrize("stop", [1, 6, 7])
def test_it_is_the_same_fit_on_as_many_ranks(train: Train, stop) -> None:
    options = {"dropout": 0.3, **KIND}
    whole = train(2, "whole", **options)

    *_, second = attempts(train, [2, 2], [stop], **options)

    assert whole[0]["ranks"] == 2
    assert second[0]["losses"] == whole[0]["losses"]
    assert [one["last"] for one in second] == [one["last"] for one in whole]


def test_the_numbers_are_the_same_on_changing_ranks(train: Train, tmp_path) -> None:
    whole = train(2, "whole", saves=False, **KIND)

    *_, one = attempts(train, [2, 1, 2], [4, 3], **KIND)

    assert_same(one, whole)
    assert visits(tmp_path / "run", 6) == once(2)
