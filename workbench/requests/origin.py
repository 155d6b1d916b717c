"""Find where a run is requested: its notebook, the commit, and the variables that travel."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from workbench.core.run.origin import Origin, Variables
from workbench.core.world.world import WORLD_VARIABLE
from workbench.requests.supervisor import supervisor_pid
from workbench.store import Store
from workbench.store.run_names import notebook_here

GIT_SECONDS = 2.0
COMMIT_CHARACTERS = 12


def origin_here(store: Store, cluster: str, folder: str, module: str = "") -> Origin:
    """Return where this process requests a run.

    Args:
        folder: The run's folder.
        module: The module that the script is.
    """
    environment, remarks = _variables(store, cluster).travelling()
    return Origin(notebook_here(), commit_of(folder), environment, remarks, module)


def commit_of(folder: str) -> str:
    """Return the commit that a folder is at; empty without git, or where it does not answer."""
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        found = subprocess.run(
            ["git", "-C", folder, "rev-parse", "--verify", "--quiet", "HEAD"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, **quiet},
            timeout=GIT_SECONDS,
            check=True,
            text=True,
        )
        return found.stdout.strip()[:COMMIT_CHARACTERS]
    return ""


def _variables(store: Store, cluster: str) -> Variables:
    wish, fact = store.cluster_wish(cluster), store.cluster_fact(cluster)
    is_elsewhere = wish is not None and wish.fleet.place.has_nodes
    pid = supervisor_pid(cluster)
    started = _read_environment(pid) if pid else {}
    ranks: Mapping[str, str] = {}
    if fact.ranks and not is_elsewhere:
        for rank in store.ranks(cluster, fact.generation)[:1]:
            ranks = _read_environment(rank.pid)
    if WORLD_VARIABLE not in ranks:  # another process has that id now
        ranks = {}
    return Variables({**os.environ}, started or None, ranks, is_elsewhere)


def _read_environment(pid: int) -> dict[str, str]:
    """Return the variables that a process was started with; empty if it cannot be read."""
    with contextlib.suppress(OSError):
        text = os.fsdecode(Path(f"/proc/{pid}/environ").read_bytes())
        pairs = (entry.partition("=") for entry in text.split("\0") if "=" in entry)
        return {name: value for name, _, value in pairs}
    return {}
