"""Quote foreign text in our sentences, shortened and made printable."""

from __future__ import annotations

MOST_CHARACTERS = 60


def shown(value: object, most: int = MOST_CHARACTERS) -> str:
    """Return ``value`` as error messages quote it, shortened if it is long."""
    return shortened(repr(value), most)


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return the beginning of a text, with a mark if it was cut."""
    return text if len(text) <= most else f"{text[:most]}…"


def one_line(text: str, most: int = 300) -> str:
    """Return text of another machine as part of one line: printable, and not too long."""
    words = " ".join(shortened(text, 4 * most).split())
    return shortened("".join(c if c.isprintable() else "?" for c in words), most)
