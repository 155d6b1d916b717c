import os

from mpi4py import MPI

if MPI.COMM_WORLD.rank == MPI.COMM_WORLD.size - 1:
    os._exit(0)
MPI.COMM_WORLD.barrier()
