"""Read which examples a training visited, and find those that an epoch lacks or repeats."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path


def visits(folder: Path) -> dict[int, Counter[int]]:
    """Return how often each example counts in each epoch.

    A file has the iterations of one rank in one generation. What a later generation did again
    does not count in an earlier one.
    """
    worlds: dict[int, list[list[str]]] = defaultdict(list)
    for path in folder.glob("*-*.txt"):
        # A rank that was killed may have left half a line.
        lines = [line for line in path.read_text().splitlines(keepends=True) if line[-1] == "\n"]
        worlds[int(path.stem.partition("-")[0])] += [line.split() for line in lines]
    found: dict[int, Counter[int]] = defaultdict(Counter)
    first = None
    for generation in sorted(worlds, reverse=True):
        for iteration, *pairs in worlds[generation]:
            if first is None or int(iteration) < first:
                for pair in pairs:
                    epoch, _, example = pair.partition(":")
                    found[int(epoch)][int(example)] += 1
        begins = min((int(words[0]) for words in worlds[generation]), default=None)
        if begins is not None:
            first = begins if first is None else min(first, begins)
    return found


def wrong(found: dict[int, Counter[int]], examples: int) -> tuple[int, int]:
    """Return how many examples were repeated in an epoch, and left out of one that is over.

    Args:
        examples: How many there are.
    """
    repeated = sum(count - 1 for epoch in found.values() for count in epoch.values())
    over = [found[epoch] for epoch in range(max(found, default=0))]
    return repeated, sum(examples - len(epoch) for epoch in over)
