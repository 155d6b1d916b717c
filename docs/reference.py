"""Write the tables of commands, magics and job file fields into the pages, from the parsers.

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

from workbench.cli.catalogue import RUN_COMMAND, UP, main
from workbench.cli.parsing import Command, Commands
from workbench.core.run.job import Job, JobNeeds
from workbench.notebook.magics import WorkbenchMagics
from workbench.notebook.magicspecs import MAGICS
from workbench.notebook.options import Magic, MagicOption
from workbench.view.option_help import HELP

FOLDER = Path(__file__).parent
BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- /generated -->)", re.DOTALL)
OPTION_TABLE = "| option | meaning |\n|---|---|"

# What fields mean that no option of `workbench run` or `workbench up` stands for.
FIELDS = {
    "script": "The script to run, relative to the job file's folder.",
    "arguments": "Arguments of the script.",
    "parameters": "Variables that are set on every rank.",
    "environment": "Environment variables of every rank.",
    "provider": "Provider of the nodes.",
    "hosts": "Your hosts, one entry each, as in a host file.",
    "host_file": "A host file, relative to the job file's folder.",
    "needs": "What each node needs at least; see the fields below.",
    "shrink": "After the loss of a node: continue with the others, or wait for new ones.",
}


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
    options = {
        one.name: one for one in (*UP.params, *RUN_COMMAND.params) if isinstance(one, click.Option)
    }
    yield "| field | meaning | value | example |\n|---|---|---|---|"
    for prefix, model in (("", Job), ("needs.", JobNeeds)):
        for name, field in model.model_fields.items():
            option = options.get(name)
            meaning = FIELDS.get(name) or getattr(option, "help", None)
            if not meaning:
                raise SystemExit(f"docs/reference.py says nothing of the field {name!r}.")
            example = json.dumps((field.examples or [""])[0])
            if isinstance((field.examples or [""])[0], dict):
                example = re.sub(r'"(\w+)": ', r"\1 = ", example)
            shown = f"`{example}`"
            default = "" if field.default in (None, "", 0, 0.0) else _default(field.default)
            value = _cell(f"{field.description}{default}")
            meaning = meaning.replace("; repeatable", "")
            yield f"| `{prefix}{name}` | {_cell(meaning)} | {value} | {shown} |"
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
    yield from (_magic_option(one) for one in magic.options)
    yield ""
    yield from _examples("python", magic.examples)


def _magic_option(option: MagicOption) -> str:
    head = option.value if option.is_word else f"{option.name} {option.value}".strip()
    default = option.shown or (
        str(option.default) if option.default not in (None, 0, 0.0, "") else ""
    )
    meaning = option.what or HELP[option.name]
    return f"| `{head}` | {_cell(meaning)}{f' [default: {default}]' if default else ''} |"


def _examples(language: str, lines: object) -> Iterator[str]:
    if isinstance(lines, list | tuple) and lines:
        yield f"```{language}\n" + "\n".join(lines) + "\n```\n"


def _default(value: object) -> str:
    if value in (False, (), {}) or not isinstance(value, str | int | float | bool):
        return ""
    return f" (default: {value:g})" if isinstance(value, float) else f" (default: {value})"


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
