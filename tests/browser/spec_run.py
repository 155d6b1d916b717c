"""One Playwright process that runs files of specs one after the other, in one browser."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

UI_TESTS = Path(__file__).parents[2] / "extension" / "ui-tests"
PLAYWRIGHT = UI_TESTS / "node_modules" / "@playwright" / "test" / "cli.js"
RESULT = '{"spec":'  # how a line of reporter.ts begins
GRACE_SECONDS = 30.0


@dataclass(frozen=True)
class SpecResult:
    """How the tests of a file went, and what was said of them."""

    failed: bool
    said: str


class SpecRun:
    """Files of specs that are run by one process, each as soon as the one before is over.

    Args:
        specs: The files, relative to the folder of all.
        options: Added to Playwright's command line.
        environment: Of Playwright, and of what it starts.
    """

    def __init__(
        self, specs: Sequence[str], options: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self._specs = list(specs)
        self._results = dict[str, SpecResult]()
        self._other = list[str]()
        self._process = subprocess.Popen(
            ["node", str(PLAYWRIGHT), "test", *options, *specs], cwd=UI_TESTS, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    @property
    def failed(self) -> bool:
        """Whether a test failed of those that are over."""
        return any(result.failed for result in self._results.values())

    @property
    def unfinished(self) -> list[str]:
        """The files whose results are unknown, in their order."""
        return [spec for spec in self._specs if spec not in self._results]

    def knows(self, spec: str) -> bool:
        """Whether the result of a file was asked for."""
        return spec in self._results

    def result(self, spec: str) -> SpecResult:
        """Wait until the tests of one file are over."""
        while spec not in self._results and (line := self._read()):
            self._take(line)
        unknown = SpecResult(True, f"Playwright ended without {spec}:\n{''.join(self._other)}")
        return self._results.setdefault(spec, unknown)

    def close(self) -> None:
        """End it; complain where it failed by itself, not by a test."""
        whole = not self.unfinished
        if not whole:
            self._process.send_signal(signal.SIGINT)
        try:
            rest, _ = self._process.communicate(timeout=GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            rest, _ = self._process.communicate()
        if whole and self._process.returncode and not self.failed:
            pytest.fail(f"Playwright failed:\n{''.join(self._other)}{rest}", pytrace=False)

    def _read(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline()

    def _take(self, line: str) -> None:
        if not line.startswith(RESULT):
            self._other.append(line)
            return
        result = json.loads(line)
        self._results[result["spec"]] = SpecResult(result["failed"], "\n".join(result["said"]))
