"""Show what the doctor finds, which examines the machine in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from workbench.errors import MachineError
from workbench.notebook.page import Bundle, table

MODULE = "workbench.cluster.doctor"
DEADLINE_SECONDS = 120.0
_VERDICTS = {True: "✓ good", False: "✗ mend", None: "– not checked"}


def examine(command: list[str] | None = None, deadline: float = DEADLINE_SECONDS) -> Bundle:
    """Run the doctor and return its findings as a table.

    Args:
        command: What to run in its place.
        deadline: Seconds that it may take.

    Raises:
        MachineError: It did not end in time, or not with findings.
    """
    command = command or [sys.executable, "-m", MODULE, "--json"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=deadline,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise MachineError(
            f"The doctor did not end within {deadline:g} s; "
            "`workbench doctor` shows how far it gets."
        ) from error
    return findings(done.stdout, done.stderr)


def findings(text: str, complaints: str = "") -> Bundle:
    """Return the doctor's JSON as a table.

    Raises:
        MachineError: It is not what a doctor says.
    """
    try:
        rows = [_row(finding) for finding in json.loads(text)]
    except (ValueError, KeyError, TypeError) as error:
        last = (complaints.strip() or text.strip() or "nothing").splitlines()[-1]
        raise MachineError(f"The doctor failed; it said: {last}") from error
    return table(("check", "verdict", "found", "remedy"), rows)


def _row(finding: dict[str, Any]) -> tuple[str, ...]:
    verdict = _VERDICTS[finding["ok"]]
    return (finding["check"], verdict, str(finding["found"]), finding["remedy"])
