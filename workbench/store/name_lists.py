"""Read names for tab completion; return none where the store cannot be read.

Completion must be fast: it does not open, migrate or claim the store, and never waits for it.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from urllib.parse import quote

from workbench.core.fleet.provider import provider_names
from workbench.core.run.model import ENDED
from workbench.store.paths import FILE_NAME, home_path

WAIT_SECONDS = 0.1
MOST = 100  # the newest
_CLUSTERS = "SELECT name FROM clusters ORDER BY up DESC, name"
# Runs that prepare ranks have names that were not chosen.
_RUNS = "SELECT name FROM runs WHERE kind NOT IN ('setup', 'replay') ORDER BY number DESC"
_ENDED = ", ".join(f"'{state}'" for state in sorted(ENDED))
_UNFINISHED = (
    f"SELECT name FROM runs WHERE state NOT IN ({_ENDED}) AND kind != 'replay' ORDER BY number DESC"
)
_PARAMETERS = (
    "SELECT json_extract(options, '$.parameters') AS given FROM runs "
    "WHERE json_valid(options) AND given != '[]' ORDER BY number DESC"
)
_NODES = "SELECT id FROM nodes WHERE ended = 0 ORDER BY cluster, id"


_QUERIES = {"clusters": _CLUSTERS, "runs": _RUNS, "unfinished": _UNFINISHED, "nodes": _NODES}


def names_offered(offers: str) -> list[str]:
    """Return the names that Tab offers.

    Args:
        offers: ``clusters``, those that are up first; ``runs`` or ``unfinished`` ones, the newest
            first; ``nodes`` that have not ended; ``parameters`` of earlier runs, each with
            its equals sign; installed ``providers``; nothing for another word.
    """
    if offers == "parameters":
        return [f"{name}=" for name in parameter_names()]
    if offers == "providers":
        return provider_names()
    return _texts(_QUERIES[offers]) if offers in _QUERIES else []


def parameter_names() -> list[str]:
    """Return the names of the parameters of earlier runs, the latest first."""
    found = dict[str, None]()
    for text in _texts(_PARAMETERS):
        with contextlib.suppress(ValueError, TypeError):
            found.update((name, None) for name, _ in json.loads(text) if isinstance(name, str))
    return [*found]


def _texts(query: str) -> list[str]:
    """Return the first column of a query; nothing if the store cannot be read."""
    path = home_path() / FILE_NAME
    with contextlib.suppress(sqlite3.Error, OSError, ValueError):
        address = f"file:{quote(str(path))}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=WAIT_SECONDS)) as opened:
            rows = opened.execute(f"{query} LIMIT {MOST}").fetchall()
        return [row[0] for row in rows if isinstance(row[0], str)]
    return []
