"""Show what the doctor found."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.core.diagnosis import Finding
from workbench.notebook.page import Bundle, table

_VERDICTS = {True: "✓ good", False: "✗ mend", None: "– not checked"}


def findings_table(findings: Sequence[Finding]) -> Bundle:
    """Return findings as a table."""
    rows = [(f.check, _VERDICTS[f.ok], f.found, f.remedy) for f in findings]
    return table(("check", "verdict", "found", "remedy"), rows)
