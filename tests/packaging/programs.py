"""Run what installs and what is installed, and hold that it succeeds."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Set where the tests run; an installation has to do without them.
OWN = {"PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT", "PYTHONPATH", "VIRTUAL_ENV"}


def run(
    *command: str | Path, cwd: Path = ROOT, path: str = "", status: int = 0, **more: str
) -> str:
    """Run `command`, by default with a PATH on which there is nothing; give all that it says."""
    kept = {name: value for name, value in os.environ.items() if name not in OWN}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=kept | {"PATH": path, "NO_COLOR": "1", "COLUMNS": "400"} | more,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == status, done.stdout
    return re.sub(r"\x1b\[\d*m", "", done.stdout)
