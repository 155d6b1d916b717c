"""Execute the tutorials and save them with what they show.

python tests/notebook/save_tutorials.py
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

import workbench
from workbench.core.cluster.model import ClusterState
from workbench.store import Store
from workbench.store.schema import VERSION

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
WIDGET = "application/vnd.jupyter.widget-view+json"


def execute(path: Path, folder: Path, timeout: int = 300) -> nbformat.NotebookNode:
    """Return the notebook at ``path`` as executed in ``folder``."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=timeout,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    return client.execute()


def stamp(notebook: nbformat.NotebookNode) -> dict[str, Any]:
    """Return what the results of a notebook depend on: its code, our version and our schema."""
    code = "\0".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return {
        "version": workbench.__version__,
        "schema": VERSION,
        "code": hashlib.sha256(code.encode()).hexdigest()[:16],
    }


def scrub(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Take out what only this machine has: widgets' state, its name, terminal escapes."""
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        cell.outputs = [_scrub_output(output) for output in cell.get("outputs", [])] or []
        if cell.cell_type == "markdown":
            del cell["outputs"]
    return notebook


def _scrub_output(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    output.get("data", {}).pop(WIDGET, None)
    return nbformat.from_dict({name: _plain(value) for name, value in output.items()})


def _plain(value: Any) -> Any:
    """Do so in every text of ``value``: what is kept of a run is JSON, and tells hosts too."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return _plain_text(value) if isinstance(value, str) else value


def _plain_text(text: str) -> str:
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    # Slash and plus stand for themselves in base64, which a short name may well occur in.
    return re.sub(rf"(?<![\w/+]){re.escape(platform.node())}(?![\w/+=])", "localhost", text)


def main() -> None:
    """Execute and save the notebooks named, or all, each as by a user who has run nothing yet."""
    chosen = [Path(name) for name in sys.argv[1:]] or sorted(NOTEBOOKS.glob("*.ipynb"))
    for variable in ("WORKBENCH_HOME", "XDG_DATA_HOME"):
        os.environ.pop(variable, None)
    for path in chosen:
        with tempfile.TemporaryDirectory(prefix="wb-") as home:
            # The data directory is then shown as any reader's own: ~/.local/share/workbench.
            os.environ |= {"HOME": home, "IPYTHONDIR": f"{home}/ipython"}
            done = scrub(execute(path, Path(home)))
            done.metadata["workbench"] = stamp(done)
            nbformat.write(done, path)
            await_down()


def await_down(timeout: float = 30.0) -> None:
    """Wait until the clusters are down that a notebook has asked to be gone."""
    deadline = time.monotonic() + timeout
    with Store() as store:
        names = [wish.name for wish in store.clusters()]
        while any(store.cluster_fact(name).state is not ClusterState.DOWN for name in names):
            if time.monotonic() > deadline:
                raise TimeoutError("The notebook's last cell did not delete its cluster.")
            time.sleep(0.1)


if __name__ == "__main__":
    main()
