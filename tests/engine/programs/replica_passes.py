"""Take steps whose passes PyTorch seems to have measured: ``… alike|alone``.

On rank 0 each is exposed for 40 ms, on rank 1 for 10. With ``alone`` rank 1 takes no step.
"""

from __future__ import annotations

from types import SimpleNamespace

from tests.engine.programs.world import arguments, found, rank, worlds, write_found
from workbench.engine.timing.mpi_calls import watch
from workbench.frameworks.torch.replica_times import ReplicaTimes

world = worlds.offer(0)
measured = {
    "iteration": 0,
    "backward_comm_time": 50_000_000 - 30_000_000 * rank,
    "backward_compute_comm_overlap_time": 10_000_000,
    "backward_compute_time": 40_000_000,
    "total_parameter_size_bytes": 1_000_000,
    "num_buckets_reduced": 3,
}


class Replica:
    """As much of a replica as is asked."""

    device_type = "cpu"
    process_group = SimpleNamespace(size=lambda: world.size)
    logger = SimpleNamespace(_get_ddp_logging_data=lambda: SimpleNamespace(ints_map=measured))

    def _set_ddp_runtime_logging_sample_rate(self, rate: int) -> None:
        found["rate"] = rate


replica, times = Replica(), ReplicaTimes()
times.add(replica)
watch.begin()
before = watch.nbytes, watch.exchanges, watch.spent
alone = "alone" in arguments
taken = []
for _ in range(0 if alone and rank == 1 else 100):
    measured["iteration"] += 2  # as where gradients are accumulated without no_sync
    watch.count_step(0.02)
    taken.append(times.step())
    if not alone:
        world.Barrier()  # no rank is a pass ahead, as in a training
after = watch.nbytes, watch.exchanges, watch.spent
found["totals"] = [last - first for first, last in zip(before, after, strict=True)]
found["seconds"] = [one.seconds for one in taken]
found["samples"] = [one.sample for one in taken if one.sample is not None]
found["details"] = watch.details

write_found()
