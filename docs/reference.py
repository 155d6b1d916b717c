"""Write the tables of commands, magics and job file fields into the pages, from the options.

``python docs/reference.py`` writes them, ``--check`` only says whether they are current.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from workbench.cli.catalogue import main
from workbench.cli.parsing import Command, Commands
from workbench.core.option import JOB, NEEDS, Option
from workbench.core.options.table import options_of
from workbench.notebook.magics import WorkbenchMagics
from workbench.notebook.magicspecs import MAGICS, Magic, magic_options

FOLDER = Path(__file__).parent
BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- /generated -->)", re.DOTALL)
OPTION_TABLE = "| option | meaning |\n|---|---|"


def commands() -> Iterator[str]:
    """Give each command of the shell, with its options."""
    context = click.Context(main, info_name="workbench")
    for title, group in main.grouped.items():
        yield f"### {title}\n"
        for command in group:
            if isinstance(command, Commands):
                inner = click.Context(command, info_name=command.name, parent=context)
                for one in command.commands.values():
                    yield from _command(one, inner)
            else:
                yield from _command(command, context)


def magics() -> Iterator[str]:
    """Give each magic, with its options."""
    for name, magic in MAGICS.items():
        yield from _magic(name, magic)


def fields() -> Iterator[str]:
    """Give each field of a job file."""
    yield "| field | meaning | value | example |\n|---|---|---|---|"
    for prefix, place in (("", JOB), ("needs.", NEEDS)):
        for option in options_of(place):
            meaning = option.help.replace("; repeatable", "")
            default = f" (default: {option.shown_default})" if option.shown_default else ""
            example = json.dumps(option.example)
            if isinstance(option.example, dict):
                example = re.sub(r'"(\w+)": ', r"\1 = ", example)
            value = _cell(f"{option.value.said}{default}")
            yield f"| `{prefix}{option.name}` | {_cell(meaning)} | {value} | `{example}` |"
    yield ""


BLOCKS: dict[str, Callable[[], Iterator[str]]] = {
    "commands": commands,
    "magics": magics,
    "fields": fields,
}


def current(text: str) -> str:
    """Return a page with its generated blocks made again."""
    return BLOCK.sub(lambda found: found[1] + "\n".join(BLOCKS[found[2]]()) + found[3], text)


def _command(command: click.Command, parent: click.Context) -> Iterator[str]:
    assert isinstance(command, Command)
    context = click.Context(command, info_name=command.name, parent=parent)
    yield f"#### {context.command_path}\n"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    for title, options in command.sections.items():
        if options:
            yield OPTION_TABLE if title == "Options" else f"*{title}*\n\n{OPTION_TABLE}"
            for one in options:
                names, meaning = one.get_help_record(context) or ("", "")
                yield f"| `{_cell(names)}` | {_cell(meaning)} |"
            yield ""
    yield from _examples("shell", command.examples)


def _magic(name: str, magic: Magic) -> Iterator[str]:
    yield f"### {magic.forms[0].split()[0].lstrip('%').join(('%', ''))}\n"
    forms = "\n".join(magic.forms)
    yield f"```text\n{forms}\n```\n"
    said = inspect.getdoc(getattr(WorkbenchMagics, name)) or ""
    yield " ".join(filter(None, (said.partition("\n\n")[0], magic.text))) + "\n"
    yield OPTION_TABLE
    yield from (_magic_option(one) for one in magic_options(name))
    yield ""
    yield from _examples("python", magic.examples)


def _magic_option(option: Option) -> str:
    default = f" [default: {option.shown_default}]" if option.shown_default else ""
    return f"| `{option.head}` | {_cell(option.help)}{default} |"


def _examples(language: str, lines: object) -> Iterator[str]:
    if isinstance(lines, list | tuple) and lines:
        yield f"```{language}\n" + "\n".join(lines) + "\n```\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def run(arguments: list[str]) -> int:
    """Write the pages, or say which are not current; return the exit status."""
    stale = []
    for path in sorted(FOLDER.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if (made := current(text)) != text:
            stale.append(path.name)
            if "--check" not in arguments:
                path.write_text(made, encoding="utf-8")
    if stale and "--check" in arguments:
        print(f"Not current: {', '.join(stale)}. Run `python docs/reference.py`.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
