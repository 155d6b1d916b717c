"""A cell that meets where PyTorch's ranks would; prints that, and where gloo would listen."""

import os
import socket

from mpi4py import MPI

comm = MPI.COMM_WORLD
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if comm.rank == 0:
    listening = socket.create_server(address)
comm.barrier()
if comm.rank:
    socket.create_connection(address, 5).close()
comm.barrier()
print(address[0], "lo" if os.environ["GLOO_SOCKET_IFNAME"] == "lo" else "network")
