"""Write a run's result into the notebook's file, if no page is open any longer.

An open page does this itself. Without one, no other program has the notebook open, so its file can
be changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.errors import WorkbenchError
from workbench.pages.protocol import RUN_TYPE
from workbench.store import Store
from workbench.store.run_names import notebook_here
from workbench.view.run_output import METADATA, Bundle

LOOK_SECONDS = 2.0
ABSENCE_SECONDS = 10.0  # a reloaded page is back by then
PATIENCE_SECONDS = 300.0  # a page that stays this long saves the result itself


def keep_result(
    run: str,
    make: Callable[[Store], Bundle],
    *,
    look: float = LOOK_SECONDS,
    absence: float = ABSENCE_SECONDS,
) -> threading.Thread | None:
    """Write the result of ``run`` into the notebook's file from a thread, if its path is known.

    Args:
        make: Returns the result, with the output of all ranks; called only if needed.
        look: Seconds between two looks for a page.
        absence: Seconds after which a page does not come back.
    """
    path = Path(notebook_here())
    if not path.is_file():
        return None
    keeper = threading.Thread(
        target=_keep,
        args=(path, run, make, look, absence),
        name=f"workbench keeper of {run}",
        daemon=True,
    )
    keeper.start()
    return keeper


def _keep(
    path: Path, run: str, make: Callable[[Store], Bundle], look: float, absence: float
) -> None:
    # If this fails, the next page that opens the notebook gets the result from the store.
    with contextlib.suppress(OSError, ValueError, WorkbenchError), Store() as store:
        begun = alone = time.monotonic()
        while time.monotonic() - begun < PATIENCE_SECONDS:
            if store.open_pages(run, time.time()):
                alone = time.monotonic()
            elif time.monotonic() - alone >= absence:
                write_result(path, run, make(store))
                return
            if not _find_unfinished(json.loads(path.read_text(encoding="utf-8")), run):
                return
            time.sleep(look)


def write_result(path: Path, run: str, bundle: Bundle) -> bool:
    """Replace the view of ``run`` in the notebook at ``path`` by ``bundle``.

    ``bundle`` has the output of all ranks, so rank 0's output in the cell is removed.

    Returns:
        Whether the notebook was changed: it shows the run, and had no result yet.

    Raises:
        OSError: The file cannot be read or written.
        ValueError: It is not a notebook.
    """
    before = path.stat()
    notebook = json.loads(path.read_text(encoding="utf-8"))
    lacking = _find_unfinished(notebook, run)
    for cell in notebook.get("cells", []) if lacking else []:
        if "outputs" in cell:
            cell["outputs"] = drop_streamed(cell["outputs"], run)
    for output in lacking:
        output["data"] = {kind: _format_data(kind, data) for kind, data in bundle.items()}
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


def drop_streamed(outputs: list[dict[str, Any]], run: str) -> list[dict[str, Any]]:
    """Return the outputs of a cell without those of rank 0 of ``run``."""
    kept, shown = [], ""
    for output in outputs:
        shown = output.get("data", {}).get(RUN_TYPE, {}).get("run", shown)
        is_text = output.get("output_type") == "stream" and shown == run
        if not is_text and output.get("metadata", {}).get(METADATA, {}).get("run") != run:
            kept.append(output)
    return kept


def _find_unfinished(notebook: dict[str, Any], run: str) -> list[dict[str, Any]]:
    """Return the outputs that show ``run`` before its end."""
    found = []
    for cell in notebook.get("cells", []):
        for output in cell.get("outputs", []):
            shown = output.get("data", {}).get(RUN_TYPE, {})
            if shown.get("run") == run and "saved" not in shown:
                found.append(output)
    return found


def _format_data(kind: str, data: object) -> object:
    """Return ``data`` in a notebook file's format: text as lines, JSON unchanged."""
    if isinstance(data, str) and kind.startswith("text/"):
        return data.splitlines(keepends=True)
    return data
