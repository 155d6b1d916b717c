"""A text with its arguments is the same in a terminal as on a page."""

from __future__ import annotations

import pytest

from workbench.view.phrase import counted, english, phrase


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("shown as it is: %1", "shown as it is: %1"),
        (phrase("queued"), "queued"),
        (phrase("%2 before %1", "a", ("count", 1234)), "1,234 before a"),
        (phrase("%1, %2", ("value", 0.123456), ("rate", 0.123456)), "0.1235, 0.123"),
        (phrase("%1 left", ("duration", 65)), "1 min 5 s left"),
        (phrase("%1 (line %2)", phrase("%1 waits", "rank 0"), "7"), "rank 0 waits (line 7)"),
        (counted("%1 rank", "%1 ranks", 1), "1 rank"),
        (counted("%2 in %1 rank", "%2 in %1 ranks", 2000, "loss"), "loss in 2,000 ranks"),
        (phrase("%1 is %2", None, phrase("at %1", None)), "loss is at loss"),
    ],
)
def test_arguments_are_put_where_the_text_has_them(said, text) -> None:
    assert english(said, "loss") == text
