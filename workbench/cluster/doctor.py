"""Check whether a cluster can start on this machine, without changing it.

Run as ``python -m workbench.cluster.doctor``; callers with a store pass the ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from workbench.cluster.mpi_installation import (
    Mpi,
    find_mpi,
    hostfile_text,
    mpiexec_arguments,
    rank_environment,
)
from workbench.core.node.findings import (
    Finding,
    judge_blas,
    judge_chainer,
    judge_directory,
    judge_disk,
    judge_forks,
    judge_host_name,
    judge_interfaces,
    judge_kernels,
    judge_mpi,
    judge_own_gpus,
    judge_package,
    judge_python,
    judge_shared_memory,
    judge_versions,
    judge_world,
)
from workbench.core.world.world import Host, RankFact, blas_environment, plan_world
from workbench.errors import MachineError
from workbench.namesake import describe_namesake, find_namesake
from workbench.node.warm_ranks import LATER, PRELOADED, VARIABLE, are_wanted, server_command

WORLD_DEADLINE_SECONDS = 20.0
IMPORT_DEADLINE_SECONDS = 60.0
TOOL_DEADLINE_SECONDS = 20.0

_WORLD = """
from mpi4py import MPI
world = MPI.COMM_WORLD
import os
os.write(1, b"world %d %d\\n" % (world.size, world.allreduce(1)))  # whole, beside other ranks
"""
# What the modules of a system's MPI set, and every Open MPI and mpi4py reads.
_MPI_SETTINGS = ("MPI4PY_LIBMPI", "OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_")
_IMPORT = """
import workbench.compat
import chainer, chainermn
print(repr(workbench.compat.status()).strip("<>"))
"""
_COMPUTE = """
import importlib.util
if importlib.util.find_spec("cupy"):
    import cupy
    assert int(cupy.arange(4).sum()) == 6
    print("CuPy", cupy.__version__)
if importlib.util.find_spec("torch"):
    import torch
    if torch.cuda.is_available():
        assert int(torch.arange(4, device="cuda").sum()) == 6
        print("PyTorch", torch.__version__)
"""


def examine_package() -> Finding:
    """Look for another project's package of our name."""
    found = find_namesake()
    return judge_package(*(describe_namesake(found) if found else ("", "")))


def examine_mpi() -> tuple[Mpi | None, Finding]:
    """Find the MPI that a cluster would use."""
    try:
        mpi = find_mpi()
    except MachineError as error:
        return None, judge_mpi("", "", error.what, error.remedy)
    return mpi, judge_mpi(mpi.mpiexec, f"{mpi.kind} {mpi.version}")


def examine_world(mpi: Mpi | None, seconds: float = WORLD_DEADLINE_SECONDS) -> Finding:
    """Start two ranks as a cluster does, and run one allreduce within ``seconds``."""
    if mpi is None:
        return Finding("MPI test", None, "there is no MPI")
    world = plan_world((Host("localhost", len(os.sched_getaffinity(0))),), 2, oversubscribe=True)
    environment = rank_environment(mpi, world)
    began = time.monotonic()
    with tempfile.NamedTemporaryFile("w", prefix="workbench-hosts-") as hosts:
        hosts.write(hostfile_text(mpi, world))
        hosts.flush()
        options = mpiexec_arguments(mpi, world, hosts.name, tuple(environment))
        command = [mpi.mpiexec, "-n", "2", *options, sys.executable, "-c", _WORLD]
        _, output, errors = _execute(command, seconds, environment)
    reported = [line.split()[1:] for line in output.splitlines() if line.startswith("world ")]
    ranks = [(int(size), int(total)) for size, total in reported]
    settings = sorted(name for name in os.environ if name.startswith(_MPI_SETTINGS))
    return judge_world(ranks, errors, time.monotonic() - began, settings)


def examine_chainer() -> Finding:
    """Import Chainer as a rank would."""
    command = [sys.executable, "-c", _IMPORT]
    code, output, errors = _execute(command, IMPORT_DEADLINE_SECONDS, {})
    lines = errors.strip().splitlines() or ["the import printed no message"]
    return judge_chainer(output.strip() if code == 0 else "", lines[-1], sys.version_info[:2])


def examine_forks() -> Finding:
    """Judge whether this machine's ranks are forked."""
    return judge_forks(*try_forks())


def try_forks() -> tuple[int, list[str], str]:
    """Import what a fork server does, and let it check whether it may fork then.

    Returns:
        What ``judge_forks`` judges.
    """
    if not are_wanted():
        return 0, [], f"{VARIABLE} says so"
    command = [*server_command(Path(tempfile.gettempdir()), (*PRELOADED, *LATER)), "--check"]
    code, output, errors = _execute(command, IMPORT_DEADLINE_SECONDS, blas_environment(1))
    lines = errors.strip().splitlines() or ["the fork server printed no message"]
    if code:
        return 0, [], lines[-1]
    found = json.loads(output.strip().rpartition("\n")[2])
    return found["modules"], found["late"], ""


def examine_kernels() -> Finding:
    """Judge whether this environment has compiled kernels for the compression of gradients."""
    try:
        kernels = import_module("workbench.engine.exchange.codec_kernels")
    except ImportError:
        return judge_kernels(compiled=False, supported=False)
    is_old = import_module("workbench.engine.compiled_modules").is_old(kernels)
    return judge_kernels(compiled=True, supported=kernels.IS_SUPPORTED, is_old=is_old)


def examine_gpus() -> Finding:
    """Compute on a GPU as a rank would, if the driver shows one."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return judge_own_gpus([], "")
    ask = [tool, "--query-gpu=name", "--format=csv,noheader"]
    code, output, errors = _execute(ask, TOOL_DEADLINE_SECONDS, {})
    names = output.splitlines()
    if code or not names:
        return judge_own_gpus([], ((output + errors).splitlines() or ["nothing"])[0])
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0].strip() in ("", "-1"):
        return judge_own_gpus(names, "", hidden=True)
    command = [sys.executable, "-c", _COMPUTE]
    code, output, errors = _execute(command, IMPORT_DEADLINE_SECONDS, {})
    lines = errors.strip().splitlines() or ["the calculation printed no message"]
    return judge_own_gpus(names, "", output.splitlines(), lines[-1] if code else "")


def examine_host_name() -> Finding:
    """Resolve this machine's own name."""
    name = socket.gethostname()
    began = time.monotonic()
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        answers = []
    seconds = time.monotonic() - began
    addresses = list(dict.fromkeys(str(answer[4][0]) for answer in answers))
    return judge_host_name(name, addresses, any(map(_is_ours, addresses)), seconds)


def examine_directory(path: Path) -> Finding:
    """Write a file into the data directory, and remove it."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"workbench")
    except OSError as error:
        return judge_directory(str(path), error.strerror or str(error))
    return judge_directory(str(path), "")


def examine(data: Path, ranks: Sequence[RankFact]) -> list[Finding]:
    """Return one finding for each check, in the order of their dependencies."""
    mpi, mpi_finding = examine_mpi()
    existing = next(path for path in (data, *data.parents) if path.exists())
    shared = Path("/dev/shm")
    interfaces = [
        name
        for name, state in psutil.net_if_stats().items()
        if state.isup and not name.startswith("lo")
    ]
    cores = len(os.sched_getaffinity(0))
    return [
        judge_python(sys.version_info[:2], sys.executable),
        examine_package(),
        mpi_finding,
        examine_world(mpi),
        judge_blas(ranks, os.environ, cores, socket.gethostname()),
        examine_host_name(),
        examine_directory(data),
        judge_disk(str(existing), shutil.disk_usage(existing).free),
        judge_shared_memory(shutil.disk_usage(shared).total if shared.is_dir() else 0),
        judge_interfaces(interfaces),
        examine_chainer(),
        examine_forks(),
        examine_kernels(),
        examine_gpus(),
        judge_versions(ranks),
    ]


def _is_ours(address: str) -> bool:
    """Return whether a socket can be bound to ``address``, which must be local for that."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _execute(
    command: list[str], deadline: float, environment: dict[str, str]
) -> tuple[int, str, str]:
    """Return exit status, stdout and stderr; a command that exceeds ``deadline`` is ended."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, **environment},
            start_new_session=True,
        )
    except OSError as error:
        return 1, "", f"{command[0]}: {error.strerror}"
    try:
        output, errors = process.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        return 1, "", f"{Path(command[0]).name} gave no answer within {deadline:g} s"
    finally:
        _end(process)
    return process.returncode, output, errors


def _end(process: subprocess.Popen[str]) -> None:
    """End the remaining processes, first so that mpiexec can end its ranks itself."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            try:
                process.communicate(timeout=3.0)
            except subprocess.TimeoutExpired:
                continue


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the findings; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m workbench.cluster.doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON list on stdout")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--ranks", choices=["-"], help="read the ranks as a JSON list on stdin")
    parser.add_argument("--forks", action="store_true", help="only try whether ranks are forked")
    options = parser.parse_args(arguments)
    if options.forks:
        print(json.dumps(try_forks()))
        return 0
    ranks = [_rank(item) for item in json.load(sys.stdin)] if options.ranks else []
    findings = examine(options.data, ranks)
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings]))
    else:
        for finding in findings:
            print(f"{_MARKS[finding.ok]:<4} {finding.check}: {finding.found} {finding.remedy}")
    return int(any(finding.ok is False for finding in findings))


_MARKS = {True: "ok", False: "bad", None: "-"}


def _rank(item: dict[str, Any]) -> RankFact:
    """Return a rank's facts from their JSON form."""
    pairs = tuple((name, version) for name, version in item.pop("versions", ()))
    return RankFact(**item, versions=pairs)


if __name__ == "__main__":
    sys.exit(main())
