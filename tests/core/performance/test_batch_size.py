"""Noise scales of constructed problems, and the formulas of the papers for the advice."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.performance.batch_size import (
    NoiseAverages,
    Norms,
    WarmUp,
    add_norms,
    advise,
    estimates,
    progress,
    sentence,
    steps_needed,
    warm_up,
)

POSITIVE = st.floats(1e-3, 1e6)


def steps(rng, count: int, mean, deviation, batch: int, ranks: int):
    """Give norms of gradients, each of which is a mean plus noise of a known covariance."""
    for _ in range(count):
        noise = rng.normal(size=(ranks, len(mean))) * deviation / np.sqrt(batch)
        each = mean + noise
        small = float((each**2).sum(axis=1).mean())
        yield Norms(small, float((each.mean(axis=0) ** 2).sum()), batch, ranks)


def run(mean, deviation, batch: int, ranks: int, seed: int = 0, count: int = 4000) -> NoiseAverages:
    averages = NoiseAverages()
    for norms in steps(np.random.default_rng(seed), count, mean, deviation, batch, ranks):
        averages = add_norms(averages, norms, decay=0.999)
    return averages


@pytest.mark.parametrize(("batch", "ranks"), [(16, 2), (32, 4), (64, 8)])
@pytest.mark.parametrize("scale", [100, 2000])
def test_the_noise_scale_of_a_known_problem_is_found(batch: int, ranks: int, scale: int) -> None:
    mean = np.full(200, 0.1)
    deviation = np.full(200, np.sqrt(scale * 0.01))

    found = run(mean, deviation, batch, ranks).scale

    assert found == pytest.approx(scale, rel=0.25)


def test_an_uneven_covariance_counts_by_its_trace() -> None:
    mean, deviation = np.linspace(0, 1, 100), np.linspace(5, 0, 100)
    known = float((deviation**2).sum() / (mean**2).sum())

    assert run(mean, deviation, 16, 4).scale == pytest.approx(known, rel=0.1)


def test_linear_regression_is_measured_from_its_true_gradients() -> None:
    rng = np.random.default_rng(1)
    weights, off = rng.normal(size=20), 0.3 * rng.normal(size=20)
    inputs = rng.normal(size=(50_000, 20))
    errors = inputs @ off + rng.normal(size=50_000)
    each = inputs * errors[:, None]
    known = float(each.var(axis=0).sum() / (each.mean(axis=0) ** 2).sum())
    averages = NoiseAverages()
    for _ in range(4000):
        drawn = each[rng.integers(0, len(each), (4, 8))].mean(axis=1)
        norms = Norms(float((drawn**2).sum(axis=1).mean()), float((drawn.mean(0) ** 2).sum()), 8, 4)
        averages = add_norms(averages, norms, decay=0.999)

    assert len(weights) == 20
    assert averages.scale == pytest.approx(known, rel=0.1)


@given(POSITIVE, POSITIVE, st.integers(1, 1000), st.integers(2, 64))
def test_norms_that_are_as_expected_give_back_signal_and_noise(signal, noise, batch, ranks) -> None:
    norms = Norms(signal + noise / batch, signal + noise / batch / ranks, batch, ranks)

    found = estimates(norms)

    assert found == pytest.approx((signal, noise), rel=1e-3, abs=1e-6 * (signal + noise))


def test_the_averages_are_taken_before_the_ratio() -> None:
    averages = NoiseAverages()
    for place in range(400):
        signal, noise = (1.0, 200.0) if place % 2 else (3.0, 200.0)
        averages = add_norms(averages, Norms(signal + noise / 8, signal + noise / 16, 8, 2))

    assert averages.scale == pytest.approx(100, rel=0.02)


def test_one_rank_and_few_steps_say_nothing() -> None:
    assert add_norms(NoiseAverages(), Norms(1, 1, 8, 1)) == NoiseAverages()
    assert add_norms(NoiseAverages(), Norms(2, 1, 8, 2)).scale is None
    assert advise(NoiseAverages(), 8, (1.0, 2.0)) is None


def test_pure_noise_makes_any_batch_useful() -> None:
    averages = NoiseAverages(signal=-0.1, noise=3.0, steps=1000)

    assert averages.scale == math.inf
    assert sentence(advise(averages, 64, (math.inf, math.inf))) == (
        "Useful batch: larger than can be measured; all ranks together use 64"
    )


def test_the_advice_is_reported_in_words() -> None:
    averages = NoiseAverages(signal=1.0, noise=2000.0, steps=1000)

    assert sentence(advise(averages, 512, (1500.0, 2600.0))) == (
        "Useful batch: about 2,000 examples (1,500–2,600); all ranks together use 512"
    )
    assert advise(averages, 8192, (1500.0, 2600.0)).further == pytest.approx(1.1, rel=0.01)


@pytest.mark.parametrize("band", [None, (300.0, 2100.0), (1900.0, math.inf)])
def test_a_batch_that_is_hardly_known_is_not_advised(band) -> None:
    assert advise(NoiseAverages(1.0, 2000.0, 1000), 512, band) is None


@given(POSITIVE, POSITIVE, POSITIVE)
def test_a_larger_batch_never_needs_more_steps(batch, more, scale) -> None:
    assert steps_needed(batch + more, scale) <= steps_needed(batch, scale)
    assert 1 <= progress(batch, batch + more, scale) <= (batch + more) / batch * (1 + 1e-9)


def test_the_warm_up_takes_five_epochs_and_is_even() -> None:
    plan = warm_up(0.1, 256, 8192, 1_281_167)

    assert plan == WarmUp(0.1, pytest.approx(3.2), 782)
    assert plan.at(0) == 0.1
    assert plan.at(391) == pytest.approx(1.65)
    assert plan.at(782) == plan.at(10_000) == plan.peak


def test_a_batch_that_does_not_grow_needs_no_warm_up() -> None:
    plan = warm_up(0.1, 256, 128, 50_000)

    assert (plan.peak, plan.iterations) == (0.05, 0)


@settings(max_examples=30)
@given(POSITIVE, st.floats(1, 64), st.integers(0, 2000))
def test_a_warm_up_never_falls_nor_overshoots(rate, times, iteration) -> None:
    plan = warm_up(rate, 32, 32 * times, 10_000)

    assert rate * (1 - 1e-9) <= plan.at(iteration) <= plan.at(iteration + 1) * (1 + 1e-9)
    assert plan.at(iteration) <= plan.peak * (1 + 1e-9)
