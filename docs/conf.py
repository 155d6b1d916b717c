"""Build the site from these pages, and from the executed notebooks as its tutorials."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter
from sphinx.application import Sphinx

import workbench

ROOT = Path(__file__).parents[1]
PAGES = Path(__file__).parent / "tutorials"

project = "workbench"
author = "The workbench developers"
copyright = "The workbench developers"
release = version = workbench.__version__

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"workbench {release}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
myst_heading_anchors = 4
nitpicky = True


def setup(app: Sphinx) -> dict[str, bool]:
    """Have notebooks become pages, and links to notebooks lead there."""
    app.connect("builder-inited", lambda _: write_tutorials())
    app.connect("source-read", link_tutorials)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_tutorials() -> None:
    """Write a page for each notebook, with what its cells displayed."""
    PAGES.mkdir(exist_ok=True)
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        exporter = MarkdownExporter(config={"NbConvertBase": {"display_data_priority": SHOWN}})
        text, found = exporter.from_notebook_node(
            notebook, {"output_files_dir": path.stem, "unique_key": path.stem}
        )
        for name, content in found["outputs"].items():
            picture = PAGES / name
            picture.parent.mkdir(exist_ok=True)
            picture.write_bytes(content)
        text = re.sub(r"\x1b\[[\d;]*m", "", text)  # colours of a traceback
        (PAGES / f"{path.stem}.md").write_text(text, encoding="utf-8")


# The HTML of a run has its picture, and its summary below.
SHOWN = ["text/html", "image/png", "text/markdown", "text/plain"]
LINK = re.compile(r"\]\((?:\.\./)?(?:notebooks/)?(\d\d_\w+)\.ipynb")


def link_tutorials(app: Sphinx, name: str, source: list[str]) -> None:
    """Lead links to notebooks to their pages."""
    folder = "" if name.startswith("tutorials/") else "tutorials/"
    source[0] = LINK.sub(rf"]({folder}\1.md", source[0])
