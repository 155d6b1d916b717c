"""Generate the TypeScript types of the messages between page and server.

The classes are in ``workbench.pages.protocol`` and ``workbench.pages.requests``.

python extension/messages.py          # write extension/src/messages.ts
python extension/messages.py --check  # only say whether it is out of step
"""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections import abc
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from workbench.core.performance.step_sampling import LABELS
from workbench.core.run.metrics import FAMILIES, Family
from workbench.pages.protocol import (
    MESSAGES,
    RUN_TYPE,
    STORE_TROUBLE,
    UNKNOWN_RUN,
    FollowMessage,
    Piece,
    StepPart,
)
from workbench.pages.requests import REQUESTS, PageMessage

TARGET = Path(__file__).parent / "src" / "messages.ts"
WIDTH = 80
EITHER = (types.UnionType, Union)
PLAIN = {
    str: "string", bytes: "string", int: "number", float: "number", bool: "boolean",
    object: "unknown",
}  # fmt: skip
UNIONS = {
    StepPart: (
        "StepPart",
        "A part of a step; communication is waiting and moving, if not separate.",
    ),
    Family: (
        "Family",
        "What kind of quantity is measured; a share is between 0 and 1, or in percent.",
    ),
    Piece: (
        "Piece",
        "A rank, and what it wrote; or displays at a new place or at an earlier one, with a text "
        "for it; or that it took away all of that.",
    ),
    FollowMessage: ("ServerMessage", "A message over the WebSocket of a page that follows a run."),
    PageMessage: ("PageMessage", "A message of such a page."),
}
PAIRS = ",".join(f"\n  [{part!r}, {name!r}]" for part, name in LABELS.items())
CONSTANTS = (
    ("RUN_TYPE", "", repr(RUN_TYPE), "The MIME type of a run in a cell's output."),
    ("UNKNOWN_RUN", "", UNKNOWN_RUN, "The WebSocket's close code if the run is not known."),
    ("STORE_TROUBLE", "", STORE_TROUBLE, "That if the store cannot be read."),
    (
        "FAMILIES", ": readonly Family[]", f"[{', '.join(map(repr, FAMILIES))}]",
        "The families in the order in which they are shown.",
    ),
    (
        "STEP_PARTS", ": readonly (readonly [StepPart, string])[]", f"[{PAIRS}\n]",
        "The parts of a step with their names, in the order in which they are shown.",
    ),
)  # fmt: skip
ALL = (*MESSAGES, *REQUESTS)
HEAD = """\
/**
 * The messages between page and server: written by `extension/messages.py` from
 * `workbench/pages/protocol.py` and `requests.py`, and not to be changed here.
 */
"""


def text() -> str:
    """Return the TypeScript module."""
    hints = {kind: get_type_hints(kind) for kind in ALL}
    enums = dict.fromkeys(
        one for found in hints.values() for hint in found.values() for one in _enums(hint)
    )
    parts = [_union(one.__name__, _said(one)[0], [repr(str(m)) for m in one]) for one in enums]
    parts += [_union(*names, [*map(_member, get_args(one))]) for one, names in UNIONS.items()]
    parts += [
        f"/** {said} */\nexport const {name}{kind} = {value};\n"
        for name, kind, value, said in CONSTANTS
    ]
    parts += [_interface(kind, hints[kind]) for kind in ALL]
    return "\n".join([HEAD, *parts])


def _member(one: Any) -> str:
    return repr(one) if isinstance(one, str) else _type(one)


def _enums(hint: Any) -> Iterator[type[Enum]]:
    if isinstance(hint, type) and issubclass(hint, Enum):
        yield hint
    for one in get_args(hint):
        yield from _enums(one)


def _union(name: str, said: str, members: list[str]) -> str:
    one_line = f"export type {name} = {' | '.join(members)};"
    if len(one_line) > WIDTH:
        one_line = f"export type {name} =\n  {' | '.join(members)};"
    if max(map(len, one_line.split("\n"))) > WIDTH:
        one_line = f"export type {name} =" + "".join(f"\n  | {one}" for one in members) + ";"
    return f"/** {said} */\n{one_line}\n"


def _interface(kind: type[Struct], hints: Mapping[str, Any]) -> str:
    said, notes = _said(kind)
    parents = [_name(one) for one in kind.__bases__ if one in ALL]
    own = inspect.get_annotations(kind)
    lines = [f"/** {said} */"]
    lines.append(f"export interface {' extends '.join([_name(kind), *parents])} {{")
    if tag := kind.__struct_config__.tag:
        lines.append(f"  {kind.__struct_config__.tag_field}: {tag!r};")
    for field in fields(kind):
        if field.name in own:
            if note := notes.get(field.name):
                lines.append(f"  /** {note} */")
            required = field.default is NODEFAULT and field.default_factory is NODEFAULT
            mark = "" if required else "?"
            lines.append(f"  {field.name}{mark}: {_type(hints[field.name])};")
    return "\n".join([*lines, "}", ""])


def _said(kind: type[Any]) -> tuple[str, dict[str, str]]:
    """Return the first sentence of a class's docstring, and what it says of each field."""
    said, _, arguments = inspect.cleandoc(kind.__doc__ or "").partition("\n\nArgs:\n")
    notes = dict(re.findall(r"^    (\w+): (.*(?:\n        .*)*)", arguments, re.MULTILINE))
    return _flat(said), {name: _flat(note) for name, note in notes.items()}


def _flat(sentence: str) -> str:
    return " ".join(sentence.replace("``", "`").split())


def _name(kind: type[Any]) -> str:
    return f"I{kind.__name__.removesuffix('Message')}"


def _type(hint: Any) -> str:
    if hint in PLAIN:
        return PLAIN[hint]
    if hint in UNIONS:
        return UNIONS[hint][0]
    if hint is type(None):
        return "null"
    if isinstance(hint, type) and hint in ALL:
        return _name(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint.__name__
    given = get_args(hint)
    match get_origin(hint):
        case origin if origin in EITHER:
            return " | ".join(map(_type, given))
        case origin if origin is Literal:
            return " | ".join(map(repr, given))
        case origin if origin is tuple and given[-1] is Ellipsis:
            one = _type(given[0])
            is_union = get_origin(given[0]) in EITHER and given[0] not in UNIONS
            return f"({one})[]" if is_union else f"{one}[]"
        case origin if origin is tuple:
            return f"[{', '.join(map(_type, given))}]"
        case abc.Mapping if given[0] is str:
            return f"{{ [name: string]: {_type(given[1])} }}"
        case abc.Mapping:
            return f"{{ [name in {_type(given[0])}]?: {_type(given[1])} }}"
    raise TypeError(f"{hint} has no type in TypeScript here; add it to _type.")


def main() -> int:
    """Write the module, or compare it."""
    found = text()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(found, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != found:
        print(f"{TARGET} is out of step; run `python extension/messages.py`.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
