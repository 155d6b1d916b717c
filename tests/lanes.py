"""Tell which modules of tests a lane can choose from, without importing them."""

from __future__ import annotations

import functools
import itertools
import re
from pathlib import Path

from _pytest.mark.expression import Expression

TESTS = Path(__file__).parent
NAMED = re.compile(r"\bmark\.(\w+)")
IMPORTED = re.compile(r"^\s*from (tests[\w.]*|\.\w*) import", re.MULTILINE)
# Each of its tests takes as long as many a module: parts share them.
SHARED = frozenset({TESTS / "browser" / "test_ui.py"})
# tests/conftest.py gives it to whole modules, by their names.
GIVEN = frozenset({"slow"})


def marks_possible(path: Path) -> frozenset[str]:
    """Return all marks that tests of a module may have: its own, and those of its fixtures."""
    folders = [folder for folder in path.parents if folder.is_relative_to(TESTS)]
    return GIVEN.union(_marks_of(path), *(_marks_of(one / "conftest.py") for one in folders))


@functools.cache
def can_choose(expression: str, possible: frozenset[str]) -> bool:
    """Return whether an expression of ``-m`` holds for any test with some of these marks."""
    names = sorted(possible.intersection(re.findall(r"\w+", expression)))
    compiled = Expression.compile(expression)
    return any(
        compiled.evaluate(functools.partial(_is_in, given))
        for count in range(len(names) + 1)
        for given in itertools.combinations(names, count)
    )


@functools.cache
def modules_of_part(expression: str, part: int, parts: int) -> frozenset[Path]:
    """Return the modules of one of several parts that together have all that can be chosen.

    Args:
        part: From 1 to ``parts``. A module of `SHARED` is in all of them.
    """
    every = sorted(TESTS.rglob("test_*.py"))
    chosen = [
        path for path in every if not expression or can_choose(expression, marks_possible(path))
    ]
    dealt = [path for path in chosen if path not in SHARED]
    return SHARED.intersection(chosen).union(dealt[part - 1 :: parts])


def _is_in(given: tuple[str, ...], name: str, /, **_: object) -> bool:
    """Answer for a mark; what its arguments are is known only to pytest."""
    return name in given


@functools.cache
def _marks_of(path: Path) -> frozenset[str]:
    """Return the marks that are named in a file and in what it imports from the tests."""
    seen: set[Path] = set()
    marks: set[str] = set()
    waiting = [path]
    while waiting:
        one = waiting.pop()
        if one in seen or not one.exists():
            continue
        seen.add(one)
        text = one.read_text(encoding="utf-8")
        marks.update(NAMED.findall(text))
        waiting += [_file_of(name, one) for name in IMPORTED.findall(text)]
    return frozenset(marks)


def _file_of(name: str, importer: Path) -> Path:
    if name.startswith("."):
        return importer.parent / f"{name[1:] or '__init__'}.py"
    path = TESTS.parent / name.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
