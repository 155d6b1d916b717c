import os
import subprocess
import sys
from pathlib import Path

import pytest

import workbench.compat as compat

ROOT = Path(compat.__file__).parents[2]
RANKS = Path(__file__).parent / "programs" / "multi_node.py"
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
        [Path(sys.executable).parent / "mpiexec", "-n", str(size), sys.executable, RANKS],
        env=os.environ | MPI | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )

    assert done.stdout.splitlines() == [f"{(size + 1) / 2} [0.0, 1.0, 2.0]"] * size, done.stderr
