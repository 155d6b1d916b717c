"""The design's walk from a cell to its first point is short, and each of its files leads on."""

from __future__ import annotations

import re
from pathlib import Path

from tests.test_architecture import imports, parsed

ROOT = Path(__file__).parents[2]
MOST_FILES = 35


def walk() -> list[str]:
    """Return the files of the walk, in order."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    section = text.partition("### A cell to its first point\n")[2].partition("\n## ")[0]
    return re.findall(r"`([\w/]+\.(?:py|ts))`", section)


def test_a_cell_is_followed_to_its_first_point_in_few_files() -> None:
    files = walk()

    assert 20 < len(files) <= MOST_FILES
    assert len({*files}) == len(files)


def test_each_module_of_the_walk_knows_another_one_of_it() -> None:
    names = {
        f"workbench.{name[:-3].replace('/', '.')}": name for name in walk() if "/src/" not in name
    }
    known = {
        name: {
            other
            for other in names
            for one in imports(where, parsed((ROOT / "workbench" / where).read_text()), types=True)
            if other in (one, one.rpartition(".")[0]) and other != name
        }
        for name, where in names.items()
    }

    alone = [
        name
        for name, others in known.items()
        if not others and not any(name in some for some in known.values())
    ]
    assert alone == []
