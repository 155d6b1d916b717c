"""Start on this node what standard input describes, so that it outlives whoever asked.

Run as ``python -m workbench.node.launch``; writes process id and folder as one line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from workbench.core.launch import OUTPUT, PID, Launch, Launched, read_launch


def start(launch: Launch, home: Path) -> Launched:
    """Write the files, then start the command in a session of its own."""
    os.umask(0o077)
    here = launch.at(str(home))
    folder = Path(here.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in here.files:
        _write(folder / name, text)
    with (folder / OUTPUT).open("ab") as output:
        process = subprocess.Popen(
            here.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **dict(here.environment)},
            cwd=home,
            start_new_session=True,
            restore_signals=True,
        )
    _write(folder / PID, str(process.pid))
    return Launched(process.pid, str(folder))


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def main() -> int:
    """Start what standard input describes; an error is one line on stderr."""
    try:
        launched = start(read_launch(sys.stdin.read()), Path.home())
    except OSError as error:
        print(f"{error.filename or ''}: {error.strerror}", file=sys.stderr)
        return 1
    print(json.dumps([launched.pid, launched.folder]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
