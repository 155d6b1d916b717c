"""HTML is written in one place, is no mathematics, and runs nothing of what ranks display."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.view.pages import mathematics, text_of
from tests.weekly import examples
from workbench.view.html import (
    ATTRIBUTES,
    DROPPED,
    TAGS,
    Html,
    element,
    join_html,
    sanitize_output,
    sentence,
    words,
)

PACKAGE = Path(__file__).parents[2] / "workbench"
# What a rank displays is made harmless where it is stored.
WRITERS = {"view/html.py", "engine/output/widget_displays.py"}
_TAG = re.compile(rf"</?(?:{'|'.join(sorted({*TAGS, *DROPPED}))})[\s/>]")
_MAKER = re.compile(r"(^|\.)(HTML|HTMLMath|Markdown|Math|Latex|Html)$")
NASTY = [
    "Price: $0.08/h now, $0.0013 spent",
    r"\(x^2\) and \[y\] and \begin{align}z\end{align} and \$1\$",
    "$$x$$ <b>bold</b> &amp; `code` `$a$`",
]


@pytest.mark.parametrize("text", NASTY)
def test_text_is_shown_with_its_own_characters_and_no_mathematics(text: str) -> None:
    for made in (words(text), element("p", text), element("td", element("b", text), text)):
        assert not [*mathematics(made)]
        assert text in text_of(made)


def test_what_is_to_be_typed_is_set_apart_with_its_dollars() -> None:
    assert sentence("Use `$HOME` <now>") == ("Use <code><span>&#36;</span>HOME</code> &lt;now&gt;")
    assert not [*mathematics(sentence("`a` $x$ `b` $y$"))]


def test_what_a_persons_own_code_displays_keeps_its_mathematics() -> None:
    assert sanitize_output("<p>$x^2$</p><script>x</script>") == "<p>$x^2$</p>"
    assert [*mathematics(sanitize_output("<p>$x^2$</p>"))] == ["$x^2$"]


def test_html_is_escaped_once_and_ordinary_text_always() -> None:
    inner = element("b", "a & b")

    assert element("p", inner, "<i>") == "<p><b>a &amp; b</b>&lt;i&gt;</p>"
    assert join_html([inner, inner + inner]) == f"{inner}{words(str(inner + inner))}"
    assert sentence(inner) == words(inner) == inner
    assert isinstance(join_html([]), Html)


def test_attributes_are_quoted_and_those_of_no_value_left_out() -> None:
    made = element("details", class_="a", aria_label='"<', open=True, hidden=False, title=None)

    assert made == '<details class="a" aria-label="&quot;&lt;" open></details>'
    assert element("br") == "<br>"


def written_tags(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the texts that hold a tag, but for docstrings."""
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in documented and _TAG.search(node.value):
            yield node


def escapes(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield what makes HTML by hand: the library's escaping, and widgets of HTML as they are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "html":
            yield node
        if isinstance(node, ast.Call) and _MAKER.search(ast.unparse(node.func)):
            yield node


def test_all_html_that_we_display_is_written_in_one_module() -> None:
    found = [
        f"{name}:{node.lineno} writes HTML; use workbench.view.html"
        for path in sorted(PACKAGE.rglob("*.py"))
        if (name := path.relative_to(PACKAGE).as_posix()) not in WRITERS
        for tree in [ast.parse(path.read_text(encoding="utf-8"))]
        for node in (*written_tags(tree), *escapes(tree))
    ]

    assert found == []


@pytest.mark.parametrize(
    "code", ["f'<p>{x}</p>'", "a = '<td'  '>'", "from html import escape", "widgets.HTML()"]
)
def test_html_by_hand_is_found(code: str) -> None:
    tree = ast.parse(code)

    assert [*written_tags(tree), *escapes(tree)]


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
