import os
import subprocess
import sys
from pathlib import Path

import pytest

import workbench.compat as compat

ROOT = Path(compat.__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def run_on_ranks(program, size):
    return subprocess.run(
        [Path(sys.executable).parent / "mpiexec", "-n", str(size), sys.executable, program],
        env=os.environ | MPI | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.mark.mpi
@pytest.mark.parametrize("size", [1, 2])
def test_variables_are_aggregated_and_batches_shared_between_ranks(size):
    done = run_on_ranks(PROGRAMS / "multi_node.py", size)

    assert done.stdout.splitlines() == [f"{(size + 1) / 2} [0.0, 1.0, 2.0]"] * size, done.stderr


@pytest.mark.mpi
def test_arrays_on_gpus_reach_an_mpi_that_cannot_read_them():
    done = run_on_ranks(PROGRAMS / "device_buffers.py", 2)

    assert done.stdout.splitlines() == ["done"] * 2, done.stderr
