"""Train a CNN on eight ranks with each codec, and compare the accuracy epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.engine.conftest import StartedWorld

from .figures import BenchmarkFailed, Row, Series
from .place import Place

PROGRAM = Path(__file__).parents[1] / "tests/engine/exchange/programs/noisy_digits.py"
RANKS, EPOCHS, SEEDS = 8, 15, (61, 62, 63)
NONE = "none"
CODECS = (NONE, "fp16", "int8", "topk", "powersgd", "forgetful powersgd")
TITLES = {
    NONE: "uncompressed",
    "one factor": "powersgd, one factor a step",
    "forgetful powersgd": "powersgd without error feedback",
}

Curves = dict[str, list[list[float]]]
"""Of each codec, the accuracy in percent by seed and epoch."""


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Train with three seeds; all ranks share this machine's cores, which changes no number."""
    found = {codec: [_trained(place, codec, seed, say) for seed in SEEDS] for codec in CODECS}
    what = f"error of a CNN after {EPOCHS} epochs on {RANKS} ranks"
    plain = _errors(NONE, found[NONE])
    return [
        Row(what, "%", _errors(codec, curves), plain)
        for codec, curves in found.items()
        if codec != NONE
    ]


def _trained(place: Place, codec: str, seed: int, say: Callable[[str], None]) -> list[float]:
    folder = place.path(f"{codec} {seed}")
    folder.mkdir()
    world = StartedWorld(folder, PROGRAM, RANKS, str(seed), str(EPOCHS), codec)
    try:
        found = world.found()[0]
    except AssertionError as error:
        raise BenchmarkFailed(f"{PROGRAM.name} failed: {error}") from error
    finally:
        world.close()
    curve: list[float] = found["accuracy"]
    say(f"{codec}, seed {seed}: {', '.join(f'{one:.1f}' for one in curve)} %")
    return curve


def _errors(codec: str, curves: Sequence[Sequence[float]]) -> Series:
    return Series(TITLES.get(codec, codec), tuple(100 - curve[-1] for curve in curves))


def draw(path: Path, found: Curves) -> None:
    """Draw the mean of the seeds by epoch, and the range between them, for the documentation."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    place = figure.subplots()
    for codec, curves in found.items():
        epochs = [*zip(*curves, strict=True)]
        x = range(1, len(epochs) + 1)
        (line,) = place.plot(x, [sum(one) / len(one) for one in epochs])
        line.set_label(TITLES.get(codec, codec))
        low, high = [min(one) for one in epochs], [max(one) for one in epochs]
        place.fill_between(x, low, high, color=line.get_color(), alpha=0.12, linewidth=0)
    place.set_xlabel("epoch")
    place.set_ylabel("accuracy on the test set, %")
    place.set_title(f"{RANKS} ranks, mean and range of the seeds", fontsize=10)
    place.legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=120)
