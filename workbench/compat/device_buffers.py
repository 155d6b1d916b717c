"""Let ChainerMN exchange arrays on GPUs by an MPI that reads host memory alone.

ChainerMN hands MPI the addresses of CuPy's arrays, as ctypes arrays. Only an MPI that was built for
CUDA can read there; those on PyPI are not, and end with a segmentation fault.
"""

import ctypes
import functools
from collections.abc import Callable
from typing import Any

# Place of the buffer that a call writes to, among its arguments.
_WRITTEN = {
    "Recv": 0,
    "Bcast": 0,
    "Allreduce": 1,
    "Allgatherv": 1,
    "Alltoallv": 1,
    "Gatherv": 1,
    "Scatterv": 1,
}
_TO_GPU, _TO_HOST = 1, 2  # of cudaMemcpy


class DeviceBufferComm:
    """The calls of a communicator, with which arrays on a GPU go through host memory.

    In a buffer, as mpi4py takes it, memory of a GPU is a ctypes array.
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm

    def __getattr__(self, name: str) -> Callable[..., None]:
        return functools.partial(_call, getattr(self._comm, name))


def _call(call: Callable[..., object], *buffers: Any, **rest: Any) -> None:
    places = [n for n, one in enumerate(buffers) if _is_on_gpu(one)]
    if not places or reads_gpus():
        call(*buffers, **rest)
        return
    from cupy.cuda import runtime
    from cupyx import empty_pinned

    given, hosts = [*buffers], {}
    for place in places:
        memory, *layout = buffers[place]
        hosts[place] = empty_pinned(ctypes.sizeof(memory), "u1")
        # What is only written is copied too: parts of it may stay as they are.
        runtime.memcpy(
            hosts[place].ctypes.data, ctypes.addressof(memory), hosts[place].nbytes, _TO_HOST
        )
        given[place] = [hosts[place], *layout]
    call(*given, **rest)
    written = _WRITTEN.get(getattr(call, "__name__", ""))
    if written in hosts:
        host = hosts[written]
        address = ctypes.addressof(buffers[written][0])
        runtime.memcpy(address, host.ctypes.data, host.nbytes, _TO_GPU)


def _is_on_gpu(buffer: Any) -> bool:
    return isinstance(buffer, tuple | list) and isinstance(buffer[0], ctypes.Array)


@functools.cache
def reads_gpus() -> bool:
    """Return whether the MPI of this process was built to read a GPU's memory."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        files = {line.split(maxsplit=5)[-1].strip() for line in maps if "/libmpi" in line}
    for file in files:
        try:
            # An extension of Open MPI and MPICH.
            if ctypes.CDLL(file).MPIX_Query_cuda_support():
                return True
        except (OSError, AttributeError):
            continue
    return False
