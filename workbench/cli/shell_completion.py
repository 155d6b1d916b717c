"""Print the script that sets up Tab completion in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from workbench.cli.catalogue import main
from workbench.cli.parsing import COMPLETING


def completion(shell: str) -> None:
    """Print a shell's script."""
    kind = get_completion_class(shell)
    assert kind is not None  # the argument is one of three
    click.echo(kind(main, {}, "workbench", COMPLETING).source_template % _names())


def _names() -> dict[str, str]:
    return {
        "complete_func": "_workbench_completion",
        "complete_var": COMPLETING,
        "prog_name": "workbench",
    }
