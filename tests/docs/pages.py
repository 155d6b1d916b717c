"""Read the documentation's pages: their links and their blocks of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / ".github" / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
MARKDOWN = MarkdownIt().enable("table")


@dataclass(frozen=True)
class Block:
    """A block of code, and where it is."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    """Return all blocks of these languages."""
    return [
        Block(path.name, (token.map or [0])[0] + 1, token.info.strip(), token.content)
        for path in PAGES
        for token in MARKDOWN.parse(path.read_text(encoding="utf-8"))
        if token.type in ("fence", "code_block") and token.info.strip() in languages
    ]


def inline_code(text: str) -> Iterator[str]:
    """Give the text in backticks, outside of blocks."""
    for token in MARKDOWN.parse(text):
        for child in token.children or ():
            if child.type == "code_inline":
                yield child.content


def links(text: str) -> Iterator[str]:
    """Give where links and pictures lead."""
    for token in MARKDOWN.parse(text):
        for child in token.children or ():
            target = child.attrGet("href") or child.attrGet("src")
            if target:
                yield str(target)


def anchors(text: str) -> set[str]:
    """Return what links can name of a page, as GitHub and the site do."""
    tokens = MARKDOWN.parse(text)
    titles = (
        tokens[number + 1].content
        for number, token in enumerate(tokens)
        if token.type == "heading_open"
    )
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
