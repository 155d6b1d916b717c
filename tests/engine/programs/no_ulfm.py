"""Revoke and recover under an MPI that can do neither."""

from __future__ import annotations

from mpi4py import MPI

from tests.engine.programs.world import found, write_found
from workbench.engine.timing.mpi_calls import GenerationWorlds, is_echo

plain = GenerationWorlds(fault_tolerant=False)
comm = plain.offer(0)
found["revoked"], found["recovered"] = plain.revoke(), plain.recover()
found["works"] = comm.allreduce(1)
found["echoes"] = [is_echo(ValueError("MPI_ERR_REVOKED")), is_echo(MPI.Exception(MPI.ERR_ARG))]

write_found()
