"""Write points, as a supervisor gets them from ranks, and print the seconds that it took.

``point_writer.py (store RUN | lines FILE) POINTS RANKS``
"""

import json
import sys
import time

from workbench.core.run.rank_protocol import Batch, Sample
from workbench.store import Store

A_TRANSACTION = 500
NAMES = ("main/loss", "main/accuracy")


def samples(sequence, count):
    """Return what one rank reports for its batch number ``sequence``."""
    first = sequence * count // len(NAMES)
    return tuple(
        Sample(name, iteration, 1.7e9 + iteration, 1 / (1 + iteration))
        for iteration in range(first, first + count // len(NAMES))
        for name in NAMES
    )


def to_store(run, points, ranks):
    """Add a batch of every rank in each transaction."""
    each = A_TRANSACTION // ranks
    with Store() as store:
        for sequence in range(points // A_TRANSACTION):
            store.reports.add_batches(
                Batch(run, rank, sequence + 1, samples(sequence, each)) for rank in range(ranks)
            )


def to_lines(path, points, ranks):
    """Append a line for each point, and flush as often."""
    each = A_TRANSACTION // ranks
    with open(path, "a", encoding="utf-8") as file:
        for sequence in range(points // A_TRANSACTION):
            for rank in range(ranks):
                for sample in samples(sequence, each):
                    file.write(json.dumps([rank, *sample]) + "\n")
            file.flush()


def main():
    """Write, then say how long it took."""
    kind, target, points, ranks = sys.argv[1:]
    start = time.perf_counter()
    {"store": to_store, "lines": to_lines}[kind](target, int(points), int(ranks))
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
