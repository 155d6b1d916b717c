"""What is typed for other launchers of ranks, in the words of our commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

_RANKS = {
    "-n", "-np", "--np", "-c", "--n", "--num-proc", "--nproc", "--nproc_per_node",
    "--nproc-per-node", "--num_processes", "--num-processes", "--ntasks", "--num_gpus",
    "--num-gpus",
}  # fmt: skip
_PER_NODE = {"--nproc_per_node", "--nproc-per-node", "--num_gpus", "--num-gpus"}
_NODES = {
    "--nnodes", "--nodes", "-N", "--num_machines", "--num-machines", "--num_nodes", "--num-nodes",
}  # fmt: skip
_HOST_FILE = {
    "--hostfile", "-hostfile", "--machinefile", "-machinefile", "--host-file", "--hosts", "-f",
}  # fmt: skip
_HOST_LIST = {"-H", "--host", "-host"}
_VARIABLES = {"-x", "-genv", "-env", "--env"}
_RESTARTS = {"--max_restarts", "--max-restarts"}
_PLACE = {
    "--node_rank", "--node-rank", "--machine_rank", "--master_addr", "--master-addr",
    "--master_port", "--master-port", "--rdzv_backend", "--rdzv-backend", "--rdzv_endpoint",
    "--rdzv-endpoint", "--rdzv_id", "--rdzv-id", "--main_process_ip", "--main_process_port",
    "--bind-to", "--map-by", "--mca", "-mca", "-ppn", "--local-ranks-filter", "--tee", "--role",
}  # fmt: skip
_FLAGS = {
    "--standalone", "--use_env", "--allow-run-as-root", "--report-bindings", "--multi_gpu",
    "--multi-gpu", "--no_python", "--tag-output",
}  # fmt: skip
_VALUED = _RANKS | _NODES | _HOST_FILE | _HOST_LIST | _VARIABLES | _RESTARTS | _PLACE

# Azure Batch AI's `az batchai cluster …`.
_BATCH_AI = {
    "-n": "--cluster", "--name": "--cluster", "-t": "--nodes", "--target": "--nodes",
    "--max": "--nodes", "--min": "--min-nodes", "-s": "--type", "--vm-size": "--type",
}  # fmt: skip
_PROGRAMS = {
    "mpiexec", "mpirun", "mpiexec.hydra", "orterun", "prterun", "srun", "torchrun", "horovodrun",
    "deepspeed", "accelerate", "launch", "uv", "poetry", "run", "nohup", "time",
}  # fmt: skip
_MODULES = {
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "mpi4py",
    "accelerate.commands.accelerate_cli",
}  # fmt: skip
_FIRST = _PROGRAMS - {"launch", "run", "time"}
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")
_OF_PYTHON = {"-X", "-W"}
_NAMED = re.compile(r"\$\{?\w+\}?/?")


@dataclass
class _Command:
    """What a line of another launcher asks for."""

    ranks: str = ""
    nodes: str = ""
    before: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        """Return the same in our words."""
        ranks = self.ranks
        if ranks.isdecimal() and self.nodes.isdecimal():
            ranks = str(int(ranks) * int(self.nodes))
        option = ["--ranks", ranks] if ranks.isdecimal() else []
        return " && ".join([*self.before, shlex.join(["workbench", "run", *option, *self.words])])


def is_launcher(script: str) -> bool:
    """Whether a script's place has a Python or another launcher."""
    name = PurePath(script).name
    return name in _FIRST or _PYTHON.fullmatch(name) is not None


def same_here(words: Sequence[str]) -> str:
    """Return one sentence on a line that begins with another launcher, or with Python."""
    found = _read([*words])
    if not found.words:
        return f"Leave out `{words[0]}` and name a script, as in `workbench run train.py`."
    return f"`{shlex.join(words)}` is `{found.line}` here."


def options_here(command: str, words: Sequence[str], valued: Collection[str]) -> str:
    """Return one sentence on options of other launchers; empty if there are none.

    Args:
        command: ``run`` or the name of a command for clusters.
        words: What was typed after it.
        valued: Our own options that have a value.
    """
    if command == "run":
        clauses = _run_clauses(words, valued)
    else:
        clauses = _cluster_clauses(command, words, valued)
    if not clauses:
        return ""
    *others, last = clauses
    return f"{', '.join(others)} and {last} here." if others else f"{last} here."


def batch_ai_here(values: Mapping[str, Any], path: str) -> str:
    """Return one sentence on a job of Azure Batch AI; empty if it is none."""
    held = values.get("properties", values)
    if not isinstance(held, dict):
        return ""
    kinds = [v for k, v in held.items() if k.endswith("Settings") and isinstance(v, dict)]
    if "nodeCount" not in held or not kinds:
        return ""
    kind = kinds[0]
    line = kind.get("commandLine") or (
        f"{kind.get('pythonScriptFilePath', 'train.py')} {kind.get('commandLineArgs') or ''}"
    )
    found = _read(_split(str(line)))
    found.words[:1] = [_NAMED.sub("", word) for word in found.words[:1]]
    found.ranks = str(kind.get("processCount") or found.ranks or held["nodeCount"])
    return f"{path} is a job of Azure Batch AI, which is `{found.line}` here."


def _read(words: list[str]) -> _Command:
    """Take the launchers off a line, with what they ask for."""
    found, is_python, at = _Command(), False, 0
    while at < len(words):
        word = words[at]
        option, equals, value = word.partition("=")
        if _PYTHON.fullmatch(PurePath(word).name) or PurePath(word).name in _PROGRAMS:
            is_python = _PYTHON.fullmatch(PurePath(word).name) is not None
        elif word == "-m" and at + 1 < len(words):
            if words[at + 1] not in _MODULES:
                found.words = words[at:]
                return found
            at, is_python = at + 1, False
        elif not word.startswith("-"):
            found.words = words[at:]
            return found
        elif is_python:
            at += word in _OF_PYTHON
        elif option in _VALUED:
            if not equals:
                at += 1
                value = words[at] if at < len(words) else ""
            _take(found, option, value)
        at += 1
    return found


def _take(found: _Command, option: str, value: str) -> None:
    if option in _RANKS:
        found.ranks = value
    elif option in _NODES:
        found.nodes = value.rpartition(":")[2]  # of "1:4" the most
    elif option in _HOST_FILE:
        found.before = [shlex.join(["workbench", "up", "--hosts", value])]
    elif option in _HOST_LIST:
        found.before = [_up_on(value)]


def _run_clauses(words: Sequence[str], valued: Collection[str]) -> list[str]:
    clauses = list[str]()
    options = [one for one in _options(words, {*valued, *_VALUED}) if one[0] not in valued]
    # Some count the ranks of one node, and multiply by the nodes.
    each = next((one for one in options if one[0] in _PER_NODE and one[1].isdecimal()), None)
    many = next((one for one in options if one[0] in _NODES and one[1].isdecimal()), None)
    if each and many:
        options = [one for one in options if one not in (each, many)]
        clauses.append(f"`{many[2]} {each[2]}` is `--ranks {int(many[1]) * int(each[1])}`")
    for option, value, typed in options:
        if option in _RANKS and value:
            given = f"`--ranks {value}`" if value.isdecimal() else "the default"
            clauses.append(f"`{typed}` is {given}")
        elif option in _NODES and value:
            clauses.append(f"`{typed}` is `workbench up --nodes {value}`")
        elif option in _HOST_FILE and value:
            clauses.append(f"`{typed}` is `workbench up --hosts {shlex.quote(value)}` before it")
        elif option in _HOST_LIST and value:
            clauses.append(f"`{typed}` is `{_up_on(value)}` before it")
        elif option in _RESTARTS and value:
            clauses.append(f"`{typed}` is `--retries {value}`")
        elif option in _VARIABLES:
            clauses.append(f"`{typed}` is not needed, as variables of this shell travel,")
        elif option in _PLACE | _FLAGS:
            clauses.append(f"`{typed}` is not needed")
    return clauses


def _cluster_clauses(command: str, words: Sequence[str], valued: Collection[str]) -> list[str]:
    clauses = []
    for option, value, typed in _options(words, {*valued, *_BATCH_AI}, interspersed=True):
        if option in valued or option not in _BATCH_AI or not value:
            continue
        if option in ("-n", "--name") and value.isdecimal() and command in ("up", "resize"):
            clauses.append(f"`{typed}` is `workbench {command} {value}`")
        elif option == "--min" and command == "resize":
            clauses.append(f"`{typed}` is `workbench up --min-nodes {value}`")
        else:
            clauses.append(f"`{typed}` is `{_BATCH_AI[option]} {shlex.quote(value)}`")
    return clauses


def _options(
    words: Sequence[str], valued: Collection[str], *, interspersed: bool = False
) -> list[tuple[str, str, str]]:
    """Return each option with its value and as it was typed; up to the script of a run."""
    found, at = list[tuple[str, str, str]](), 0
    while at < len(words):
        word = words[at]
        at += 1
        option, equals, value = word.partition("=")
        if not word.startswith("-"):
            if interspersed:
                continue
            break
        joined = re.fullmatch(r"(-np?)(\d+)", word)
        if joined:
            option, value = joined[1], joined[2]
        elif option in valued and not equals and at < len(words):
            value = words[at]
            at += 1
        typed = word if joined or equals or not value else f"{word} {value}"
        found.append((option, value, typed))
    return found


def _up_on(hosts: str) -> str:
    """Return the command that starts a cluster on hosts like ``a:2,b:2``."""
    lines = (
        f"{name} slots={slots}" if slots else name
        for name, _, slots in (one.partition(":") for one in hosts.split(","))
    )
    return shlex.join(["workbench", "up", *(word for line in lines for word in ("--host", line))])


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()
