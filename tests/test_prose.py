"""Sentences are plain technical English: words of another kind are found and named."""

from __future__ import annotations

import io
import json
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__)
ROOT = HERE.parents[1]
# What is checked; the rest of the package follows.
ROOMS = (
    "benchmarks",
    "tests",
    "workbench/__init__.py",
    "workbench/analysis",
    "workbench/cli",
    "workbench/core",
    "workbench/cloud",
    "workbench/cluster",
    "workbench/compat",
    "workbench/demo",
    "workbench/engine",
    "workbench/errors.py",
    "workbench/node",
    "workbench/notebook",
    "workbench/requests",
    "workbench/server",
    "workbench/store",
    "workbench/supervisor",
    "workbench/surfaces.py",
    "workbench/view",
    "extension/src",
    "notebooks",
    "docs",
    "README.md",
)
# A pattern, and what to write in its place.
BANNED = {
    r"told|foretold": "reported, predicted, known",
    r"foretells?|foretelling": "predict",
    r"lent|lends?|lenders?|lending": "rented, provide, provider",
    r"who(?:m|so)?ever": "the user, the caller, or the passive voice",
    r"amiss": "wrong, a problem",
    r"anew": "again, or re-",
    r"mend(?:s|ed|ing)?": "fix, repair, handle",
    r"whence|thence|hence(?:forth)?|hitherto|whither": "from where, so, until now",
    r"thereof|whereof|hereof|therein|wherein": "of it, in it",
    r"bears?|bearing|borne": "has, carries",
    r"stood|stands?(?! (?:for|out)\b)": "is, is up, is ready",
    r"nobodys?|somebody": "no user, no process, someone",
    r"pretend(?:s|ed|ing)?": "simulated",
    r"(?:will|would) not do": "is not valid",
    r"go(?:es|ne|ing)? on(?! (?:the|each|every|a)\b)": "continue, be active",
    r"sa(?:y|ys|id|ying) yes": "confirm",
    r"what is so": "the observed state",
    r"if not\.(?=\W*$)": "(default: …)",
    r"taken? (?:him|her|it|them)?sel(?:f|ves)": "the plain verb",
    r"of (?:its|their|one's) own accord": "automatically",
    r"some day|by and by|now and then": "later, periodically",
    r"(?<!each )(?<!none )(?<!some )(?<!most )(?<!\bone )(?<!all )(?<!\()of which": (
        "a sentence of its own"
    ),
    r"(?<!such )as of": "as in, from, at",
    r"by now": "already",
    r"that (?:is|are) none": "invalid",
    r"for ever": "forever, without end",
    r"forese(?:e[ns]?|eing)": "predict, plan",
    r"not among what": "the noun that is meant",
    r"(?<=[,;] )for it (?:is|was|has|had|can|could|would)": "because it …",
    r"comes? to no|came to no": "does not reach, has no",
}
PATTERN = re.compile(
    "|".join(rf"(?P<w{number}>(?<![\w-])(?:{one})(?![\w-]))" for number, one in enumerate(BANNED)),
    re.IGNORECASE,
)
# Files and what they may say nevertheless, with the reason.
ALLOWED: dict[str, tuple[str, ...]] = {
    # the name of a user of every Unix
    "tests/store/test_paths.py": ("belongs to nobody",),
}
FIELD = re.compile(r"(?<!\{)\{[^{}\n]*\}")  # what an f-string fills in
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
SCRIPT = re.compile(
    r"""/\*(.*?)\*/|(?<![:'"`\w])//([^\n]*)|'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`""",
    re.DOTALL,
)
TEXT = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def texts(path: Path, source: str) -> Iterator[tuple[int, str]]:
    """Give each text of a file that a person reads, with the line where it begins.

    The names in Python code are texts, too, with a space for each underscore.
    """
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in TEXT:
                yield token.start[0], FIELD.sub("", token.string)
            elif token.type == tokenize.NAME:
                yield token.start[0], token.string.replace("_", " ").replace("stand in", "stand-in")
    elif path.suffix in {".ts", ".tsx"}:
        for found in SCRIPT.finditer(source):
            yield source.count("\n", 0, found.start()) + 1, next(filter(None, found.groups()), "")
    elif path.suffix == ".ipynb":
        for cell in json.loads(source)["cells"]:
            if cell["cell_type"] == "markdown":
                yield 1, CODE.sub("", "".join(cell["source"]))
    else:
        yield 1, CODE.sub(lambda found: re.sub(r"[^\n]", "", found[0]), source)


@cache
def banned_in(text: str) -> tuple[re.Match[str], ...]:
    """Return what a text has of them; most names come back in many files."""
    return (*PATTERN.finditer(text),)


def faults(path: Path, source: str, allowed: tuple[str, ...] = ()) -> Iterator[str]:
    """Give each banned word of a file: where it is, and what to write instead."""
    for start, text in texts(path, source):
        for found in banned_in(text):
            begin = text.rfind("\n", 0, found.start()) + 1
            line = text[begin : (text + "\n").index("\n", found.start())]
            if not any(one in line for one in allowed):
                better = list(BANNED.values())[int(str(found.lastgroup)[1:])]
                number = start + text.count("\n", 0, found.start())
                yield f"{path.name}:{number}: {found[0]!r} in {line.strip()!r}; write: {better}"


def files(room: str) -> Iterator[Path]:
    top = ROOT / room
    found = sorted(top.rglob("*")) if top.is_dir() else [top]
    for path in found:
        parts = path.relative_to(ROOT).parts
        is_text = path.suffix in {".ipynb", ".md", ".py", ".ts", ".tsx"}
        if is_text and path != HERE and not {"__tests__", "_build", "tutorials"} & {*parts}:
            yield path


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_no_banned_word(room: str) -> None:
    found = [
        fault
        for path in files(room)
        for fault in faults(
            path,
            path.read_text(encoding="utf-8"),
            ALLOWED.get(path.relative_to(ROOT).as_posix(), ()),
        )
    ]

    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("name", "source", "word"),
    [
        ("a.py", '"""Say what is foretold of a run."""\n', "foretold"),
        ("a.py", "x = 1  # nobody looks\n", "nobody"),
        ("a.py", "def test_it_goes_on():\n    pass\n", "goes on"),
        ("a.py", "TOLD = 1\n", "TOLD"),
        ("a.py", 'say(f"Nodes; 1, if not.{end}")\n', "if not."),
        ("a.py", 'help = "Where to buy; AWS\'s own setting, if not."\n', "if not."),
        ("a.ts", "/** Draw the curves\n * anew. */\n", "anew"),
        ("a.ts", "trans.__('The number will not do.');\n", "will not do"),
        ("a.tsx", "const a = 1; // what bears a tag\n", "bears"),
        ("a.md", "The run goes on when the page is closed.\n", "goes on"),
        ("a.md", "Three hosts, of which the last is slow.\n", "of which"),
        ("a.md", "A name as of another page.\n", "as of"),
        ("a.ipynb", '{"cells": [{"cell_type": "markdown", "source": ["Drawn anew."]}]}', "anew"),
    ],
)
def test_a_banned_word_is_found_where_a_person_reads_it(name: str, source: str, word: str) -> None:
    (found,) = faults(Path(name), source)

    assert repr(word) in found


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.py", "stand_in = standing(stands_for)\n"),
        ("a.py", '"A symbol that stands for a sum; it stands out."\n'),
        ("a.py", '"Where the time goes on each rank."\n'),
        ("a.py", '"Ways, none of which checks a sum, such as of two nodes."\n'),
        ("a.ts", "const told = somebody(anew);\n"),
        ("a.md", "The field `told` and\n```python\ntold = 1\n```\n"),
    ],
)
def test_names_in_scripts_and_other_meanings_are_left_alone(name: str, source: str) -> None:
    assert not [*faults(Path(name), source)]


def test_an_allowed_phrase_excuses_its_own_line_alone() -> None:
    source = '"""Lend a lock."""\n"""Lend a node."""\n'

    (found,) = faults(Path("a.py"), source, allowed=("Lend a lock",))

    assert "a node" in found


def test_every_allowed_phrase_is_still_needed() -> None:
    for name, phrases in ALLOWED.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        assert [one for one in phrases if one not in text] == [], name
