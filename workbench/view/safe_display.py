"""Convert a rank's displays to safe content: ranks are not trusted, and pages run scripts."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from workbench.core.run.display import HTML, IMAGES, JSON, MARKDOWN, PLAIN, SVG
from workbench.view.html import Html, element, image, sanitize_output

Data = Mapping[str, str]
Sizes = Mapping[str, Mapping[str, int]]

# In Markdown: tags, external images, and possible script URLs.
_RISKY = re.compile(r"<[A-Za-z/!?]|!\[|&#?\w+;|script\s*\\?:", re.IGNORECASE)


def notebook_bundle(data: Data) -> dict[str, Any]:
    """Return ``data`` as an output that is safe in a trusted notebook.

    An SVG picture becomes an image, in which no script runs.
    """
    made: dict[str, Any] = {kind: data[kind] for kind in data if kind not in (HTML, SVG, MARKDOWN)}
    if HTML in data:
        made[HTML] = sanitize_output(data[HTML])
    elif SVG in data and not made.keys() & {*IMAGES}:
        made[HTML] = picture(SVG, data[SVG])
    if MARKDOWN in data:
        is_risky = _RISKY.search(data[MARKDOWN]) is not None
        made.setdefault(PLAIN if is_risky else MARKDOWN, data[MARKDOWN])
    if JSON in made:
        made[JSON] = _parse(data[JSON])
    return made


def static_html(data: Data, metadata: Sizes) -> Html:
    """Return ``data`` as self-contained HTML: an image, safe markup, or text."""
    kind = next((kind for kind in IMAGES if kind in data), "")
    if HTML in data:
        return sanitize_output(data[HTML])
    if kind:
        return picture(kind, data[kind], data.get(PLAIN, ""), metadata.get(kind, {}))
    if SVG in data:
        return picture(SVG, data[SVG], data.get(PLAIN, ""))
    return element("pre", next(iter(data.values()), ""))


def picture(kind: str, data: str, words: str = "", size: Mapping[str, int] | None = None) -> Html:
    """Return an image, given in base64 or as SVG, as HTML."""
    encoded = b64encode(data.encode()).decode() if kind == SVG else data
    sides = {side: int(pixels) for side, pixels in (size or {}).items()}
    return image(encoded, words, kind, "max-width: 100%", **sides)


def _parse(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not valid JSON")
