"""Run the scripts of ``scripts/`` on a cluster of two ranks, which share the machine's GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

from workbench.core.run.model import Run
from workbench.store import Store

SCRIPTS = Path(__file__).parent / "scripts"
CHECKED = "CHECKED "
RANKS = 2
SECONDS = 100.0


def is_loss(name: str) -> bool:
    """Return whether a value is the training's loss, by Chainer's names and ours."""
    return name in ("loss", "main/loss")


class Cluster:
    """A cluster on this machine with a data directory of its own; a context manager."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="workbench-gpu-")
        self.folder = Path(self._folder.name)
        self._home = self.folder / "home"
        self._environment = os.environ | {"WORKBENCH_HOME": str(self._home)}
        self._is_up = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_up:
            self._call("delete")
        self._folder.cleanup()

    def trains(self, script: str, *arguments: str, options: tuple[str, ...] = ()) -> str:
        """Run a training; return what it says to have checked, and how many losses came.

        All iterations of a rank that report a loss follow each other without a gap.
        """
        said, found = self._checked(script, arguments, options)
        with Store(self._home / "store.sqlite3") as store:
            points = store.reports.points(re.findall(r"^Saved as (\S+)", said, re.MULTILINE)[0])
        iterations = {
            rank: [one.iteration for one in points if is_loss(one.name) and one.rank == rank]
            for rank in {one.rank for one in points}
        }
        for seen in iterations.values():
            assert sorted(seen) == [*range(1, len(seen) + 1)], iterations
        count = sum(map(len, iterations.values()))
        assert count, said
        return f"{found}, {count} losses"

    def newest_run(self) -> Run:
        """Return the run that was submitted last."""
        with Store(self._home / "store.sqlite3") as store:
            return store.runs(limit=1)[0]

    def checks(self, script: str) -> str:
        """Run a script that trains nothing; return what it says to have checked."""
        return self._checked(script, (), ())[1]

    def _checked(
        self, script: str, arguments: tuple[str, ...], options: tuple[str, ...]
    ) -> tuple[str, str]:
        """Run a script; return its output, and what it says to have checked."""
        said = self.said("run", *options, str(SCRIPTS / script), *arguments)
        found = [line.partition(CHECKED)[2] for line in said.splitlines() if CHECKED in line]
        assert found, said
        return said, found[0]

    def said(self, *words: str) -> str:
        """Return what a command of the cluster prints; the cluster is started if it is not up."""
        if not self._is_up:
            self._is_up = True
            self._call("up", str(RANKS), "--oversubscribe")
        return self._call(*words)

    def _call(self, *words: str) -> str:
        command = Path(sys.executable).parent / "workbench"
        done = subprocess.run(
            [command, *words],
            env=self._environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"workbench {' '.join(words)}: {done.stdout[-3000:]}"
        return done.stdout
