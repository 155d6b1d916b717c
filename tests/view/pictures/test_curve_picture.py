"""Curves are laid out by quantity, described in words, and redrawn at little cost."""

from __future__ import annotations

import io
import math
import random
import statistics

import pytest
from PIL import Image, ImageChops

from workbench.analysis.step_breakdown import StepBreakdown
from workbench.core.curves import Curve
from workbench.pages.protocol import MarkMessage
from workbench.view.pictures.curve_layout import add_redone, describe, panels_of
from workbench.view.pictures.curve_picture import (
    LivePicture,
    _canvas,
    axis_of,
    draw_chart,
    png,
    smooth,
)


def curve(*values: float, ranks: int = 1) -> Curve:
    made = Curve()
    for iteration, value in enumerate(values, 1):
        for rank in range(ranks):
            made.add(rank, iteration, value + rank)
    return made


def losses(amount: int) -> dict[str, dict[str, Curve]]:
    return {"": {"loss": curve(*(1 / i for i in range(1, amount + 1)), ranks=2)}}


def picture(data: bytes, page: str = "white") -> Image.Image:
    """Return a picture as a page of that colour shows it."""
    drawn = Image.open(io.BytesIO(data)).convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", drawn.size, page), drawn).convert("RGB")


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

    assert describe(panels) == (
        "loss falls from 2 to 1 over 1 iteration; empty has no finite value"
    )


def test_any_name_can_be_drawn():
    curves = {"$\\frac{": curve(1, 2, ranks=2), "_hidden": curve(1), "損失": curve(math.nan, 1)}

    assert png(panels_of({"": curves})).startswith(b"\x89PNG")


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_picture_can_be_a_file(tmp_path, suffix):
    path = tmp_path / f"curve.{suffix}"

    draw_chart({"a": {"val_loss": curve(2, 1)}, "b": {"loss": curve(2, 1)}}, path)

    assert path.stat().st_size > 1_000


def test_a_picture_is_small_enough_to_be_sent_each_second():
    curves = {name: curve(*range(400), ranks=2) for name in ("main/loss", "main/accuracy")}

    assert len(LivePicture().png(panels_of({"": curves}))) < 40_000


def test_a_picture_that_is_drawn_again_shows_the_same_as_a_fresh_one():
    kept, fresh = LivePicture(), LivePicture()
    for amount in (10, 40, 100, 300):
        kept.png(panels_of(losses(amount)))

    difference = ImageChops.difference(
        picture(kept.png(panels_of(losses(500)))), picture(fresh.png(panels_of(losses(500))))
    )

    assert difference.getbbox() is None


def test_new_points_are_seen_while_the_axes_stay():
    live = LivePicture()
    before = live.png(panels_of({"": {"loss": curve(*range(200))}}))

    after = live.png(panels_of({"": {"loss": curve(*range(205))}}))

    # The axes end at about 212, so what is new is a little of the curve at the right; the average
    # before it moves as well.
    difference = ImageChops.difference(picture(before), picture(after)).convert("L")
    plainly = difference.point(lambda value: 255 * (value > 30))  # below, the palettes differ
    left, _, right, _ = plainly.getbbox()
    assert 0.85 * plainly.width < left < right < plainly.width


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
    anatomy = StepBreakdown({0: {"compute": 0.2, "communication": 0.1, "data": 0.0, "other": 0.0}})

    assert picture(png([], anatomy)).width == picture(png(panels_of(losses(3)))).width


def test_no_axis_shows_what_cannot_be():
    panels = panels_of({"": {"accuracy": curve(*[1.0] * 40), "loss": curve(2.0, 0.01)}})

    plots = _canvas(panels, 80)[1]

    assert [plot.axes.get_ylim() for plot in plots] == [
        (0, pytest.approx(2.12, abs=0.01)),
        (0.9, 1),
    ]


def test_a_noisy_curve_is_drawn_faintly_behind_its_average():
    noisy = curve(*(1 + 0.5 * (-1) ** i for i in range(100)))

    (plot,) = _canvas(panels_of({"": {"loss": noisy}}), 80)[1]

    (line,), (raw,) = plot.lines, plot.raws
    assert max(line.get_ydata()[10:90]) < 1.1 < max(raw.get_ydata())
    assert raw.get_alpha() < 0.5 < line.get_alpha()


def test_a_curve_of_a_few_points_shows_each_of_them():
    (plot,) = _canvas(panels_of({"": {"loss": curve(1.0, 9.0, 1.0)}}), 80)[1]

    assert list(plot.lines[0].get_ydata()) == [1.0, 9.0, 1.0]
    assert not plot.raws[0].get_visible()


@pytest.mark.parametrize("page", ["white", "#111111"])
def test_a_picture_is_legible_on_a_light_and_on_a_dark_page(page):
    shown = picture(png(panels_of(losses(40))), page)

    ground, words = shown.getpixel((1, 1)), shown.crop((0, 0, 70, shown.height))
    assert ground == Image.new("RGB", (1, 1), page).getpixel((0, 0))
    assert max(_contrast(pixel, ground) for _, pixel in words.getcolors(10_000)) > 4


def _contrast(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """Return the contrast of two colours, as WCAG 2 defines it."""

    def luminance(colour: tuple[int, ...]) -> float:
        parts = [c / 255 for c in colour]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_a_picture_has_a_line_and_a_text_where_the_run_continued():
    marks = [
        MarkMessage(iteration=20, text="rank $lost$"),
        MarkMessage(iteration=30, text="resumed"),
    ]
    panels = panels_of(losses(40))
    _, (plot,) = _canvas(panels, 80)
    before = len(plot.axes.get_lines())

    plot.mark(marks)
    plot.say(marks)

    drawn = plot.axes.get_lines()[before:]
    assert [line.get_xdata()[0] for line in drawn] == [20, 30]
    assert [text.get_text() for text in plot.axes.texts] == ["rank $lost$", "resumed"]
    assert png(panels, marks=marks) != png(panels)


def test_a_mark_that_is_pending_is_dotted_and_at_the_edge_until_the_curves_come_as_far():
    panels = panels_of(losses(40))
    _, (plot,) = _canvas(panels, 80)
    right = plot.axes.get_xlim()[1]

    plot.mark([MarkMessage(iteration=500, text="to 4 ranks", is_pending=True)])

    line = plot.axes.get_lines()[-1]
    assert (line.get_xdata()[0], line.get_linestyle()) == (right, ":")


def test_what_was_done_again_is_faint_and_in_sight_but_not_in_the_legend():
    stretch = Curve()
    stretch.add(0, [39, 45], [9.0, 9.0])
    plain = panels_of(losses(40))
    (panel,) = panels = add_redone(plain, {1: {"loss": stretch, "lr": curve(1.0)}})
    _, (plot,) = _canvas(panels, 80)
    before = len(plot.axes.get_lines())

    plot.redo(panel)

    (drawn,) = plot.axes.get_lines()[before:]
    assert drawn.get_alpha() < 0.5
    assert [text.get_text() for text in plot.axes.get_legend().get_texts()] == ["loss"]
    assert panel.bounds[1] == 45
    assert panel.bounds[3] == 9.0
    assert png(panels) != png(plain)


@pytest.mark.parametrize(
    ("quantity", "low", "high", "wanted"),
    [
        ("accuracy", 0.5, 1.0, (0.47, 1.0)),
        ("accuracy", 1.0, 1.0, (0.9, 1.0)),
        ("accuracy", 0.0, 0.0, (0.0, 1.0)),
        ("accuracy", 0.01, 0.5, (0.0, 0.5294)),
        ("top5_accuracy", 50.0, 100.0, (47.0, 100.0)),
        ("loss", 0.01, 2.01, (0.0, 2.13)),
        ("loss", 0.2, 0.2, (0.18, 0.22)),
        ("loss", -1.0, 1.0, (-1.12, 1.12)),
    ],
)
def test_an_axis_has_a_margin_where_values_may_be(quantity, low, high, wanted):
    assert axis_of(quantity, low, high) == pytest.approx(wanted)


def test_points_weigh_by_their_distance_to_both_sides():
    x = [0.0, 500.0, 1000.0]

    first, middle, last = smooth(x, [1.0, 4.0, 6.0], 0.5 / math.log(2))

    assert middle == pytest.approx(7.5 / 2)
    assert first == pytest.approx((1 + 2 + 1.5) / 1.75)
    assert last == pytest.approx((6 + 2 + 0.25) / 1.75)


def test_a_slope_does_not_lag():
    x = [float(i) for i in range(401)]

    assert smooth(x, x)[200] == pytest.approx(200)


@pytest.mark.parametrize("points", [400, 4000])
def test_noise_becomes_small(points):
    chance = random.Random(1)
    values = [chance.gauss(1, 0.5) for _ in range(points)]

    found = smooth([float(i) for i in range(points)], values)

    assert statistics.stdev(found) < 0.25 * statistics.stdev(values)


def test_what_is_not_finite_is_left_out():
    found = smooth([0.0, 1.0, 2.0], [2.0, math.nan, 2.0])

    assert found[0] == found[2] == 2.0
    assert math.isnan(found[1])


def test_nothing_is_smoothed_with_weight_0_and_nothing_is_nothing():
    assert smooth([0.0, 1.0], [1.0, 9.0], 0.0) == [1.0, 9.0]
    assert smooth([], []) == []
