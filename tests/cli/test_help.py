"""The help of every command, and each command that a message names, is as the code has it."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from workbench.analysis.plan_inputs import RATE
from workbench.cli import main
from workbench.cli.demo import DEFAULT_RANKS
from workbench.cli.parsing import Command, Commands, import_object
from workbench.core.fleet.request import DEFAULT_TTL
from workbench.core.run.run_options import DEFAULT_GRACE


def commands_of(group: Commands, path: str = "") -> Iterator[tuple[str, Command | Commands]]:
    for name, command in group.commands.items():
        assert isinstance(command, Command | Commands)
        yield f"{path}{name}", command
        if isinstance(command, Commands):
            yield from commands_of(command, f"{path}{name} ")


EVERY = dict(commands_of(main))


def help_of(path: str, columns: int = 80) -> str:
    words = [*path.split(), "--help"]
    result = CliRunner().invoke(
        main, words, prog_name="workbench", terminal_width=columns, env={"COLUMNS": str(columns)}
    )
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("path", ["", *EVERY])
def test_nothing_of_a_help_is_cut_or_too_wide(path, columns) -> None:
    lines = help_of(path, columns).splitlines()

    assert [line for line in lines if len(line) > columns] == []
    assert [line for line in lines if line.rstrip().endswith("...") and "Usage" not in line] == []


def test_every_command_is_in_one_group_with_a_short_line() -> None:
    groups = {title: [one.name for one in section] for title, section in main.grouped.items()}

    assert [*groups] == ["Start", "Train", "Inspect", "Cost", "Troubleshoot"]
    assert [name for names in groups.values() for name in names] == [*main.commands]
    short = {path: command.short_help for path, command in EVERY.items()}
    assert {path: line for path, line in short.items() if not line or len(line) > 45} == {}


@pytest.mark.parametrize("path", [*EVERY])
def test_every_line_of_the_list_is_shown_whole(path) -> None:
    *group, name = path.split()

    lines = [line.split(maxsplit=1) for line in help_of(" ".join(group)).splitlines() if line]

    assert [name, EVERY[path].short_help] in lines


@pytest.mark.parametrize("path", [path for path, one in EVERY.items() if isinstance(one, Command)])
def test_every_option_is_in_one_section_of_its_help(path) -> None:
    command = EVERY[path]

    listed = [name for section in command.sections.values() for one in section for name in one.opts]

    taken = [one for one in command.params if isinstance(one, click.Option)]
    assert listed == [name for one in taken for name in one.opts]
    assert all(f"{title}:" in help_of(path) for title in command.sections)


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ("up", "--ttl", f"{DEFAULT_TTL / 3600:.0f}h for paid nodes"),
        ("run", "--grace", f"{DEFAULT_GRACE:.0f}s"),
        ("plan", "--interruptions", str(RATE)),
        ("plan", "--max-nodes", "64"),
        ("demo", "--ranks", str(DEFAULT_RANKS)),
        ("up", "--min-nodes", "1"),
        ("runs", "--limit", "20"),
        ("status", "--cluster", "all clusters"),
    ],
)
def test_defaults_are_in_brackets_as_the_code_has_them(path, name, value) -> None:
    whole = " ".join(help_of(path, 100).split())

    described = whole.partition(f" {name} ")[2].partition(" --")[0]

    assert f"[default: {value}" in described


@pytest.mark.parametrize("path", [path for path, one in EVERY.items() if isinstance(one, Command)])
def test_what_is_loaded_when_called_is_there_and_takes_the_options(path) -> None:
    command = EVERY[path]

    work = inspect.signature(import_object(f"cli.{command.work}"))

    given = {one.name: None for one in command.params}
    work.bind(**given)


def test_help_and_tab_load_no_numpy_and_no_store() -> None:
    heavy = "{'numpy', 'pydantic', 'rich', 'IPython', 'workbench.store.store'}"
    code = f"import sys, workbench.cli; print({heavy} & {{*sys.modules}})"

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout == "set()\n"


def test_without_words_the_help_is_all_that_is_written() -> None:
    result = CliRunner().invoke(main, [], prog_name="workbench")

    assert result.exit_code == 2
    assert result.output.rstrip().endswith("delete the cluster")


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
