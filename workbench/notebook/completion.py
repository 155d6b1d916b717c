"""Tab completion of options, names and files in the lines of our magics."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

from workbench.core.option import Option
from workbench.notebook.magicspecs import MAGICS, SCRIPT_MAGICS, magic_options
from workbench.store.name_lists import names_offered

MOST = 200
_LINE = re.compile(r"\s*(?:[\w.]+\s*=\s*)?(%{1,2})(dist_\w+)\s(.*)", re.DOTALL)


@dataclass(frozen=True)
class Completions:
    """The completions of the last word.

    Args:
        typed: The end of the line that is replaced.
    """

    typed: str
    texts: tuple[str, ...] = ()


def complete_line(line: str) -> Completions | None:
    """Return the completions of a line; None if it is not a line of our magics.

    Args:
        line: Up to the cursor.
    """
    found = _LINE.fullmatch(line)
    if found is None or found[2] not in MAGICS:
        return None
    magic, options = f"{found[1]}{found[2]}", magic_options(found[2])
    *given, typed = re.split(r"\s+", found[3].lstrip()) or [""]
    by_name = {name: option for option in options for name in option.spellings}
    before, equals, value = typed.partition("=")
    if equals and (named := by_name.get(before)) is not None:
        return _keep_fitting(value, _values(named))
    last = by_name.get(given[-1]) if given else None
    if last is not None and not last.is_flag and not last.is_word:
        return _keep_fitting(typed, _values(last))
    words = _words(given, by_name)
    if magic in SCRIPT_MAGICS and (words or not typed.startswith("-")):
        return Completions(typed, tuple(_files(typed, scripts=not words)))
    texts = [] if typed.startswith("-") else [t for o in options if o.is_word for t in _values(o)]
    texts += [one.spellings[-1] for one in options if not one.is_word and _is_free(one, given)]
    return _keep_fitting(typed, [text for text in texts if text not in words])


@context_matcher(identifier="workbench.magics")  # type: ignore[untyped-decorator]  # IPython's own has no types
def matcher(context: CompletionContext) -> dict[str, Any]:
    """Return the completions of the cursor's line, as IPython's only ones."""
    line = context.line_with_cursor[: context.cursor_position]
    is_cell_magic = line.lstrip().startswith("%%")
    found = None if is_cell_magic and context.cursor_line else complete_line(line)
    if found is None:
        return {"completions": []}
    return {
        "completions": [SimpleCompletion(text=text, type="magic") for text in found.texts],
        "matched_fragment": found.typed,
        "suppress": bool(found.texts),
        "ordered": True,
    }


def add_to(shell: Any) -> None:
    """Add our completions to this shell."""
    if matcher not in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.append(matcher)


def remove_from(shell: Any) -> None:
    """Remove our completions from this shell."""
    if matcher in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(matcher)


def _values(option: Option) -> list[str]:
    if option.offers == "parameters":
        return names_offered(option.offers)
    return [quote(name) for name in option.value.names or names_offered(option.offers)]


def _keep_fitting(typed: str, texts: Iterable[str]) -> Completions:
    bare = typed.lstrip("'\"")
    fitting = [text for text in texts if text.lstrip("'\"").startswith(bare)]
    return Completions(typed, tuple(fitting[:MOST]))


def _words(given: list[str], by_name: dict[str, Option]) -> list[str]:
    """Return the words that are not options or their values."""
    words, takes = list[str](), False
    for word in given:
        option = by_name.get(word)
        if not takes and (words or not word.startswith("-")):
            words.append(word)
        takes = not takes and not words and option is not None and not option.is_flag
    return words


def _is_free(option: Option, given: list[str]) -> bool:
    return option.many or {*option.spellings}.isdisjoint(given)


def _files(typed: str, *, scripts: bool) -> list[str]:
    """Return the files and folders that start with the typed text, optionally only scripts."""
    folder, _, start = typed.rpartition("/")
    base = f"{folder}/" if "/" in typed else ""
    with contextlib.suppress(OSError, RuntimeError):
        there = sorted(os.scandir(Path(base or ".").expanduser()), key=lambda entry: entry.name)
        fitting = [
            entry
            for entry in there
            if entry.name.startswith(start) and (start or not entry.name.startswith("."))
        ]
        chosen = [e for e in fitting if e.is_dir() or not scripts or e.name.endswith(".py")]
        return [_path(base, entry) for entry in (chosen or fitting)[:MOST]]
    return []


def _path(base: str, entry: os.DirEntry[str]) -> str:
    text = f"{base}{entry.name}{'/' if entry.is_dir() else ''}"
    return text if text.startswith("~") else quote(text)
