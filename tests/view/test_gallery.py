"""No page takes anything that we display for mathematics, whatever it is made of."""

from __future__ import annotations

from tests.view.gallery import MAKERS, NASTY, THROUGH, html_makers, render_gallery
from tests.view.pages import mathematics, text_of


def test_whatever_makes_html_is_in_the_gallery() -> None:
    assert {*html_makers()} == {*MAKERS, *THROUGH}


def test_nothing_in_the_gallery_is_mathematics(store) -> None:
    made = render_gallery(store)

    assert [(name, *mathematics(html)) for name, html in made.items()] == [(k,) for k in made]
    assert sum(NASTY in text_of(html) for html in made.values()) > 20
