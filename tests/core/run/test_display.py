"""Displays are limited to known MIME types and sizes, and are validated on arrival."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import asdict

from workbench.core.messages import decode
from workbench.core.run.display import (
    DISPLAY,
    MOST_CHARACTERS,
    Display,
    bundle_from,
    limit_display,
    sizes_from,
)
from workbench.errors import ProtocolError


def test_known_types_are_carried_as_text() -> None:
    made = bundle_from({
        "text/plain": "<Figure>", "image/png": b"\x89PNG", "image/jpeg": "AAAA\nAAA=\n",
        "application/json": {"a": 1}, "text/html": "<b>", "application/javascript": "alert(1)",
        "application/vnd.jupyter.widget-view+json": {"model_id": "x"}, "text/latex": None,
    })  # fmt: skip

    assert made == {
        "text/plain": "<Figure>", "image/png": "iVBORw==", "image/jpeg": "AAAAAAA=",
        "application/json": '{"a": 1}', "text/html": "<b>",
    }  # fmt: skip


def test_what_is_no_image_or_no_json_is_left_out() -> None:
    endless: list[object] = []
    endless.append(endless)

    assert bundle_from({"image/png": "no base64!", "application/json": endless}) == {}


def test_a_display_that_is_too_large_says_its_size() -> None:
    made = limit_display({"text/plain": "<Figure>", "image/png": "A" * MOST_CHARACTERS})

    assert made == {
        "text/plain": "<Figure>\nimage/png, text/plain of 2,000,008 characters is left out: "
        "a display of a rank may have 2,000,000."
    }


def test_of_the_metadata_the_sizes_of_images_are_carried() -> None:
    given = {"image/png": {"width": 320.0, "height": "x", "onload": 1}, "isolated": True}

    assert sizes_from(given) == {"image/png": {"width": 320}}
    assert sizes_from(["image/png"]) == {}


def test_words_replace_a_display_in_whole_lines() -> None:
    assert Display(DISPLAY, 0.0, 1, {"text/plain": "a\nb"}).words == "a\nb\n"
    assert Display(DISPLAY, 0.0, 1, {"text/html": "<b>"}).words == "<text/html>\n"


@pytest.mark.parametrize(
    "wrong",
    [
        {"action": "run"}, {"time": "now"}, {"time": float("nan")}, {"place": -1}, {"place": 1.5},
        {"place": True}, {"data": []}, {"data": {"text/javascript": "x"}},
        {"data": {"text/plain": 3}}, {"data": {"image/png": "data:x"}},
        {"data": {"text/plain": "\ud800"}}, {"data": {"text/html": "x" * 3_000_000}},
    ],
)  # fmt: skip
def test_what_is_no_display_is_refused_where_it_arrives(wrong) -> None:
    good = {"action": DISPLAY, "time": 1.5, "place": 1, "data": {"text/plain": "a"}}
    good["metadata"] = {"image/png": {"width": 3}}

    assert asdict(read(good)) == good
    with pytest.raises(ProtocolError):
        read(good | wrong)


def read(values: dict) -> Display:
    """Return the display of a message with these values."""
    return decode(Display, json.dumps(["display", *values.values()]))
