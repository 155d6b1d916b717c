"""Commands for click: options in sections, code loaded on call, Tab completion, short errors."""

from __future__ import annotations

import difflib
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from shlex import quote
from typing import Any, NoReturn

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
)

from workbench.core.fleet.provider import find_provider
from workbench.core.option import Option
from workbench.core.options.table import options_of, refuse_other_options
from workbench.errors import InputError, StateError, WorkbenchError
from workbench.namesake import require_own_package
from workbench.store.paths import ELSEWHERE_NAME, home_path

COMPLETING = "_WORKBENCH_COMPLETE"
FILES = "files"
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


class BashCompletion(BashComplete):
    """Bash completion that quotes names with spaces, as click's own does not."""

    def format_completion(self, item: CompletionItem) -> str:
        """Return one completion in the format that the script in the shell reads."""
        return f"{item.type},{quote(item.value) if item.type == 'plain' else item.value}"


add_completion_class(BashCompletion)


def completer(option: Option) -> Completer | None:
    """Return what completes an option's value when it is asked; None if nothing does."""
    if not (option.offers or option.value.names):
        return None

    def complete(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
        from workbench.store.name_lists import names_offered  # not for each command

        if option.offers == FILES:
            return [CompletionItem(typed, type="file")]
        typed = typed.lstrip("'\"")
        given = ctx.params.get(param.name or "")
        taken = given if isinstance(given, tuple | list) else ()
        return [
            CompletionItem(name)
            for name in option.value.names or names_offered(option.offers)
            if name.startswith(typed) and name not in taken
        ]

    return complete


def completion(shell: str) -> None:
    """Print a shell's script."""
    main = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None  # the argument is one of three
    names = {
        "complete_func": "_workbench_completion",
        "complete_var": COMPLETING,
        "prog_name": "workbench",
    }
    click.echo(kind(main, {}, "workbench", COMPLETING).source_template % names)


HELP_NAMES = ["-h", "--help"]
WIDEST = 100
GENERAL, OTHER = "Options", "Other"


class OptionType(click.ParamType[object]):
    """The type of an option's value: its own reader, whose errors are sentences.

    Args:
        option: The option.
    """

    def __init__(self, option: Option) -> None:
        self.name = option.value.word
        self.option = option

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Return the parsed value, or fail with our own message."""
        return self.option.read(value) if isinstance(value, str) else value


class CommandOption(click.Option):
    """One of our options as click has it; ``[default: …]`` also says what it depends on.

    Args:
        option: The option.
    """

    def __init__(self, option: Option) -> None:
        self.option = option
        settings: dict[str, Any] = {"is_flag": True}
        if not option.is_flag:
            settings = {
                "type": OptionType(option),
                "metavar": option.value.word,
                "multiple": option.many,
                "default": None if option.many else option.default,
                "shell_complete": completer(option),
            }
        if option.alone:
            settings |= {"is_flag": False, "flag_value": option.alone}
        if option.shown_default:
            settings["show_default"] = option.shown_default
        super().__init__([*option.spellings, option.name], help=option.help, **settings)

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return the part in brackets; a textual default has no parentheses."""
        extra = super().get_help_extra(ctx)
        if isinstance(self.show_default, str):
            extra["default"] = self.show_default
        return extra


def _argument(option: Option) -> click.Argument:
    return click.Argument(
        [option.name],
        type=OptionType(option),
        metavar=option.typed if option.required else None,
        required=option.required,
        nargs=-1 if option.many else 1,
        default=None if option.many else option.default,
        shell_complete=completer(option),
    )


def _sections(options: Sequence[Option]) -> dict[str, list[click.Parameter]]:
    """Return options in the sections of a help.

    A section of one option is none. What has no section comes first, or last if the first has one.
    """
    many = Counter(one.section for one in options if one.section)
    found: dict[str, list[click.Parameter]] = {}
    for one in options:
        title = one.section if many[one.section] > 1 else GENERAL
        found.setdefault(title, []).append(CommandOption(one))
    if (general := found.pop(GENERAL, None)) is None:
        return found
    is_last = many[options[0].section] > 1
    return found | {OTHER: general} if is_last else {GENERAL: general} | found


class _Sectioned(click.Command):
    """Mixin that writes options in sections, and examples unchanged."""

    sections: Mapping[str, Sequence[click.Parameter]]
    examples: Sequence[str]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section's options; --help goes to the general section."""
        sections = {title: [*options] for title, options in self.sections.items()}
        if (help_option := self.get_help_option(ctx)) is not None:
            sections.setdefault(OTHER if OTHER in sections else GENERAL, []).append(help_option)
        for title, options in sections.items():
            rows = [record for one in options if (record := one.get_help_record(ctx))]
            with formatter.section(title):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


class Command(_Sectioned):
    """One command, with the options of the table.

    Args:
        name: What is typed.
        work: Its function as ``module:function`` of this package; loaded when called.
        summary: Its line in the list of commands.
        text: What it does, in full.
        place: Its name among the commands that options name, if it is in a group.
        examples: Lines that can be typed.
        rest: What click takes.
    """

    def __init__(
        self,
        name: str,
        work: str,
        summary: str,
        *,
        text: str,
        place: str = "",
        examples: Sequence[str] = (),
        **rest: Any,
    ) -> None:
        self.place = place or name
        every = options_of(self.place)
        self.sections = _sections([one for one in every if not one.is_word])
        arguments = [_argument(one) for one in every if one.is_word]
        params = [*arguments, *(one for section in self.sections.values() for one in section)]
        super().__init__(
            name, callback=defer_import(work), params=params, help=text, short_help=summary, **rest
        )
        self.work = work
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what was typed; an option of another launcher is answered with ours."""
        given = [*args]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption:
            refuse_other_options(self.name or "", self.place, given)
            raise


class Commands(_Sectioned, click.Group):
    """A command group in sections; every error is one sentence on stderr and an exit code.

    0 all went well, 1 a run or a machine failed, 2 bad input, 130 interrupted.

    Args:
        name: What is typed.
        text: What its commands are for.
        commands: The commands, in sections, in the order of the help page.
        options: Its own options.
        summary: Its line in a list of commands.
    """

    def __init__(
        self,
        name: str,
        *,
        text: str,
        commands: Mapping[str, Sequence[click.Command]],
        options: Sequence[click.Option] = (),
        examples: Sequence[str] = (),
        summary: str = "",
    ) -> None:
        super().__init__(
            name,
            help=text,
            short_help=summary,
            params=[*options],
            commands=[one for section in commands.values() for one in section],
            context_settings={
                "help_option_names": HELP_NAMES,
                "max_content_width": WIDEST,
                "show_default": True,
            },
        )
        self.sections = {"Options": self.params}
        self.examples = examples
        self.grouped = commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of their sections."""
        return [*self.commands]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        longest = max(map(len, self.commands))
        for title, commands in self.grouped.items():
            rows = [(f"{one.name:<{longest}}", one.short_help or "") for one in commands]
            with formatter.section(title):
                formatter.write_dl(rows)
        super().format_options(ctx, formatter)

    def main(self, args: Sequence[str] | None = None, **options: Any) -> NoReturn:  # type: ignore[override]  # click's own overloads say more than is used
        """Run the command of ``args`` and exit."""
        options["standalone_mode"] = False
        try:
            code = super().main(args, **options)
        except click.Abort:
            sys.exit(130)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(2)
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            path = context.command_path if context else "workbench"
            click.echo(f"{error.format_message()} See `{path} --help`.", err=True)
            sys.exit(2)
        except WorkbenchError as error:
            click.echo(str(error), err=True)
            sys.exit(2 if isinstance(error, InputError | StateError) else 1)
        sys.exit(code if isinstance(code, int) else 0)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest command for one that is unknown.

        Raises:
            MachineError: Another project has a package of our name here; only doctor runs.
        """
        name = args[0]
        if ctx.parent is None and name != "doctor" and not ctx.resilient_parsing:
            require_own_package()
        known = self.get_command(ctx, name) is not None or ctx.resilient_parsing
        if not known and not name.startswith("-"):
            names = self.list_commands(ctx)
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it knows {', '.join(names)}."
            raise InputError(f"workbench has no command {name!r}", hint)
        return super().resolve_command(ctx, args)


def import_object(where: str) -> Any:
    """Import ``module:name`` of this package and return it."""
    module, _, name = where.partition(":")
    return getattr(import_module(f"workbench.{module}"), name)


def run_elsewhere() -> None:
    """Run this command where the supervisors are; return only if that is this machine.

    Raises:
        StateError: The other machine is not there yet.
    """
    try:
        provider = (home_path() / ELSEWHERE_NAME).read_text(encoding="utf-8").split()[0]
    except (OSError, IndexError):
        return
    find_provider(provider).run_elsewhere([sys.executable, "-m", "workbench.cli", *sys.argv[1:]])


def defer_import(work: str) -> Callable[..., Any]:
    """Return a function that imports a command's function when called."""

    def call(**given: Any) -> Any:
        run_elsewhere()
        return import_object(f"cli.{work}")(**given)

    return call
