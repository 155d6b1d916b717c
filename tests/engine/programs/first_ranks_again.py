"""Offer the first ranks alone again after a recovery."""

from __future__ import annotations

from tests.engine.programs.world import found, rank, real, worlds, write_found

if rank < 2:
    worlds.offer(2)
real.Barrier()
worlds.recover()
if rank < 2:
    found["pair"] = worlds.offer(2).allreduce(1)
found["all"] = worlds.offer(0).allreduce(1)

write_found()
