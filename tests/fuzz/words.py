"""What strangers say: JSON of any shape, close to what is meant and far from it, and plain text.

All decoders of what nodes, pages and files say are tried here, but for ranks' messages and rows of
the store, which are tried beside their modules. ``WORKBENCH_FUZZ=10000`` tries more of each.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st

from tests.weekly import examples

SEED = 20260714
"""Printed with each failure by hypothesis too; another one is another ten thousand examples."""
EXAMPLES = int(os.environ.get("WORKBENCH_FUZZ") or examples(500))

F = TypeVar("F", bound=Callable[..., object])
RUN = "261121-120000-abcd"
SIGNS = ["", ".", "..", "/", "../../x", "/tmp/x", "a", "a/b", "~", "\0", "\ud800", "é", RUN]
TEXT = st.sampled_from(SIGNS) | st.text(max_size=12)
NUMBERS = st.sampled_from([0, 1, -1, 2**31, 2**53, 2**63, 2**70, 0.5, -0.0, 1e308]) | st.integers()
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats() | TEXT,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(TEXT, inside, max_size=4),
    max_leaves=10,
)


def fuzzed(number: int = EXAMPLES) -> Callable[[F], F]:
    """Have a test tried on so many examples, the same each time."""

    def decorate(test: F) -> F:
        quick = settings(
            max_examples=number,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        )
        return seed(SEED)(quick(test))

    return decorate


def line(*kinds: str) -> st.SearchStrategy[str]:
    """Give lines that begin as these kinds of answer do, and lines of anything else."""
    values = st.lists(JSON, max_size=5)
    close = st.builds(lambda kind, rest: json.dumps([kind, *rest]), st.sampled_from(kinds), values)
    deep = st.integers(1, 3_000).map(lambda depth: "[" * depth)
    return close | JSON.map(json.dumps) | st.text(max_size=40) | deep
