"""Run the scripts of ``scripts/`` on a cluster of two ranks, which share the machine's GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

SCRIPTS = Path(__file__).parent / "scripts"
CHECKED = "CHECKED "
RANKS = 2
SECONDS = 100.0


class Cluster:
    """A cluster on this machine with a data directory of its own; a context manager."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="workbench-gpu-")
        self.folder = Path(self._folder.name)
        self._environment = os.environ | {"WORKBENCH_HOME": str(self.folder / "home")}
        self._is_up = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_up:
            self._call("delete")
        self._folder.cleanup()

    def run(self, script: str, *arguments: str, options: tuple[str, ...] = ()) -> str:
        """Run a script on all ranks; return the line in which it says what it has checked."""
        said = self.said("run", *options, str(SCRIPTS / script), *arguments)
        found = [line.partition(CHECKED)[2] for line in said.splitlines() if CHECKED in line]
        assert found, said
        return found[0]

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
