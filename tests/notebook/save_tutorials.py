"""Execute the tutorials and save them with what they show.

python tests/notebook/save_tutorials.py
"""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

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


def scrub(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Take out what only this machine has: widgets' state, its name, terminal escapes."""
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        cell.outputs = [_scrubbed(output) for output in cell.get("outputs", [])] or []
        if cell.cell_type == "markdown":
            del cell["outputs"]
    return notebook


def _scrubbed(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    output.get("data", {}).pop(WIDGET, None)
    for holder, key in [(output, "text"), *((output.get("data", {}), k) for k in _texts(output))]:
        if isinstance(holder.get(key), str):
            holder[key] = _plain(holder[key])
    if "traceback" in output:
        output.traceback = [_plain(line) for line in output.traceback]
        output.evalue = _plain(output.evalue)
    return output


def _texts(output: nbformat.NotebookNode) -> list[str]:
    return [kind for kind in output.get("data", {}) if kind.startswith("text/")]


def _plain(text: str) -> str:
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    return re.sub(rf"\b{re.escape(platform.node())}\b", "localhost", text)


def main() -> None:
    """Execute and save the notebooks named, or all."""
    chosen = [Path(name) for name in sys.argv[1:]] or sorted(NOTEBOOKS.glob("*.ipynb"))
    with tempfile.TemporaryDirectory(prefix="wb-") as home:
        # The data directory is then shown as any reader's own: ~/.local/share/workbench.
        os.environ |= {"HOME": home, "IPYTHONDIR": f"{home}/ipython"}
        for variable in ("WORKBENCH_HOME", "XDG_DATA_HOME"):
            os.environ.pop(variable, None)
        for path in chosen:
            nbformat.write(scrub(execute(path, Path(home))), path)


if __name__ == "__main__":
    main()
