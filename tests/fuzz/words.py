"""What strangers say: JSON of any shape, close to what is meant and far from it, and plain text.

All decoders of what nodes, pages and files say are tried here, but for ranks' messages and rows of
the store, which are tried beside their modules. ``WORKBENCH_FUZZ=10000`` tries more of each.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st

from tests.weekly import examples
from workbench.core.node.agent_protocol import AgentMessage

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


def text_of(message: AgentMessage) -> str:
    """Return a message of a node's agent as JSON, in which it can be changed; bytes are marked."""

    def marked(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [*map(marked, value)]
        if isinstance(value, dict):
            return {name: marked(one) for name, one in value.items()}
        return f"b:{value.decode('latin-1')}" if isinstance(value, bytes) else value

    return json.dumps(marked(msgspec.to_builtins(message, builtin_types=(bytes,))))


def wire_of(text: str) -> bytes:
    """Return what an agent sends of a message that was JSON, changed or not.

    Raises:
        ValueError: It is no JSON, or MessagePack has no such value.
        OverflowError: Likewise.
    """

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [*map(plain, value)]
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items()}
        if isinstance(value, str) and value.startswith("b:"):
            return value[2:].encode("latin-1", errors="replace")
        return value

    return msgspec.msgpack.encode(plain(json.loads(text)))


NO_WIRE = (ValueError, OverflowError, RecursionError)
"""What ``wire_of`` raises."""


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
