"""Delete runs and set their retention, from a shell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from workbench.cli.consent import confirm
from workbench.cli.terminal import waiting
from workbench.errors import InputError
from workbench.requests.run_deletion import chosen_runs, delete_runs, what_goes
from workbench.store import Store


def change_what_is_kept(store: Store, names: Sequence[str], given: dict[str, Any]) -> bool:
    """Delete runs or set their retention; return whether the options asked for either.

    Raises:
        InputError: The options contradict each other.
        StateError: Not confirmed, or a named run has not ended.
    """
    described = {name: given[name] for name in ("older", "larger", "keep")}
    if given["retain"] is not None or given["retain_size"] is not None:
        _retain(store, given["retain"], given["retain_size"])
        return True
    if not given["delete"]:
        if given["yes"] or any(value is not None for value in described.values()):
            raise InputError("These options select runs to delete", "add --delete.")
        return False
    runs = chosen_runs(store, names, **described)
    if not runs:
        click.echo("No ended run matches, so nothing was deleted.")
        return True
    if not given["yes"]:
        click.echo(f"This deletes {what_goes(runs)} It cannot be undone.", err=True)
        confirm(
            "Delete?", "Not confirmed, so nothing was deleted; answer at a terminal, or add --yes."
        )
    with waiting("Deleting", shown_by="workbench runs") as say:
        said = delete_runs(store, runs, say)
    click.echo(said)
    return True


def _retain(store: Store, age: float | None, nbytes: int | None) -> None:
    kept = store.removal.retention()
    kept = replace(
        kept,
        age=kept.age if age is None else age,
        nbytes=kept.nbytes if nbytes is None else nbytes,
    )
    store.removal.put_retention(kept)
    click.echo(f"From now on {kept}.")
