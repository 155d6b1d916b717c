"""Deal out the examples of an epoch that are left, when it continues on other ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

Indices = Any
"""A flat NumPy array of whole numbers."""


def dealt(remaining: Sequence[Indices], rank: int, ranks: int) -> Indices:
    """Return the examples that ``rank`` of now ``ranks`` ranks has to visit in this epoch.

    They keep about the order in which the earlier ranks would have visited them. All ranks get
    the same number, so up to ``ranks - 1`` examples are visited twice, as ChainerMN does for
    equal lengths. An example that several ranks had is dealt out once.

    Args:
        remaining: For each of the earlier ranks the examples that it had not visited yet.
    """
    values = merge_examples(remaining)
    if len(values):
        values = numpy.resize(values, -(-len(values) // ranks) * ranks)
    return values[rank::ranks]


def merge_examples(remaining: Sequence[Indices]) -> Indices:
    """Return the examples that ranks have to visit, each once, in about the order of the visits.

    Args:
        remaining: The examples of each rank, in its order.
    """
    lists = [numpy.asarray(one, numpy.int64) for one in remaining]
    values = numpy.concatenate(lists) if lists else numpy.zeros(0, numpy.int64)
    places = numpy.concatenate([numpy.arange(len(one)) for one in lists] or [values])
    owners = numpy.repeat(numpy.arange(len(lists)), [len(one) for one in lists])
    first = numpy.full(int(values.max()) + 1 if len(values) else 0, len(lists))
    numpy.minimum.at(first, values, owners)
    own = first[values] == owners
    values, places, owners = values[own], places[own], owners[own]
    found: Indices = values[numpy.lexsort((owners, places))]
    return found


def are_divided(remaining: Sequence[Indices]) -> bool:
    """Return whether ranks have different examples, but for those that make lengths equal."""
    values = numpy.concatenate([numpy.asarray(one, numpy.int64) for one in remaining])
    return len(numpy.unique(values)) > len(values) - len(remaining)


def order_with_rest(rest: int, length: int) -> tuple[Indices, int]:
    """Return an iterator's order that ends with ``rest`` further examples, and where they begin.

    Chainer's iterators need an order of unchanged length. The further examples have the numbers
    from ``length`` on; the part before them counts as visited.
    """
    rest = min(rest, length)
    order = numpy.concatenate([numpy.arange(length - rest), length + numpy.arange(rest)])
    return order.astype(numpy.intp), length - rest


def smallest(indices: Indices) -> Indices:
    """Return whole numbers from 0 in the smallest type that holds them."""
    most = int(indices.max()) if len(indices) else 0
    return indices.astype(numpy.min_scalar_type(most))
