"""Measure one node: the link between its ranks, its disk, its devices."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mpi4py import MPI

from workbench.core.performance.bandwidth import Rate
from workbench.engine.exchange.nccl import nccl_obstacle
from workbench.engine.measurement.links import measure_pair

DISK_BYTES = 64 << 20
DISK_SECONDS = 1.5
DEVICE_BYTES = 64 << 20
_PIECE = 4 << 20
_REPEATS = 5


def between_ranks(node: MPI.Comm, name: str) -> list[Rate]:
    """Return the link between the first two ranks of a node; collective over the node."""
    if node.size < 2:
        return []
    pair = node.Split(0 if node.rank < 2 else MPI.UNDEFINED, node.rank)
    if pair == MPI.COMM_NULL:
        return []
    way = measure_pair(pair)
    pair.Free()
    return [Rate(name, "between two ranks", way.bandwidth, way.latency)] if node.rank == 0 else []


def disk(name: str, folder: str) -> list[Rate]:
    """Return the write and read rates of ``folder``, without the system's cache."""
    piece = os.urandom(_PIECE)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".workbench-") as file:
        begun = time.perf_counter()
        size = 0
        while size < DISK_BYTES and time.perf_counter() - begun < DISK_SECONDS:
            size += os.write(file.fileno(), piece)
        os.fsync(file.fileno())
        written = size / (time.perf_counter() - begun)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return [
            Rate(name, "disk write", written),
            Rate(name, "disk read", read_rate([Path(file.name)])),
        ]


def source(name: str, folder: str) -> list[Rate]:
    """Return the read rate of the nodes' staging source; empty if there are no files."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return [Rate(name, "staging source read", read_rate(files))] if files else []


def read_rate(files: list[Path]) -> float:
    """Return the bytes per second of reading files, measured for about a second."""
    begun = time.perf_counter()
    size = 0
    for path in files:
        with path.open("rb", buffering=0) as file:
            while piece := file.read(_PIECE):
                size += len(piece)
                if time.perf_counter() - begun > DISK_SECONDS:
                    break
        if time.perf_counter() - begun > DISK_SECONDS:
            break
    return size / max(time.perf_counter() - begun, 1e-9)


def devices(name: str) -> list[Rate]:
    """Return the copy rates of a GPU of this node; empty without one."""
    cupy = _cupy()
    return [] if cupy is None else list(_copies(cupy, name))


def nccl(comm: MPI.Intracomm, number: int) -> tuple[list[Rate], str]:
    """Return NCCL's busbw over all ranks' GPUs, or why it has none; collective.

    Args:
        number: This rank's number on its node, and of its GPU.
    """
    cupy = _cupy()
    gpu = None if cupy is None else number % cupy.cuda.runtime.getDeviceCount()
    obstacle = nccl_obstacle(comm, gpu)
    if obstacle or comm.size < 2:
        return [], obstacle if gpu is not None and comm.size > 1 else ""
    with cupy.cuda.Device(gpu):
        return [Rate("all", "NCCL allreduce (busbw)", _nccl_rate(cupy, comm))], ""


def _nccl_rate(cupy: Any, comm: MPI.Intracomm) -> float:
    nccl_of = cupy.cuda.nccl
    unique = comm.bcast(nccl_of.get_unique_id() if comm.rank == 0 else None)
    world = nccl_of.NcclCommunicator(comm.size, unique, comm.rank)
    array, stream = cupy.zeros(DEVICE_BYTES // 4, cupy.float32), cupy.cuda.Stream.null

    def reduce() -> None:
        at = array.data.ptr
        world.allReduce(at, at, array.size, nccl_of.NCCL_FLOAT, nccl_of.NCCL_SUM, stream.ptr)

    seconds = comm.allreduce(_time_fastest(cupy, reduce), MPI.MAX)
    world.destroy()
    carried = 2 * (comm.size - 1) / comm.size
    return float(carried * array.nbytes / seconds)


def _cupy() -> Any:
    """Return CuPy if it finds a device."""
    with contextlib.suppress(ImportError):
        import cupy

        return cupy if cupy.cuda.is_available() else None
    return None


def _copies(cupy: Any, name: str) -> Iterator[Rate]:
    there = cupy.zeros(DEVICE_BYTES, cupy.uint8)
    other = cupy.zeros_like(there)
    memory = cupy.cuda.alloc_pinned_memory(DEVICE_BYTES)
    here = memory.ptr
    copies: dict[str, Callable[[], object]] = {
        "host to device": lambda: there.data.copy_from_host(here, DEVICE_BYTES),
        "device to host": lambda: there.data.copy_to_host(here, DEVICE_BYTES),
        "device to device": lambda: other.data.copy_from_device(there.data, DEVICE_BYTES),
    }
    for what, copy in copies.items():
        yield Rate(name, what, DEVICE_BYTES / _time_fastest(cupy, copy))


def _time_fastest(cupy: Any, do: Callable[[], object]) -> float:
    """Return the seconds of the fastest of some repetitions, until the device has finished."""
    took = []
    for _ in range(_REPEATS + 1):
        cupy.cuda.Device().synchronize()
        begun = time.perf_counter()
        do()
        cupy.cuda.Device().synchronize()
        took.append(time.perf_counter() - begun)
    return min(took[1:])
