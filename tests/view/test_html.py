"""HTML is written in one place, and no page takes it for mathematics or markup."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.view.pages import mathematics, text_of
from workbench.view.html import (
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
