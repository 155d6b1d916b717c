"""Quote foreign text in our sentences, shortened and made printable."""

from __future__ import annotations

MOST_CHARACTERS = 60


def quote_value(value: object, most: int = MOST_CHARACTERS) -> str:
    """Return ``value`` as error messages quote it, shortened if it is long."""
    return shorten_text(repr(value), most)


def shorten_text(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return the beginning of a text, with a mark if it was cut."""
    return text if len(text) <= most else f"{text[:most]}…"


def one_line(text: str, most: int = 300) -> str:
    """Return text of another machine as part of one line: printable, and not too long."""
    words = " ".join(shorten_text(text, 4 * most).split())
    return shorten_text("".join(c if c.isprintable() else "?" for c in words), most)
