"""Call MPI with arrays on a simulated GPU, whose addresses this process cannot read."""

import ctypes
import sys
import types
from typing import Any

import numpy
from mpi4py import MPI

from workbench.compat.device_buffers import DeviceBufferComm, reads_gpus

FAR = 1 << 48  # no process has memory at these addresses


class Memory:
    """Memory of the simulated GPU."""

    def __init__(self, numbers):
        self.numbers = numpy.array(numbers, "f4")
        address = FAR + self.numbers.ctypes.data
        self.buffer = (ctypes.c_ubyte * self.numbers.nbytes).from_address(address)


def memcpy(target, source, size, kind):
    assert kind == (2 if source >= FAR else 1)
    assert (source >= FAR) != (target >= FAR)
    ctypes.memmove(target % FAR, source % FAR, size)


cuda: Any = types.ModuleType("cupy.cuda")
cuda.runtime = types.SimpleNamespace(memcpy=memcpy)
cupyx: Any = types.ModuleType("cupyx")
cupyx.empty_pinned = numpy.empty
sys.modules.update({"cupy": types.ModuleType("cupy"), "cupyx": cupyx, "cupy.cuda": cuda})

assert not reads_gpus(), "the test's MPI was built for CUDA"
comm, float_ = DeviceBufferComm(MPI.COMM_WORLD), MPI.FLOAT
rank = MPI.COMM_WORLD.rank
own, two, four = Memory([rank, 10]), Memory([-1, -1]), Memory([-1] * 4)

comm.Allreduce((own.buffer, float_), (two.buffer, float_))
assert two.numbers.tolist() == [1, 20]
assert own.numbers.tolist() == [rank, 10]

comm.Allreduce(MPI.IN_PLACE, (two.buffer, float_))
assert two.numbers.tolist() == [2, 40]

comm.Bcast((own.buffer, float_), 1)
assert own.numbers.tolist() == [1, 10]

own = Memory([rank, 10])
if rank == 0:
    comm.Ssend((own.buffer, float_), dest=1, tag=3)
else:
    comm.Recv((two.buffer, float_), source=0, tag=3)
    assert two.numbers.tolist() == [0, 10]

comm.Allgatherv((own.buffer, float_), [four.buffer, ([2, 2], [0, 2]), float_])
assert four.numbers.tolist() == [0, 10, 1, 10]

to: Any = [two.buffer, ([1, 1], [0, 1]), float_]
comm.Alltoallv([own.buffer, ([1, 1], [0, 1]), float_], to)
assert two.numbers.tolist() == ([0, 1] if rank == 0 else [10, 10])

four = Memory([-1] * 4)
to = [four.buffer, ([2, 2], [0, 2]), float_] if rank == 0 else None
comm.Gatherv((own.buffer, float_), to, 0)
assert four.numbers.tolist() == ([0, 10, 1, 10] if rank == 0 else [-1] * 4)

source = [four.buffer, ([2, 2], [2, 0]), float_] if rank == 0 else None
comm.Scatterv(source, (two.buffer, float_), 0)
assert two.numbers.tolist() == ([1, 10] if rank == 0 else [0, 10])

host = numpy.full(3, rank, "f4")
comm.Allreduce(MPI.IN_PLACE, host)
assert host.tolist() == [1, 1, 1]
print("done")
