"""Estimate the critical batch size, and the learning rate for a batch.

Sources:

- S. McCandlish, J. Kaplan, D. Amodei et al., "An Empirical Model of Large-Batch Training" (2018),
  arXiv 1812.06162. Appendix A.1 gives the gradient noise scale from the norms of gradients at two
  batch sizes, which data parallelism has without extra cost: each rank's own, and that of all.
- P. Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour" (2017), arXiv
  1706.02677: scale the learning rate with the batch, with a warm-up of five epochs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Each estimate is so noisy that hundreds have to be averaged.
DECAY = 0.99
LEAST_STEPS = 50
# The factor to which a scale is known at best, and the factor that advice needs.
LEAST_BAND = 1.2
MOST_BAND = 4.0
WARM_UP_EPOCHS = 5.0


@dataclass(frozen=True)
class NoiseAverages:
    """Separate exponential averages: the mean of a ratio is not the ratio of means.

    Both start at zero; their ratio is not biased by that.

    Args:
        signal: Of estimates of the squared norm of the true gradient.
        noise: Of estimates of the trace of the covariance of one example's gradient.
    """

    signal: float = 0.0
    noise: float = 0.0
    steps: int = 0

    @property
    def scale(self) -> float | None:
        """The gradient noise scale, in examples; None while there are too few estimates.

        It is infinite if the gradient cannot be distinguished from the noise.
        """
        if self.steps < LEAST_STEPS or self.noise <= 0:
            return None
        return self.noise / self.signal if self.signal > 0 else float("inf")


@dataclass(frozen=True)
class Norms:
    """Squared norms of the gradients of one step.

    Args:
        small: Mean over the ranks of each rank's own gradient.
        large: Of the gradient averaged over all ranks.
        batch: Examples per rank.
        ranks: At least two.
    """

    small: float
    large: float
    batch: float
    ranks: int


def estimates(norms: Norms) -> tuple[float, float]:
    """Return unbiased estimates of ``|G|²`` and ``tr Σ`` (equations A.2 and A.3).

    Both follow from ``E|G_B|² = |G|² + tr Σ / B`` at two batch sizes.
    """
    small, large = norms.batch, norms.batch * norms.ranks
    signal = (large * norms.large - small * norms.small) / (large - small)
    noise = (norms.small - norms.large) / (1 / small - 1 / large)
    return signal, noise


def add_norms(averages: NoiseAverages, norms: Norms, decay: float = DECAY) -> NoiseAverages:
    """Return the averages after one more step; unchanged with one rank."""
    if norms.ranks < 2:
        return averages
    signal, noise = estimates(norms)
    new = 1 - decay
    return NoiseAverages(
        signal=decay * averages.signal + new * signal,
        noise=decay * averages.noise + new * noise,
        steps=averages.steps + 1,
    )


def sum_averages(models: Sequence[NoiseAverages]) -> NoiseAverages:
    """Return the averages of the gradients of several models, taken as one vector.

    Squared norms and traces of its parts add up. A model that is not measured yet is left out.
    """
    known = [one for one in models if one.steps]
    return NoiseAverages(
        signal=sum(one.signal for one in known),
        noise=sum(one.noise for one in known),
        steps=min((one.steps for one in known), default=0),
    )


def steps_needed(batch: float, scale: float) -> float:
    """Return the steps that a batch needs, relative to the minimum: ``1 + B_noise/B``."""
    return 1 + scale / batch


def progress(batch: float, larger: float, scale: float) -> float:
    """Return the progress of a step of ``larger``, relative to one of ``batch``."""
    return steps_needed(batch, scale) / steps_needed(larger, scale)


@dataclass(frozen=True)
class WarmUp:
    """A learning rate that rises linearly from ``start`` to ``peak``, and then is constant.

    Args:
        iterations: Length of the rise.
    """

    start: float
    peak: float
    iterations: int

    def at(self, iteration: int) -> float:
        """Return the learning rate of an iteration; the first iteration is 0."""
        if iteration >= self.iterations:
            return self.peak
        return self.start + (self.peak - self.start) * iteration / self.iterations


def warm_up(
    rate: float,
    batch: float,
    larger: float,
    examples: float,
    *,
    epochs: float = WARM_UP_EPOCHS,
) -> WarmUp:
    """Return the warm-up to the learning rate of a larger batch, by the linear rule of Goyal et al.

    Args:
        rate: The right one for ``batch``.
        examples: Per epoch.
    """
    iterations = round(epochs * examples / larger) if larger > batch else 0
    return WarmUp(rate, rate * larger / batch, iterations)


@dataclass(frozen=True)
class BatchSizeAdvice:
    """The conclusion from a noise scale for a batch.

    Args:
        useful: The noise scale in examples, the largest batch that is used well: about that,
            between ``low`` and ``high``. Infinite if it is larger than can be measured.
        batch: The present batch of all ranks.
        further: Progress of a step of twice the batch, relative to the present one.
    """

    useful: float
    low: float
    high: float
    batch: float
    further: float


def advise(
    averages: NoiseAverages, batch: float, band: tuple[float, float] | None
) -> BatchSizeAdvice | None:
    """Return the advice on the batch of all ranks; None while the noise scale is too uncertain.

    Args:
        batch: Of all ranks together.
        band: The range of the noise scale over the run; None if it was not measured.
    """
    scale = averages.scale
    if scale is None or band is None:
        return None
    low, high = min(band[0], scale / LEAST_BAND), max(band[1], scale * LEAST_BAND)
    if low < math.inf and high > MOST_BAND * low:
        return None
    further = 2.0 if scale == math.inf else progress(batch, 2 * batch, scale)
    return BatchSizeAdvice(scale, low, high, batch, further)


def sentence(advice: BatchSizeAdvice) -> str:
    """Return advice as a clause; its end on more nodes is added by the caller."""
    useful = (
        "larger than can be measured"
        if advice.useful == math.inf
        else f"about {_round(advice.useful)} examples ({_round(advice.low)}–{_round(advice.high)})"
    )
    return f"Useful batch: {useful}; all ranks together use {advice.batch:,.0f}"


def _round(value: float) -> str:
    """Return a value rounded to two digits, which is more than its accuracy."""
    return f"{float(f'{value:.2g}'):,.0f}"
