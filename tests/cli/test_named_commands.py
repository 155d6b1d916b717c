"""Every `workbench …` command that a message names is there, with its options."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click

from workbench.cli import main

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"[`(]workbench ([^`)]+)[`)]")
FILLED_IN = "\0"
"""Stands for what a message has in place of its {…}."""


def texts_of(source: str) -> Iterator[str]:
    """Give all texts of a module, as they read when they are put together."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            pieces = (getattr(piece, "value", "") for piece in node.values)
            yield "".join(piece if isinstance(piece, str) else FILLED_IN for piece in pieces)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield " ".join(node.value.split())


def named_by_messages() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "workbench").rglob("*.py")):
        for text in texts_of(path.read_text()):
            yield from ((path.name, said) for said in NAMED.findall(text))


def mistake(said: str) -> str:
    """Return what of a command line is not there; nothing where all is."""
    command: click.Command = main
    for word in said.replace("[", " ").replace("]", " ").split():
        if word in ("·", "|", "#", "…") or FILLED_IN in word:
            return ""  # what follows is another line, or not known here
        if word.startswith("-") and word != "-":
            known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
            name = word.partition("=")[0].rstrip(",.;")
            if name not in known | {"--help", "-h"}:
                return f"`workbench {said}`: {command.name} has no {name}"
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word.rstrip(",.;:"))
            if found is None:
                return f"`workbench {said}`: there is no command {word}"
            command = found
    return ""


def test_each_command_that_is_named_can_be_typed() -> None:
    commands = [*named_by_messages()]

    assert commands
    assert [(where, wrong) for where, said in commands if (wrong := mistake(said))] == []


def test_a_command_or_an_option_that_is_not_there_is_found() -> None:
    assert "no command policy" in mistake("policy node")
    assert "has no --missing" in mistake("up 2 --missing")
    assert mistake(f"up {FILLED_IN}") == mistake("image bake") == ""
