r"""HTML elements with escaped text, which no page renders as mathematics.

Each character that can begin mathematics (``$``, and the backslash of ``\(``, ``\[`` and
``\begin``) gets its own element. MathJax never reads across elements, in JupyterLab as on nbviewer
and GitHub, whether a sanitizer keeps classes or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape, unescape

TAGS = frozenset({
    "a", "abbr", "article", "b", "blockquote", "br", "caption", "center", "cite", "code", "col",
    "colgroup", "dd", "del", "details", "dfn", "div", "dl", "dt", "em", "figcaption", "figure",
    "font", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "ins", "kbd", "li", "main",
    "mark", "meter", "ol", "p", "pre", "progress", "q", "s", "samp", "section", "small", "span",
    "strike", "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead",
    "time", "tr", "tt", "u", "ul", "var",
})  # fmt: skip
VOID = frozenset({"br", "col", "hr", "img"})
# Their content is not text for a reader.
DROPPED = frozenset({
    "applet", "embed", "frameset", "head", "iframe", "math", "noembed", "noframes", "noscript",
    "object", "plaintext", "script", "select", "style", "svg", "template", "textarea", "title",
    "xmp",
})  # fmt: skip
ATTRIBUTES = frozenset({
    "align", "alt", "aria-label", "border", "cellpadding", "cellspacing", "color", "colspan",
    "dir", "height", "lang", "max", "min", "open", "reversed", "rowspan", "scope", "span", "start",
    "title", "valign", "value", "width",
})  # fmt: skip
CLASSES = frozenset({"dataframe"})
STYLES = frozenset({
    "background-color", "border", "border-collapse", "color", "display", "font-family",
    "font-size", "font-style", "font-weight", "height", "margin", "max-height", "max-width",
    "min-width", "overflow", "overflow-x", "overflow-y", "padding", "text-align",
    "text-decoration", "vertical-align", "white-space", "width",
})  # fmt: skip
DEEPEST = 100

_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)((?:[\s/][^<>]*)?)>")
_ATTRIBUTE = re.compile(r"([A-Za-z][A-Za-z-]*)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'=]+)))?")
_LINK = re.compile(r"(?:https?://|mailto:)[^\s\\]+", re.IGNORECASE)
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif);base64,[A-Za-z0-9+/]+={0,2}")
_STYLE_VALUE = re.compile(r"[\w#%., +-]+|rgba?\([\d., %]+\)")

_SIGN = re.compile(r"[$\\]")
_CODE = re.compile("`([^`]+)`")


class Html(str):
    """Text that is safe HTML, unlike ordinary strings."""

    __slots__ = ()


def words(text: str) -> Html:
    """Return text as HTML that shows the same characters."""
    if isinstance(text, Html):
        return text
    return Html(_SIGN.sub(_isolate, escape(text, quote=False)))


def sentence(text: str) -> Html:
    """Return text as HTML, with the parts in backticks as code."""
    if isinstance(text, Html):
        return text
    # Every second part is a match of the pattern's group.
    parts = enumerate(_CODE.split(text))
    return join_html(element("code", part) if place % 2 else words(part) for place, part in parts)


def element(name: str, /, *content: str, **attributes: str | float | bool | None) -> Html:
    """Return an element, whose ordinary text is escaped.

    Args:
        attributes: ``class_`` and ``aria_label`` are ``class`` and ``aria-label``. True is an
            attribute without a value; None and False are omitted.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_quote(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    inside = "" if name in VOID else f"{join_html(content)}</{name}>"
    return Html(f"<{name}{written}>{inside}")


def join_html(parts: Iterable[str]) -> Html:
    """Return parts one after another, with ordinary text escaped."""
    return Html("".join(map(words, parts)))


def image(
    data: str,
    description: str,
    kind: str = "image/png",
    style: str = "max-width: 100%; width: 810px",
    **sides: int,
) -> Html:
    """Return a picture, given in base64, that needs no other file."""
    source = f"data:{kind};base64,{data}"
    return element("img", alt=description, src=source, **sides, style=style)


def _isolate(sign: re.Match[str]) -> str:
    return f"<span>&#{ord(sign[0])};</span>"


def _quote(value: str | float) -> str:
    return escape(str(value), quote=True)


def sanitize_output(html: str) -> Html:
    """Return the output of user code without anything that runs or fetches, every tag closed.

    Ranks are not trusted, but a page trusts the output of a notebook that the user has run. So only
    known tags with known attributes are kept. Mathematics stays as written. The time grows linearly
    with the length of ``html``, whatever its content.
    """
    made, open_tags = list[str](), list[str]()
    for tag, closes, attributes, text in _parts(html):
        if not tag:
            made.append(escape(unescape(text), quote=False))
        elif closes:
            made.extend(_closing(tag, open_tags))
        elif tag in VOID:
            made.append(f"<{tag}{_attributes(tag, attributes)}>")
        elif len(open_tags) < DEEPEST:
            open_tags.append(tag)
            made.append(f"<{tag}{_attributes(tag, attributes)}>")
    made += [f"</{tag}>" for tag in reversed(open_tags)]
    return Html("".join(made))


def _parts(html: str) -> Iterator[tuple[str, bool, str, str]]:
    """Yield tags (name, whether it closes, attributes) and, without a name, text between them."""
    place = 0
    while place < len(html):
        start = html.find("<", place)
        if start != place:
            end = len(html) if start < 0 else start
            yield "", False, "", html[place:end]
            place = end
        elif html.startswith("<!--", place):
            end = html.find("-->", place + 4)
            place = len(html) if end < 0 else end + 3  # as in a page: the rest is a comment
        elif html.startswith(("<!", "<?"), place):
            end = html.find(">", place)
            place = len(html) if end < 0 else end + 1
        elif (found := _TAG.match(html, place)) is None:
            yield "", False, "", "<"
            place += 1
        else:
            closes, name, attributes = bool(found[1]), found[2].lower(), found[3]
            place = found.end()
            if name in DROPPED and not closes:
                place = _behind(html, name, place)
            elif name in TAGS:
                yield name, closes, attributes, ""


def _behind(html: str, name: str, place: int) -> int:
    """Return the position after an element whose content is not shown."""
    end = re.compile(rf"</{name}[\s/>]", re.IGNORECASE).search(html, place)
    close = html.find(">", end.start()) if end else -1
    return len(html) if close < 0 else close + 1


def _closing(tag: str, open_tags: list[str]) -> Iterator[str]:
    """Close ``tag`` and the tags opened in it; one that was never opened is ignored."""
    if tag in open_tags:
        while (inner := open_tags.pop()) != tag:
            yield f"</{inner}>"
        yield f"</{tag}>"


def _attributes(tag: str, text: str) -> str:
    kept = dict[str, str]()
    for found in _ATTRIBUTE.finditer(text):
        name = found[1].lower()
        value = unescape(found[2] or found[3] or found[4] or "")
        chosen = _value(tag, name, value)
        if chosen is not None:
            kept.setdefault(name, chosen)
    if "href" in kept:
        kept |= {"rel": "noopener noreferrer", "target": "_blank"}
    return "".join(f' {name}="{escape(value, quote=True)}"' for name, value in kept.items())


def _value(tag: str, name: str, value: str) -> str | None:
    """Return an attribute's value, or None if the attribute is dropped."""
    if name in ATTRIBUTES:
        return value
    if name == "class":
        return " ".join(CLASSES & set(value.split())) or None
    if name == "style":
        return _style(value) or None
    if name == "href" and tag == "a" and _LINK.fullmatch(value):
        return value
    if name == "src" and tag == "img" and _PICTURE.fullmatch("".join(value.split())):
        return "".join(value.split())
    return None


def _style(value: str) -> str:
    kept = []
    for declaration in value.split(";"):
        name, _, what = (part.strip() for part in declaration.partition(":"))
        # What has a negative margin would be drawn over other parts of the page.
        leaves = name.lower() == "margin" and "-" in what
        if name.lower() in STYLES and not leaves and _STYLE_VALUE.fullmatch(what):
            kept.append(f"{name.lower()}: {what}")
    return "; ".join(kept)
