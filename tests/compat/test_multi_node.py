import os
import subprocess
import sys
from pathlib import Path

import pytest

import workbench.compat as compat

ROOT = Path(compat.__file__).parents[2]
RANKS = """
import workbench.compat
import chainer, chainermn
import numpy as np
from chainermn.extensions import ObservationAggregator
from types import SimpleNamespace

comm = chainermn.create_communicator("naive")
value = chainer.Variable(np.array(comm.rank + 1, np.float32))
trainer = SimpleNamespace(
    observation={"loss": value},
    updater=SimpleNamespace(iteration=1, epoch=0, epoch_detail=0.1, previous_epoch_detail=0.0),
)
ObservationAggregator(comm, "loss", comm_trigger=lambda trainer: True)(trainer)
mean = float(chainer.as_array(trainer.observation["loss"]))

data = np.arange(6, dtype=np.float32)
iterator = chainermn.iterators.create_multi_node_iterator(
    chainer.iterators.SerialIterator(data, 3, shuffle=False), comm
)
batch = [float(x) for x in next(iterator)]
for rank in range(comm.size):
    comm.mpi_comm.Barrier()
    if rank == comm.rank:
        print(mean, batch, flush=True)
"""
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


@pytest.mark.mpi
@pytest.mark.parametrize("size", [1, 2])
def test_variables_are_aggregated_and_batches_shared_between_ranks(size):
    done = subprocess.run(
        [Path(sys.executable).parent / "mpiexec", "-n", str(size), sys.executable, "-c", RANKS],
        env=os.environ | MPI | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )

    assert done.stdout.splitlines() == [f"{(size + 1) / 2} [0.0, 1.0, 2.0]"] * size, done.stderr
