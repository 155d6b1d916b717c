"""HTML of ranks is written again from allowed tags, so that nothing in it runs."""

from __future__ import annotations

import time
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.weekly import examples
from workbench.view.html import ATTRIBUTES, TAGS, sanitize_output

TABLE = (
    '<div><table border="1" class="dataframe"><thead><tr><th></th><th>a</th></tr></thead>'
    "<tbody><tr><th>0</th><td>1 &lt; 2</td></tr></tbody></table></div>"
)
PIECES = [
    "<script>", "</script>", "<svg/onload=alert(1)>", "<img src=x onerror=alert(1)>", "<!--", "-->",
    "<style>", "</style>", "<a href='javascript:alert(1)'>", "<b", ">", '"', "'", "<", "/", "=",
    "</div>", "<math><mtext>", "<noscript>", "<p style=\"x:url(//h)\">", "&lt;", "&#60;img&#62;",
    "\x00", "<a href=\"java&#115;cript:x\">", "<iframe srcdoc='<p>'>", "<td title='\"><script>'>",
    "<form action=x>", "<base href=//h>", "<link rel=stylesheet href=//h>", "<meta refresh>",
]  # fmt: skip


class Found(HTMLParser):
    """What a parser finds: tags, attributes and whether each tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def test_a_table_of_pandas_comes_through_as_it_is() -> None:
    assert sanitize_output(TABLE) == TABLE


@pytest.mark.parametrize(
    ("html", "made"),
    [
        ("<script>alert(1)</script>a", "a"),
        ("<img src=x onerror=alert(1)>", "<img>"),
        ("<img src='https://host/x.png'>", "<img>"),
        ("<svg onload=alert(1)><p>x</svg>a", "a"),
        ("<a href='javascript:alert(1)'>a</a>", "<a>a</a>"),
        ("<a href='java&#115;cript:alert(1)'>a</a>", "<a>a</a>"),
        ("<p onclick=x>a", "<p>a</p>"),
        ("</div></details>a", "a"),
        ("<b><i>a</b>c", "<b><i>a</i></b>c"),
        ("<p style='color: red; background: url(//h)'>a</p>", '<p style="color: red">a</p>'),
        ("<p style='margin: -9999px; color: red'>a</p>", '<p style="color: red">a</p>'),
        ("<p style='margin: 0 auto'>a</p>", '<p style="margin: 0 auto">a</p>'),
        ("a < b & c", "a &lt; b &amp; c"),
        ("<!-- a", ""),
        ("&lt;script&gt;", "&lt;script&gt;"),
        ("<p id=x class='jp-Dialog dataframe'>a</p>", '<p class="dataframe">a</p>'),
    ],
)
def test_what_is_not_allowed_goes(html, made) -> None:
    assert sanitize_output(html) == made


def test_a_link_opens_elsewhere() -> None:
    made = sanitize_output('<a href="https://host/?a=1&amp;b=2">x</a>')

    assert made == (
        '<a href="https://host/?a=1&amp;b=2" rel="noopener noreferrer" target="_blank">x</a>'
    )


@settings(max_examples=examples(1_000), derandomize=True, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=12).map("".join))
def test_nothing_else_is_ever_made(html) -> None:
    made = sanitize_output(html)

    found = Found(made)
    assert set(found.tags) <= TAGS
    allowed = ATTRIBUTES | {"class", "style", "href", "src", "rel", "target"}
    assert {name for name, _ in found.attributes} <= allowed
    assert all("script:" not in (value or "") for name, value in found.attributes if name == "href")
    assert sanitize_output(made) == made


@pytest.mark.parametrize("piece", ["<", "<!--", "<script>", "<b", "<p ", "&", "</p>", "<p a=", "'"])
def test_two_megabytes_of_anything_take_moments(piece) -> None:
    begun = time.process_time()

    sanitize_output(piece * (1_000_000 // len(piece)))

    assert time.process_time() - begun < 10
