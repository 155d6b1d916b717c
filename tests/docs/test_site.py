"""The documentation's site is built without a warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .pages import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` does."""
    folder = tmp_path_factory.mktemp("site")
    strict = ["--quiet", "--fail-on-warning", "--keep-going", "--nitpicky"]
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *strict, "-d", folder / "cache", ROOT / "docs",
         folder / "html"],
        check=False, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return folder / "html"


def test_the_site_is_built_without_warnings(site: Path) -> None:
    assert "Tutorials" in (site / "index.html").read_text(encoding="utf-8")


def test_tutorials_are_pages_with_what_their_cells_showed(site: Path) -> None:
    page = (site / "tutorials" / "01_dist_train.html").read_text(encoding="utf-8")

    assert "data:image/png;base64," in page
    assert "Last values" in page


def test_links_to_notebooks_lead_to_their_pages(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")

    assert 'href="tutorials/03_spot_cluster.html"' in page
    assert ".ipynb" not in page
