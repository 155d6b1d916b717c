"""Replace exact text in a module's source; a mismatch is an error."""

from collections.abc import Sequence
from typing import NamedTuple


class Replacement(NamedTuple):
    """One exact text, its replacement, and why.

    Attributes:
        old: Text that must occur exactly ``times`` times.
        new: Text with as many line breaks as ``old``, so that line numbers stay true.
        why: The change in Python, NumPy, SciPy or CuPy that makes it necessary.
        times: How often ``old`` occurs in the pinned version.
    """

    old: str
    new: str
    why: str
    times: int = 1


class RewriteError(ValueError):
    """The text to be replaced is not in the source as often as expected."""


def rewrite(source: str, replacements: Sequence[Replacement]) -> str:
    """Return ``source`` with every replacement made.

    Raises:
        RewriteError: A text occurs more or less often than it should.
    """
    for old, new, _, times in replacements:
        found = source.count(old)
        if found != times:
            first = old.strip().splitlines()[0]
            raise RewriteError(f"{first!r} occurs {found} times instead of {times}")
        source = source.replace(old, new)
    return source
