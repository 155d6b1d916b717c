"""The names of runs: what a new one is called, and which one a name means."""

from __future__ import annotations

import os
import shlex
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.core.run.model import ENDED, RunFact, RunWish
from workbench.core.units import count
from workbench.errors import StateError, Unknown
from workbench.store.rows import columns_of, insert

# Jupyter's server sets this to the notebook whose kernel it starts.
NOTEBOOK_VARIABLE = "JPY_SESSION_NAME"
EARLIER = "~"
"""In ``fit~1``, the run before the newest that was named ``fit``."""

_ENDED = ", ".join(f"'{state}'" for state in sorted(ENDED))
_CALLED = (
    f"SELECT number FROM runs WHERE label = ?1 ORDER BY (?3 AND state NOT IN ({_ENDED})) DESC, "
    "(?2 != '' AND json_extract(origin, '$.notebook') = ?2) DESC, number DESC"
)

Read = Callable[[str, tuple[object, ...]], list[Any]]


def notebook_here() -> str:
    """Return the absolute path of the notebook whose kernel this process is in, or was started by.

    It is empty in a shell, and where Jupyter does not say it.
    """
    name = os.environ.get(NOTEBOOK_VARIABLE, "")
    return str(Path(name).absolute()) if name.endswith(".ipynb") else ""


def find_run_number(read: Read, name: str, where: Path, *, active: bool = False) -> int:
    """Return the number of the run that a name means.

    Args:
        read: Returns the rows of a query.
        name: The name that was asked for, for its newest run; the same with ``~1`` for the one
            before; or a name with the number that it got, for that run.
        where: The store, for the message.
        active: Prefer runs that have not ended.

    Raises:
        Unknown: No run has this name.
    """
    label, mark, back = name.rpartition(EARLIER)
    earlier = int(back) if mark and back.isdecimal() and len(back) < 9 else 0
    label = label if mark and back.isdecimal() else name
    found = [row[0] for row in read(_CALLED, (label, notebook_here(), active))]
    found = found or [row[0] for row in read("SELECT number FROM runs WHERE name = ?", (label,))]
    if earlier < len(found):
        return int(found[earlier])
    if found:
        oldest = f"{label}{EARLIER}{len(found) - 1}" if len(found) > 1 else label
        raise Unknown(
            f"{count(len(found), 'run')} {'is' if len(found) == 1 else 'are'} called {label!r}",
            f"{shlex.quote(oldest)} is the oldest.",
        )
    raise Unknown(f"No run is called {name!r} in {where}", "list all with `workbench runs`.")


def free_name(connection: sqlite3.Connection, label: str, *, numbered: bool) -> str:
    """Return the name of a new run: the one that was asked for, with a number if it is taken.

    Args:
        numbered: Whether runs that have not ended may have the same name.

    Raises:
        StateError: One has, and may not.
    """
    active = connection.execute(
        f"SELECT name, state FROM runs WHERE label = ? AND state NOT IN ({_ENDED})", (label,)
    ).fetchone()
    if active and not numbered:
        name, state = active
        raise StateError(
            f"A run called {name!r} is {state}",
            f"wait for it, stop it (`workbench stop {shlex.quote(name)}`), or choose another name.",
        )
    taken = {
        row[0]
        for row in connection.execute(
            "SELECT name FROM runs WHERE name = ?1 OR name GLOB ?1 || ' [0-9]*'", (label,)
        )
    }
    is_new = not connection.execute("SELECT 1 FROM runs WHERE label = ?", (label,)).fetchone()
    if is_new and label not in taken:
        return label
    numbers = (name[len(label) + 1 :] for name in taken)
    return f"{label} {max([1, *(int(n) for n in numbers if n.isdecimal())]) + 1}"


def queue_run(connection: sqlite3.Connection, wish: RunWish, *, numbered: bool) -> RunWish:
    """Write a new run, as the last one in the queue; return it with its final name.

    Args:
        numbered: Whether an unfinished run may have the same name, too.

    Raises:
        StateError: An unfinished run has the name.
    """
    named = replace(wish, name=free_name(connection, wish.name, numbered=numbered))
    turn = connection.execute("SELECT coalesce(max(turn), 0) + 1 FROM runs").fetchone()[0]
    number = connection.execute(
        "SELECT coalesce(max(number), 0) + 1 FROM "
        "(SELECT number FROM runs UNION ALL SELECT number FROM deleted_runs)"
    ).fetchone()[0]  # no rows of a deleted run have it
    queue = {"number": number, "label": wish.name, "turn": turn}
    insert(connection, "runs", queue | columns_of(RunFact(wish.id)) | columns_of(named))
    return named
