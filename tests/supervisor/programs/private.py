"""Run a real cell with an umask of 0, and print which files of ours others may touch.

``private.py OUTSIDE``: a folder of the user's own, into which the cell writes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from workbench.core.cluster.model import ClusterState
from workbench.core.run.model import RunKind
from workbench.requests.cluster import ask_cluster, ask_down
from workbench.requests.run import ask_run
from workbench.requests.supervisor import supervisor_is_awake
from workbench.store import Store

NAME = "private"
RANKS = 2
OUTSIDE = Path(sys.argv[1])
CELL = f"""
import pathlib, workbench
workbench.report(loss=1.0)
print("secret")
pathlib.Path({str(OUTSIDE)!r}, "mine").write_text("x")
while not pathlib.Path({str(OUTSIDE)!r}, "go").exists():
    workbench.report(loss=2.0)
"""


def until(look: Callable[[], object], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, "nothing came of it"
        time.sleep(0.05)


def open_ones(home: Path) -> list[str]:
    found = [home, *home.rglob("*")]
    return [str(path.relative_to(home)) for path in found if path.lstat().st_mode & 0o077]


def log_files(home: Path) -> list[Path]:
    return [*home.glob("runs/*/rank-*.log")]


def seen_by_others(home: Path) -> int:
    """Count what another user of this machine finds; -1 where one cannot become another."""
    if os.geteuid():
        return -1
    answer = subprocess.run(
        ["find", str(home), "-readable", "-not", "-path", str(home)],
        capture_output=True,
        text=True,
        check=False,
        user=65534,
        group=65534,
        extra_groups=[],
    )
    return len(answer.stdout.splitlines())


def main() -> None:
    os.umask(0)
    home = Path(os.environ["WORKBENCH_HOME"])
    home.mkdir(mode=0o755)
    with Store() as store:
        ask_cluster(store, RANKS, cluster=NAME, oversubscribe=True)
        until(lambda: store.cluster_fact(NAME).state is ClusterState.READY)
        run = ask_run(store, kind=RunKind.CELL, source=CELL, cluster=NAME).id
        until((OUTSIDE / "mine").exists)
        until(lambda: len(log_files(home)) == RANKS)
        seen = {
            "logs": len(log_files(home)),
            "during": open_ones(home),
            "others": seen_by_others(home),
            "theirs": (OUTSIDE / "mine").stat().st_mode & 0o777,
        }
        (OUTSIDE / "go").touch()
        until(lambda: store.run(run).fact.state.ended)
        until(lambda: not log_files(home))
        ask_down(store, cluster=NAME)
        until(lambda: not supervisor_is_awake(NAME))
    print(json.dumps(seen | {"after": open_ones(home)}))


main()
