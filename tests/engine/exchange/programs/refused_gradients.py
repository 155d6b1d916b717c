"""Give a communicator gradients that it refuses, on the last rank alone, and note its words."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.engine.exchange.programs.reference import make, means_of
from tests.engine.programs.world import found, rank, size, write_found
from workbench.errors import WorkbenchError


def refusal(
    gradients: list[Any],
    names: list[str] | None = None,
    shapes: list[tuple[int, ...]] | None = None,
    before: tuple[list[Any], ...] = (),
    **options: Any,
) -> str:
    comm = make("auto", **options)
    for some in before:
        means_of(comm, [g.copy() for g in some])
    try:
        means_of(comm, gradients, names, shapes)
    except WorkbenchError as error:
        return str(error)
    return "nothing"


def ones(*shape: int) -> Any:
    return np.ones(shape, "f4")


last = rank == size - 1
usual = (ones(9), ones(50_000))
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "overlap": {"overlap": True},
    "int8": {"compress": "int8"},
}
for name, options in WAYS.items():
    before = ([*usual],)
    nan = [ones(9), ones(50_000)]
    if last:
        nan[1][49_999] = np.nan
    found[f"nan {name}"] = refusal(nan, ["/a", "/b"], before=before, **options)
    infinite = [ones(9), ones(50_000)]
    if last:
        infinite[0][0] = np.inf
    found[f"inf {name}"] = refusal(infinite, ["/a", "/b"], **options)
    none = [ones(9), None if last else ones(50_000)]
    found[f"none {name}"] = refusal(none, None, [(9,), (50_000,)], before=before, **options)
    shape = [ones(9), ones(2, 25_000) if last else ones(50_000)]
    found[f"shape {name}"] = refusal(shape, before=before, **options)
    kind = [ones(9), ones(50_000).astype("f8" if last else "f4")]
    found[f"type {name}"] = refusal(kind, **options)
    order = ["/b", "/a"] if last else ["/a", "/b"]
    found[f"order {name}"] = refusal([ones(9), ones(9)], order, **options)
    lacks = ["/a", "/c"] if last else ["/a", "/b"]
    found[f"name {name}"] = refusal([*usual], lacks, **options)
    found[f"all {name}"] = refusal([ones(9), ones(60_000)], before=before, **options)
    found[f"integer {name}"] = refusal([np.ones(9, "i4")], **options)

write_found()
