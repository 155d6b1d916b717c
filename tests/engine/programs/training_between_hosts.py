"""Train on ranks of several hosts, each of which is its host's leader."""

from __future__ import annotations

from tests.engine.programs.timed_training import train
from tests.engine.programs.world import folder, found, print_found, rank, worlds

comm = worlds.offer(0)
found.update(train(comm, folder, compute=0.05, nbytes=1_000_000, steps=25, leader=rank))

print_found()
