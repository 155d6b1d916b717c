"""The words that several commands share, and what is said of a word that none knows."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import click

from workbench.core.cluster import DEFAULT_CLUSTER
from workbench.core.job import parameter, seconds
from workbench.errors import InputError, StateError, WorkbenchError

Command = TypeVar("Command", bound=Callable[..., Any])


class Commands(click.Group):
    """A group whose every refusal is one sentence on stderr and an exit code.

    0 all went well, 1 a run or a machine failed, 2 bad input, 130 interrupted.
    """

    def main(self, args: Sequence[str] | None = None, **options: Any) -> NoReturn:  # type: ignore[override]  # click's own overloads say more than is used
        """Run the command of ``args`` and exit."""
        options["standalone_mode"] = False
        try:
            code = super().main(args, **options)
        except click.Abort:
            sys.exit(130)
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            path = context.command_path if context else "workbench"
            click.echo(f"{error.format_message()} `{path} --help` lists what it takes.", err=True)
            sys.exit(2)
        except WorkbenchError as error:
            click.echo(str(error), err=True)
            sys.exit(2 if isinstance(error, InputError | StateError) else 1)
        sys.exit(code if isinstance(code, int) else 0)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest command for one that is unknown."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            names = self.list_commands(ctx)
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it knows {', '.join(names)}."
            raise InputError(f"workbench has no command {name!r}; {hint}")
        return super().resolve_command(ctx, args)


class Checked(click.ParamType[object]):
    """An option whose value one of our functions reads.

    Args:
        name: What ``--help`` calls the value.
        read: Returns the value or raises InputError.
    """

    def __init__(self, name: str, read: Callable[[str], object]) -> None:
        self.name = name
        self._read = read

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Return the value, or refuse it in our own words."""
        return self._read(value) if isinstance(value, str) else value


SECONDS = Checked("duration", seconds)
PARAMETER = Checked("name=value", parameter)

cluster_option = click.option(
    "--cluster", default=DEFAULT_CLUSTER, metavar="NAME", help="Which cluster, if not 'default'."
)
oversubscribe_option = click.option(
    "--oversubscribe", is_flag=True, help="Let ranks share cores when there are too few."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
no_wait_option = click.option("--no-wait", is_flag=True, help="Ask, and do not wait for it.")

accept_option = click.option(
    "--accept-keys",
    multiple=True,
    metavar="FINGERPRINT",
    help="Say yes to host keys that were shown; repeatable, or with commas.",
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask; host keys are asked about.")


def run_options(command: Command) -> Command:
    """Add the options that start a run."""
    for option in reversed(
        [
            click.option("--ranks", type=int, metavar="N", help="Ranks to run on; all, if not."),
            click.option("--name", help="What to call the run."),
            click.option(
                "--param",
                "parameters",
                type=PARAMETER,
                multiple=True,
                help="A name that is set on every rank; may be repeated.",
            ),
            click.option("--background", is_flag=True, help="Give the prompt back at once."),
            oversubscribe_option,
            click.option(
                "--grace", type=SECONDS, help="From asking to stop to ending the ranks; 5s, if not."
            ),
            click.option("--wall-clock-limit", type=SECONDS, help="Stop the run after this long."),
            click.option(
                "--communicator",
                metavar="NAME",
                help="auto, ring, doubling, hierarchical or mpi, in place of ChainerMN's naive.",
            ),
            click.option(
                "--compress",
                metavar="NAME",
                help="Gradients go as fp16, bf16, int8, topk or powersgd.",
            ),
            click.option(
                "--double-buffering",
                is_flag=True,
                help="Each update uses the gradients of the step before, which come meanwhile.",
            ),
            click.option("--cluster", metavar="NAME", help="Which cluster, if not 'default'."),
            accept_option,
            yes_option,
        ]
    ):
        command = option(command)
    return command
