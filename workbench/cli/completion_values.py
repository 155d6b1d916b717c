"""Tab completion of the values of options and arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from shlex import quote

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from workbench.cli.parsing import found

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


class QuotingBash(BashComplete):
    """Bash completion that quotes names with spaces, as click's own does not."""

    def format_completion(self, item: CompletionItem) -> str:
        """Return one completion in the format that the script in the shell reads."""
        return f"{item.type},{quote(item.value) if item.type == 'plain' else item.value}"


add_completion_class(QuotingBash)


def _offering(names: Callable[[], Iterable[str]]) -> Completer:
    """Return a completer of the ``names`` that start with the typed text; loaded when called."""

    def offer(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
        typed = typed.lstrip("'\"")
        given = ctx.params.get(param.name or "")
        taken = given if isinstance(given, tuple | list) else ()
        return [
            CompletionItem(name) for name in names() if name.startswith(typed) and name not in taken
        ]

    return offer


def _from(where: str, end: str = "") -> Completer:
    """Return a completer of the names that ``module:name`` has or returns, each with ``end``."""

    def names() -> list[str]:
        there = found(where)
        return [f"{name}{end}" for name in (there() if callable(there) else there)]

    return _offering(names)


cluster_names = _from("store.name_lists:cluster_names")
run_names = _from("store.name_lists:run_names")
unfinished_names = _from("store.name_lists:unfinished_names")
node_names = _from("store.name_lists:node_names")
parameter_starts = _from("store.name_lists:parameter_names", "=")
communicator_names = _from("core.run.exchange_options:COMMUNICATORS")
resize_times = _from("core.cluster.resize_time:RESIZE_TIMES")
codec_names = _from("core.run.exchange_options:CODECS")
batch_names = _from("core.run.batch_option:BATCHES")


def files(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Let the shell complete file names."""
    return [CompletionItem(typed, type="file")]
