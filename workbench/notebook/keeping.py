"""Write a run's result into the notebook's file, when the pages that followed it have all gone.

A page that is open does so itself. Without one, nobody else holds the notebook: the file is ours to
change, and the reader finds the result there.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from workbench.errors import WorkbenchError
from workbench.store import Store
from workbench.view.kept import RUN_TYPE, Bundle

# Jupyter's server names the notebook whose kernel it starts.
NAME_VARIABLE = "JPY_SESSION_NAME"
LOOK_SECONDS = 2.0
ABSENCE_SECONDS = 10.0  # a page that is only reloaded is back by then
PATIENCE_SECONDS = 300.0  # a page that is there for so long will see to it


def keep_result(run: str, bundle: Bundle) -> threading.Thread | None:
    """See from a thread that ``bundle`` gets into the notebook's file, if it is known."""
    path = Path(os.environ.get(NAME_VARIABLE, ""))
    if path.suffix != ".ipynb" or not path.is_file():
        return None
    keeper = threading.Thread(
        target=_keep, args=(path, run, bundle), name=f"workbench keeper of {run}", daemon=True
    )
    keeper.start()
    return keeper


def _keep(path: Path, run: str, bundle: Bundle) -> None:
    # Not kept, the result is still in the store: the next page that opens the notebook gets it.
    with contextlib.suppress(OSError, ValueError, WorkbenchError), Store() as store:
        begun = alone = time.monotonic()
        while time.monotonic() - begun < PATIENCE_SECONDS:
            if store.attendance(run, time.time()):
                alone = time.monotonic()
            elif time.monotonic() - alone >= ABSENCE_SECONDS:
                write_result(path, run, bundle)
                return
            if not _lacks_result(json.loads(path.read_text(encoding="utf-8")), run):
                return
            time.sleep(LOOK_SECONDS)


def write_result(path: Path, run: str, bundle: Bundle) -> bool:
    """Put ``bundle`` in place of what the notebook at ``path`` shows of ``run``.

    Returns:
        Whether the notebook was changed: it shows the run, and had no result yet.

    Raises:
        OSError: The file cannot be read or written.
        ValueError: It is no notebook.
    """
    before = path.stat()
    notebook = json.loads(path.read_text(encoding="utf-8"))
    lacking = _lacks_result(notebook, run)
    for output in lacking:
        output["data"] = {kind: _on_disk(kind, data) for kind, data in bundle.items()}
    if not lacking or path.stat().st_mtime_ns != before.st_mtime_ns:
        return False
    text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".ipynb")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, stat.S_IMODE(before.st_mode))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return True


def _lacks_result(notebook: dict[str, Any], run: str) -> list[dict[str, Any]]:
    """Return the outputs that show ``run`` as it went on."""
    found = []
    for cell in notebook.get("cells", []):
        for output in cell.get("outputs", []):
            shown = output.get("data", {}).get(RUN_TYPE, {})
            if shown.get("run") == run and "saved" not in shown:
                found.append(output)
    return found


def _on_disk(kind: str, data: object) -> object:
    """Return ``data`` as a notebook's file has it: text in lines, JSON as it is."""
    if isinstance(data, str) and kind.startswith("text/"):
        return data.splitlines(keepends=True)
    return data
