"""What the documentation says exists: links, code, commands, options, magics and make targets."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from workbench.cli import main
from workbench.core.options.jobfile import parse_job
from workbench.core.options.table import spellings_of
from workbench.errors import WorkbenchError
from workbench.notebook.magicspecs import MAGICS, Options

from .pages import PAGES, ROOT, Block, anchors, blocks, inline_code, links

TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
MAGIC = re.compile(r"^%%?(\w+) ?(.*)", re.M)
PROMPT = re.compile(r"^(?:\.venv/bin/|[A-Z_]+=\S+ )*")
OURS = re.compile(r"workbench ")


def words_of(command: str) -> list[str]:
    """Return the words of a line of a shell, without its environment and its redirection."""
    words = shlex.split(PROMPT.sub("", command.strip()), comments=True)
    return words[: words.index(">")] if ">" in words else words


def mistake(words: list[str]) -> str:
    """Return what our own parser says against a command line; nothing where all is well."""
    command: click.Command = main
    context: click.Context | None = None
    rest = words[1:]
    try:
        while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
            context = click.Context(command, parent=context)
            _, found, rest = command.resolve_command(context, rest)
            assert found is not None
            command = found
        command.make_context(command.name, [*rest], parent=context)
    except click.exceptions.Exit:
        return ""  # --help
    except (click.ClickException, WorkbenchError) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        return f"{shlex.join(words)}: {text}"
    return ""


def typed(text: str) -> Iterator[str]:
    """Give the lines of a shell block, those that continue in the next line joined."""
    yield from text.replace("\\\n", " ").splitlines()


def magics_in(text: str) -> Iterator[tuple[str, str]]:
    """Give the magics of ours that lines begin with, and what follows them."""
    for name, line in MAGIC.findall(text):
        if name.startswith("dist_"):
            yield name, line


def wrong_magic(name: str, line: str) -> str:
    """Return what our own parser says against a magic's line; nothing where all is well."""
    if name not in MAGICS:
        return f"%{name} is no magic"
    try:
        Options(f"%{name}").read(line)
    except WorkbenchError as error:
        return f"%{name} {line}: {error}"
    return ""


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_inside_the_repository_lead_somewhere(path: Path) -> None:
    wrong = []
    for link in links(path.read_text(encoding="utf-8")):
        target, _, anchor = link.partition("#")
        if "://" in target:
            continue
        file = (path.parent / target).resolve() if target else path
        if not file.exists() or (
            anchor and anchor not in anchors(file.read_text(encoding="utf-8"))
        ):
            wrong.append(link)

    assert wrong == []


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_in_a_block_parses(block: Block) -> None:
    ast.parse(re.sub(r"^%.*", "", block.text, flags=re.M))


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_magics_in_a_block_take_what_is_given(block: Block) -> None:
    assert [
        wrong for name, line in magics_in(block.text) if (wrong := wrong_magic(name, line))
    ] == []


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_a_job_file_in_a_block_parses(block: Block) -> None:
    assert parse_job(block.text, "job.toml").script


@pytest.mark.parametrize("block", blocks("shell"), ids=str)
def test_commands_in_a_block_can_be_typed(block: Block) -> None:
    lines = [words_of(line) for line in typed(block.text)]
    ours = [words for words in lines if words and words[0] == "workbench"]

    assert [wrong for words in ours if (wrong := mistake(words))] == []
    made = {words[1] for words in lines if words and words[0] == "make"}
    assert made <= TARGETS


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_magics_and_targets_in_a_sentence_exist(path: Path) -> None:
    said = [*inline_code(path.read_text(encoding="utf-8"))]
    commands = [words_of(text.replace("…", "")) for text in said if OURS.match(text)]
    lines = [pair for text in said for pair in magics_in(text.replace("…", "").rstrip("?"))]
    targets = {text.split()[1] for text in said if re.match(r"make [a-z]", text)}

    wrong = [wrong for words in commands if (wrong := incomplete(words))]
    assert wrong == []
    wrong = [wrong for name, line in lines if (wrong := wrong_magic(name, line))]
    assert wrong == []
    assert targets <= TARGETS


def incomplete(words: list[str]) -> str:
    """Return what is wrong with a command that a sentence names, perhaps without its arguments."""
    said = mistake(words)
    return "" if "Missing argument" in said else said


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_options_in_a_sentence_exist(path: Path) -> None:
    known = {name for one in every_option(main) for name in one.opts}
    known |= {name for magic in MAGICS for name in spellings_of(f"%{magic}")}
    said = inline_code(of_ours(path))
    named = {text.split()[0].partition("=")[0] for text in said if re.match(r"--[a-z]", text)}

    former = FORMER if path.name == "CHANGELOG.md" else set()
    assert named - known - ELSEWHERE - former == set()


ELSEWHERE = {"--minutes", "--rounds", "--markdown", "--json", "--check"}
"""Options of scripts that the pages name."""
FORMER = {"--least", "--most", "--rehearse"}
"""Options that the changelog says have another name now."""


def of_ours(path: Path) -> str:
    """Return the text of a page without the table of programs that others have published."""
    lines = path.read_text(encoding="utf-8").splitlines()
    is_table = path.name == "published-programs.md"
    return "\n".join(line for line in lines if not (is_table and line[:1] == "|"))


def every_option(command: click.Command) -> Iterator[click.Option]:
    yield from (one for one in command.params if isinstance(one, click.Option))
    if isinstance(command, click.Group):
        for one in command.commands.values():
            yield from every_option(one)


def test_every_command_and_magic_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")

    assert [name for name in main.commands if f"workbench {name}" not in text] == []
    assert [name for name in MAGICS if f"%{name}" not in text] == []


def test_tables_that_are_made_from_the_parsers_are_current() -> None:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)

    assert reference.run(["--check"]) == 0, "run .venv/bin/python docs/reference.py"


@pytest.mark.parametrize("path", sorted(PAGES), ids=lambda path: path.name)
def test_rows_of_a_table_have_as_many_cells_as_its_head(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    wrong, cells = [], 0
    for line in lines:
        if not line.startswith("|"):
            cells = 0
            continue
        found = len(re.findall(r"(?<!\\)\|", line))
        cells = cells or found
        wrong += [line] * (found != cells)

    assert wrong == []


def test_the_design_lists_every_folder() -> None:
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(\w+)/` \|", text, re.M))
    ours = {one.parent.name for one in (ROOT / "workbench").glob("*/__init__.py")}

    assert listed == ours


FILE = re.compile(r"(?:\.?[\w-]+/)+[\w.-]*\.(?:py|ts|md|mjs|ipynb)|(?:\.?[\w-]+/)+")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_files_and_folders_in_a_sentence_exist(path: Path) -> None:
    said = {text for text in inline_code(of_ours(path)) if FILE.fullmatch(text)}
    near = (ROOT, ROOT / "workbench", ROOT / "extension", ROOT / "tests")

    assert {text for text in said if not any((one / text).exists() for one in near)} == set()


def test_the_readme_is_short_and_begins_with_the_cell_of_the_first_steps() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    cells = {
        page: [block.text for block in blocks("python") if block.page == page][:2]
        for page in ("README.md", "first-steps.md")
    }

    assert len(text.splitlines()) <= 130
    assert len(text.split()) <= 1200
    assert cells["README.md"] == cells["first-steps.md"]


def test_mistakes_are_found() -> None:
    assert "No such option" in mistake(["workbench", "up", "--missing"])
    assert "no command" in mistake(["workbench", "missing"])
    assert "no option" in wrong_magic("dist_resize", "--missing")
    assert "no magic" in wrong_magic("dist_missing", "")
    assert mistake(["workbench", "up", "2", "--ec2"]) == wrong_magic("dist_resize", "2") == ""
    assert anchors("# What ends it, and how\n") == {"what-ends-it-and-how"}
