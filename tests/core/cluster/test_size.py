"""A size is a number of ranks or of nodes, and its text names the unit."""

from __future__ import annotations

import pytest

from workbench.core.cluster.size import Size
from workbench.errors import InputError


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (Size(ranks=1), "1 rank"),
        (Size(4), "4 ranks"),
        (Size(nodes=1), "1 node"),
        (Size(nodes=0), "0 nodes"),
    ],
)
def test_a_size_is_reported_in_what_it_counts(size, words) -> None:
    assert str(size) == words


@pytest.mark.parametrize(("ranks", "nodes"), [(None, None), (2, 3), (0, 0)])
def test_neither_none_nor_two_numbers_are_a_size(ranks, nodes) -> None:
    with pytest.raises(InputError, match="Give one size"):
        Size(ranks, nodes)
