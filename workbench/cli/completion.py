"""Tab completion in a shell: the values of options, and the script that sets it up."""

from __future__ import annotations

from collections.abc import Callable
from shlex import quote

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
)

from workbench.core.options.option import Option

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
