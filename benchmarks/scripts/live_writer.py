"""Write a run's points to the store, then more of them every 100 ms, as its supervisor would.

``live_writer.py RUN POINTS UPDATES FILE``: once the points are stored it prints a line, and
continues when it reads one. FILE then has the times of the updates; it runs until it is killed.
"""

import fcntl
import json
import math
import os
import random
import sys
import time

from workbench.core.cluster.model import DEFAULT_CLUSTER
from workbench.core.run.rank_protocol import Batch, Sample
from workbench.requests.supervisor import LOCK_NAME
from workbench.store import Store
from workbench.store.paths import cluster_directory

RANKS = 4
NAMES = ("main/loss", "main/accuracy")
STEPS = {"step/compute": 0.05, "step/communication": 0.02, "step/data": 0.01}
EACH = RANKS * len(NAMES)  # points an iteration
A_TRANSACTION = 250  # iterations
MORE = 100
EVERY_SECONDS = 0.1
SEED = 0


class Writer:
    """Writes one run; ``points`` of it so far."""

    def __init__(self, store, run):
        self.store, self.run = store, run
        self.random = random.Random(SEED)
        self.sequence = self.iteration = 0

    def write(self, points):
        """Write up to ``points`` points in all."""
        end = points // EACH
        self.sequence += 1
        self.store.reports.add_batches(
            Batch(self.run, rank, self.sequence, self.samples(rank, end)) for rank in range(RANKS)
        )
        self.iteration = end
        self.store.put_run_fact(self.run, iteration=end)

    def samples(self, rank, end):
        """Return what a rank reports."""
        found = []
        now = time.time()
        for iteration in range(self.iteration, end):
            loss = math.exp(-iteration / 5e4) + 0.02 * self.random.random() + 0.01 * rank
            found.append(Sample(NAMES[0], iteration, now, loss))
            found.append(Sample(NAMES[1], iteration, now, 1 - loss))
        if not self.iteration:
            found += [Sample(name, 0, now, seconds) for name, seconds in STEPS.items()]
        return tuple(found)


def main():
    """Fill the store, wait, and update it."""
    run, points, updates, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    moments = []
    # Readers of the run check that a process holds this lock.
    with Store() as store, (cluster_directory(DEFAULT_CLUSTER) / LOCK_NAME).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        writer = Writer(store, run)
        for so_far in [*range(A_TRANSACTION * EACH, points, A_TRANSACTION * EACH), points]:
            writer.write(so_far)
        print("ready", flush=True)
        sys.stdin.readline()
        due = time.time()
        for _ in range(updates):
            points += MORE
            writer.write(points)
            moments.append(time.time())
            due += EVERY_SECONDS
            time.sleep(max(0, due - time.time()))
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(moments, file)
        os.replace(f"{path}.new", path)
        sys.stdin.readline()


main()
