"""Offer the first ranks alone, and then all."""

from __future__ import annotations

from mpi4py import MPI

from tests.engine.programs.world import found, rank, worlds, write_found

first = worlds.offer(0)
if rank < 2:
    pair = worlds.offer(2)
    found["pair"] = [MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank, MPI.COMM_WORLD.allreduce(1)]
    found["again"] = worlds.offer(2) is pair
found["all"] = [worlds.offer(4).size, worlds.offer(0) is first, MPI.COMM_WORLD.allreduce(1)]

write_found()
