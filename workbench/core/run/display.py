"""The displays of ranks: parts, MIME types and size limits."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from workbench.core.messages import BaseMessage, Count, Time

PLAIN = "text/plain"
HTML = "text/html"
MARKDOWN = "text/markdown"
LATEX = "text/latex"
SVG = "image/svg+xml"
JSON = "application/json"
IMAGES = ("image/png", "image/jpeg", "image/gif")
MIME_TYPES = frozenset({PLAIN, HTML, MARKDOWN, LATEX, SVG, JSON, *IMAGES})

DISPLAY: Final = "display"
UPDATE: Final = "update"
CLEAR: Final = "clear"
Action = Literal["display", "update", "clear"]

MOST_CHARACTERS = 2_000_000  # of one display, as it is sent
RUN_CHARACTERS = 20_000_000  # of all displays of a rank that exist at a time
RUN_DISPLAYS = 500  # likewise
PLAIN_CHARACTERS = 10_000  # of the text form of a display in a log
MOST_PIXELS = 20_000

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def _one_of(*texts: str) -> msgspec.Meta:
    return msgspec.Meta(pattern=rf"\A(?:{'|'.join(map(re.escape, texts))})\Z")


_MimeType = Annotated[str, _one_of(*sorted(MIME_TYPES))]
_ImageType = Annotated[str, _one_of(*IMAGES)]
_Side = Annotated[str, _one_of("width", "height")]
_Pixels = Annotated[int, msgspec.Meta(ge=1, le=MOST_PIXELS)]


class Display(BaseMessage, frozen=True, array_like=True, tag="display"):
    """One display of a rank, in the order of its output.

    Args:
        action: ``display`` for a new place, ``update`` for new content of a place, ``clear`` to
            remove all earlier displays and output of the rank.
        time: Epoch seconds by the rank's own clock.
        place: Numbers the places of a rank in its run, from 1; 0 for ``clear``.
        data: By MIME type: text, images in base64, JSON as text.
        metadata: For an image's MIME type its ``width`` and ``height`` in pixels.
    """

    action: Action
    time: Time
    place: Count = 0
    data: Mapping[_MimeType, str] = {}
    metadata: Mapping[_ImageType, Mapping[_Side, _Pixels]] = {}

    def __post_init__(self) -> None:
        """Raise ValueError if it is too large, or an image is not in base64."""
        # Our own ranks limit it already; the limit here is larger, so that their sentence fits.
        if self.size > MOST_CHARACTERS + PLAIN_CHARACTERS:
            raise ValueError(f"A display has {self.size:,} characters")
        for kind, text in self.data.items():
            if kind in IMAGES and not _BASE64.fullmatch(text):
                raise ValueError(f"The display's {kind} is not in base64")

    @property
    def size(self) -> int:
        """Characters of its data."""
        return size_of(self.data)

    @property
    def words(self) -> str:
        """Its text form for views without rich output, in whole lines."""
        text = self.data.get(PLAIN) or f"<{', '.join(sorted(self.data)) or 'nothing'}>"
        return text[:PLAIN_CHARACTERS].rstrip("\n") + "\n"


def size_of(data: Mapping[str, str]) -> int:
    """Return the characters of a display's data."""
    return sum(map(len, data.values()))


def bundle_from(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the supported part of a MIME bundle: the known types, each as text."""
    carried = {kind: _as_text(kind, value) for kind, value in data.items() if kind in MIME_TYPES}
    return {kind: text for kind, text in carried.items() if text is not None}


def limit_display(data: Mapping[str, str]) -> dict[str, str]:
    """Return ``data``, or a sentence in its place if it is too large for one display."""
    if size_of(data) <= MOST_CHARACTERS:
        return dict(data)
    words = data.get(PLAIN, "")
    kinds = ", ".join(sorted(data))
    notice = (
        f"{kinds} of {size_of(data):,} characters is left out: a display of a rank may have "
        f"{MOST_CHARACTERS:,}."
    )
    return {PLAIN: f"{words}\n{notice}" if 0 < len(words) <= 200 else notice}


def sizes_from(metadata: object) -> dict[str, dict[str, int]]:
    """Return the supported part of a bundle's metadata: the sizes of images."""
    found = {}
    for kind in IMAGES:
        given = metadata.get(kind) if isinstance(metadata, Mapping) else None
        if isinstance(given, Mapping):
            sides = {side: given.get(side) for side in ("width", "height")}
            found[kind] = {
                side: int(pixels)
                for side, pixels in sides.items()
                if isinstance(pixels, (int, float)) and 0 < pixels <= MOST_PIXELS
            }
    return found


def _as_text(kind: str, value: Any) -> str | None:
    if kind in IMAGES:
        text = b64encode(value).decode() if isinstance(value, bytes) else value
        text = "".join(text.split()) if isinstance(text, str) else ""  # some libraries wrap base64
        return text if _BASE64.fullmatch(text) else None
    if kind == JSON and not isinstance(value, str):
        return _as_json(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, str) else None


def _as_json(value: Any) -> str | None:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
