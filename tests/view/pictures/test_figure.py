"""Pictures are legible on a white page and on a dark one."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from workbench.view.pictures.figure import COLOURS, INK, draw_png, ink, new_figure

WHITE, DARK = "#ffffff", "#111111"  # JupyterLab's


def light(colour: str) -> float:
    """Return the relative luminance by WCAG 2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("page", [WHITE, DARK])
def test_words_and_lines_are_seen_on_either_page(page: str) -> None:
    assert contrast(INK, page) >= 4
    assert min(contrast(colour, page) for colour in COLOURS) > 2


def test_a_picture_has_no_background_and_grey_words() -> None:
    figure = new_figure(2, 2, 80)
    axes = figure.add_subplot()
    axes.plot([1, 2], label="loss")
    axes.legend()

    ink(axes)
    drawn = Image.open(io.BytesIO(draw_png(figure))).convert("RGBA")
    assert drawn.getpixel((0, 0))[3] == 0
    assert axes.get_legend().get_texts()[0].get_color() == axes.xaxis.label.get_color() == INK
