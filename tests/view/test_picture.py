"""Curves are laid out by quantity, told in words, and drawn anew at little cost."""

from __future__ import annotations

import io
import math

import pytest
from PIL import Image, ImageChops

from workbench.core.sampling import Curve
from workbench.view.anatomy import Anatomy
from workbench.view.panels import describe, panels_of
from workbench.view.picture import LivePicture, png, save


def curve(*values: float, ranks: int = 1) -> Curve:
    made = Curve()
    for iteration, value in enumerate(values, 1):
        for rank in range(ranks):
            made.add(rank, iteration, value + rank)
    return made


def losses(amount: int) -> dict[str, dict[str, Curve]]:
    return {"": {"loss": curve(*(1 / i for i in range(1, amount + 1)), ranks=2)}}


def picture(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data)).convert("RGB")


def test_losses_and_accuracies_have_axes_of_their_own():
    curves = {"main/loss": curve(3, 2), "main/accuracy": curve(0, 1)}

    panels = panels_of({"": {**curves, "validation/main/loss": curve(4)}})

    assert [(p.quantity, [line.style.name for line in p.lines]) for p in panels] == [
        ("loss", ["main/loss", "validation/main/loss"]),
        ("accuracy", ["main/accuracy"]),
    ]


def test_runs_that_are_compared_have_a_colour_each_and_dashes_for_validation():
    curves = {"loss": curve(2, 1), "val_loss": curve(3, 2)}

    (panel,) = panels_of({"a": curves, "b": curves})

    styles = [line.style for line in panel.lines]
    assert [style.name for style in styles] == ["a: loss", "a: val_loss", "b: loss", "b: val_loss"]
    assert [style.dashed for style in styles] == [False, True, False, True]
    assert styles[0].colour == styles[1].colour != styles[2].colour


def test_the_picture_is_described_in_words():
    panels = panels_of({"": {"loss": curve(2, 1), "empty": curve(math.nan)}})

    assert describe(panels) == "loss falls from 2 to 1 over 1 iteration"


def test_any_name_can_be_drawn():
    curves = {"$\\frac{": curve(1, 2, ranks=2), "_hidden": curve(1), "損失": curve(math.nan, 1)}

    assert png(panels_of({"": curves})).startswith(b"\x89PNG")


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_picture_can_be_a_file(tmp_path, suffix):
    path = tmp_path / f"curve.{suffix}"

    save(panels_of({"a": {"val_loss": curve(2, 1)}, "b": {"loss": curve(2, 1)}}), str(path))

    assert path.stat().st_size > 1_000


def test_a_picture_is_small_enough_to_be_sent_each_second():
    curves = {name: curve(*range(400), ranks=2) for name in ("main/loss", "main/accuracy")}

    assert len(LivePicture().png(panels_of({"": curves}))) < 40_000


def test_a_picture_that_is_drawn_anew_shows_the_same_as_a_fresh_one():
    kept, fresh = LivePicture(), LivePicture()
    for amount in (10, 40, 100, 300):
        kept.png(panels_of(losses(amount)))

    difference = ImageChops.difference(
        picture(kept.png(panels_of(losses(500)))), picture(fresh.png(panels_of(losses(500))))
    )

    assert difference.getbbox() is None


def test_new_points_are_seen_while_the_axes_stay():
    live = LivePicture()
    before = live.png(panels_of(losses(200)))

    after = live.png(panels_of(losses(205)))

    # The axes end at about 212, so what is new is a little of the curve at the right.
    difference = ImageChops.difference(picture(before), picture(after)).convert("L")
    plainly = difference.point(lambda value: 255 * (value > 30))  # below, the palettes differ
    left, _, right, _ = plainly.getbbox()
    assert 0.9 * plainly.width < left < right < plainly.width


def test_a_curve_that_appears_later_is_drawn_too():
    live = LivePicture()
    live.png(panels_of({"": {"loss": curve(2, 1)}}))
    both = panels_of({"": {"loss": curve(2, 1), "accuracy": curve(0, 1)}})

    assert picture(live.png(both)).tobytes() == picture(LivePicture().png(both)).tobytes()


def test_a_curve_without_a_number_yet_can_be_drawn():
    live = LivePicture()
    live.png(panels_of({"": {"loss": curve(math.nan)}}))

    assert live.png(panels_of({"": {"loss": curve(math.nan, 1.0)}})).startswith(b"\x89PNG")


def test_where_the_time_goes_is_drawn_where_there_are_no_curves():
    anatomy = Anatomy({0: {"compute": 0.2, "communication": 0.1, "data": 0.0, "other": 0.0}})

    assert picture(png([], anatomy)).width == picture(png(panels_of(losses(3)))).width
