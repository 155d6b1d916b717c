"""What a person sees, in a real browser on a real JupyterLab; each folder of specs has a server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

SPECS = Path(__file__).parents[2] / "extension" / "ui-tests" / "tests"
MARKS = {
    "played": [],
    "absent": [pytest.mark.kernel],
    "widget": [pytest.mark.kernel],
    "plain": [pytest.mark.kernel],
    "real": [pytest.mark.kernel, pytest.mark.mpi],
}
# The first measures for a minute what tests without a page measure too. The second shows in two
# notebooks that no page takes what we display for mathematics.
WEEKLY = {"real/bandwidth.spec.ts", "played/typeset.spec.ts"}

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]


def specs() -> Iterator[object]:
    for folder, marks in MARKS.items():
        for path in sorted((SPECS / folder).glob("*.spec.ts")):
            name = path.name.removesuffix(".spec.ts")
            if name == "pictures" and "WORKBENCH_UI_PICTURES" not in os.environ:
                continue  # it makes those of README, and checks nothing else
            spec = f"{folder}/{path.name}"
            often = [pytest.mark.weekly] if spec in WEEKLY else []
            yield pytest.param(spec, marks=[*marks, *often], id=f"{folder}-{name}")


@pytest.mark.parametrize("spec", list(specs()))
def test_in_a_browser(run_spec, spec) -> None:
    run_spec(spec)
