"""Say how many seconds it takes from nothing to the first allreduce, with ipyparallel alone."""

import time

import ipyparallel as ipp
from ipyparallel.cluster.launcher import MPIEngineSetLauncher

# With fewer cores than ranks Open MPI refuses to start otherwise; all else is as it comes.
MPIEngineSetLauncher.mpi_args = ["--map-by", ":OVERSUBSCRIBE"]


def allreduce():
    """Add up ones."""
    from mpi4py import MPI

    return MPI.COMM_WORLD.allreduce(1)


start = time.perf_counter()
cluster = ipp.Cluster(engines="mpi", n=2)
engines = cluster.start_and_connect_sync()
ones = engines[:].apply_sync(allreduce)
seconds = time.perf_counter() - start
cluster.stop_cluster_sync()
print(f"seconds {seconds}" if ones == [2, 2] else f"the ranks are no world: {ones}")
