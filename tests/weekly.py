"""What `make test-all` checks beyond `make test`: tests marked weekly, and more examples."""

from __future__ import annotations

import os

WEEKLY = os.environ.get("WORKBENCH_WEEKLY") == "1"
FEWEST = 25


def examples(number: int) -> int:
    """Return how many examples to try: ``number`` of them weekly, and a tenth otherwise."""
    return number if WEEKLY else min(number, max(FEWEST, number // 10))
