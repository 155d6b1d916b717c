"""Hold the arrows of the design: which room may import which, and who knows the outside world."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "workbench"
EVERYONE = {"core", "errors"}
ALLOWED = {
    "errors": set(),
    "core": {"errors"},
    "store": EVERYONE,
    "cloud": EVERYONE,
    "cluster": EVERYONE,
    "engine": EVERYONE,
    "node": EVERYONE,
    "compat": EVERYONE,
    "supervisor": EVERYONE | {"store", "cloud", "cluster"},
    "view": EVERYONE | {"store"},
    "notebook": EVERYONE | {"store", "view"},
    "server": EVERYONE | {"store", "view"},
    "cli": EVERYONE | {"store", "view"},
    "demo": set(),  # what a person would write, so it needs nothing of ours
    "__init__": EVERYONE | {"store", "cluster", "engine", "notebook"},  # loaded when asked for
}
OUTSIDE = {
    "asyncssh": ("cloud/ssh.py", "cloud/sshprocess.py"),
    "boto3": ("cloud/ec2.py", "cloud/preflight.py", "node/bucket.py"),
    "botocore": ("cloud/ec2.py", "cloud/preflight.py", "node/bucket.py"),
    "ipyparallel": ("cluster/",),
    "mpi4py": ("engine/", "demo/"),
    "chainer": ("engine/", "compat/", "demo/"),
    "chainermn": ("engine/", "compat/", "demo/"),
    "torch": ("engine/",),
}
# The cluster has the engines call this module, by name, in their own processes.
BY_NAME = {("cluster", "workbench.engine.calls")}
# What has state, waits or looks at the world has no place among decisions.
IMPURE = {
    "IPython", "asyncio", "boto3", "botocore", "mpi4py", "multiprocessing", "os", "psutil",
    "shutil", "signal", "socket", "sqlite3", "subprocess", "tempfile", "threading", "time",
}  # fmt: skip
ASKING = {"now", "utcnow", "today", "read_text", "read_bytes", "write_text", "write_bytes"}
BANNED = {"utils", "helpers", "common", "manager", "misc", "util", "helper"}
LONGEST = 500


def modules(package: Path) -> Iterator[tuple[str, ast.Module, str]]:
    """Give each module's path in the package, its tree and its text."""
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield path.relative_to(package).as_posix(), ast.parse(text), text


def imports(where: str, tree: ast.Module, package: str = "workbench") -> Iterator[str]:
    """Give the full dotted names that run when the module or a function of it runs."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            pending.extend(node.orelse)
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = [package, *where.split("/")[:-1]]
                above = parents[: len(parents) - node.level + 1]
                base = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{base}.{name.name}" for name in node.names)
        elif _is_import_module(node):
            yield node.args[0].value


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def _is_import_module(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"import_module", "importlib.import_module", "__import__"}
        and bool(node.args)
        and isinstance(node.args[0], ast.Constant)
    )


def room(where: str) -> str:
    return where.partition("/")[0].removesuffix(".py")


def wrong_arrows(package: Path) -> list[str]:
    """List the imports that lead from a room to one that it may not know."""
    wrong = []
    public = {room(where) for where, _, _ in modules(package)} | ALLOWED.keys()
    for where, tree, _ in modules(package):
        here = room(where)
        for name in imports(where, tree):
            top, *rest = name.split(".")
            # "from workbench import report" takes a public name, whose room is not said.
            target = rest[0] if rest and rest[0] in public else "__init__"
            known = target in {here, *ALLOWED.get(here, ())} or rest == ["__version__"]
            if top == "workbench" and not known and (here, name) not in BY_NAME:
                wrong.append(f"{where} imports {name}")
    return wrong


def strangers(package: Path) -> list[str]:
    """List the imports of an outside world by a module that is not its adapter."""
    return [
        f"{where} imports {name}"
        for where, tree, _ in modules(package)
        for name in imports(where, tree)
        if not where.startswith(OUTSIDE.get(name.split(".")[0], (where,)))
    ]


def impurities(package: Path) -> list[str]:
    """List what a module of core imports or asks that is not a value."""
    wrong = []
    for where, tree, _ in modules(package):
        if room(where) != "core":
            continue
        wrong += [
            f"{where} imports {name}"
            for name in imports(where, tree)
            if name.split(".")[0] in IMPURE
        ]
        wrong += [
            f"{where}:{node.lineno} asks {ast.unparse(node.func)}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and (
                (isinstance(node.func, ast.Attribute) and node.func.attr in ASKING)
                or (isinstance(node.func, ast.Name) and node.func.id in {"open", "print", "input"})
            )
        ]
    return wrong


def unexplained(package: Path) -> list[str]:
    return [where for where, tree, _ in modules(package) if not ast.get_docstring(tree)]


def too_long(package: Path) -> list[str]:
    return [where for where, _, text in modules(package) if text.count("\n") > LONGEST]


def banned_names(package: Path) -> list[str]:
    return [
        where
        for where, _, _ in modules(package)
        if {part.removesuffix(".py").strip("_") for part in where.split("/")} & BANNED
    ]


RULES = (wrong_arrows, strangers, impurities, unexplained, too_long, banned_names)


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps_the_rule(rule):
    assert rule(PACKAGE) == []


@pytest.mark.parametrize(
    ("rule", "where", "text"),
    [
        (wrong_arrows, "errors.py", "import workbench.core"),
        (wrong_arrows, "core/fleet.py", "from workbench.store import Wish"),
        (wrong_arrows, "core/fleet.py", "from workbench import report"),
        (wrong_arrows, "core/fleet.py", "from .. import store"),
        (wrong_arrows, "core/fleet.py", "from ..store import wishes"),
        (wrong_arrows, "core/fleet.py", "def plan():\n    import workbench.cluster"),
        (wrong_arrows, "store/facts.py", "import workbench.cluster.session"),
        (wrong_arrows, "cloud/hosts.py", "import workbench.store"),
        (wrong_arrows, "cluster/session.py", "from workbench import engine"),
        (wrong_arrows, "engine/train.py", "import_module('workbench.store')"),
        (wrong_arrows, "compat/hook.py", "import workbench.engine"),
        (wrong_arrows, "supervisor/loop.py", "import workbench.notebook"),
        (wrong_arrows, "supervisor/loop.py", "import workbench.engine.train"),
        (wrong_arrows, "view/phrases.py", "import workbench.notebook.page"),
        (wrong_arrows, "view/care.py", "import workbench.supervisor"),
        (wrong_arrows, "store/facts.py", "import workbench.view"),
        (wrong_arrows, "notebook/magics.py", "import workbench.cli.listing"),
        (wrong_arrows, "notebook/magics.py", "import workbench.supervisor"),
        (wrong_arrows, "notebook/magics.py", "import workbench.cluster"),
        (wrong_arrows, "server/rest.py", "import workbench.notebook"),
        (wrong_arrows, "cli.py", "import workbench.supervisor"),
        (wrong_arrows, "unplanned/thing.py", "import workbench.core"),
        (wrong_arrows, "node/warden.py", "import workbench.cloud.ssh"),
        (wrong_arrows, "node/warden.py", "import workbench.engine"),
        (strangers, "cloud/hosts.py", "import boto3"),
        (strangers, "cloud/hosts.py", "import asyncssh"),
        (strangers, "supervisor/loop.py", "from botocore import exceptions"),
        (strangers, "supervisor/loop.py", "from ipyparallel import Client"),
        (strangers, "cluster/session.py", "from mpi4py import MPI"),
        (strangers, "notebook/magics.py", "def run():\n    import chainer.training"),
        (strangers, "compat/hook.py", "import torch"),
        (impurities, "core/cost.py", "import time"),
        (impurities, "core/cost.py", "import sqlite3"),
        (impurities, "core/cost.py", "from threading import Lock"),
        (impurities, "core/cost.py", "import IPython.display"),
        (impurities, "core/cost.py", "import datetime\ndatetime.datetime.now()"),
        (impurities, "core/cost.py", "open('price')"),
        (unexplained, "core/cost.py", "x = 1"),
        (too_long, "core/cost.py", "x = 1\n" * 501),
        (banned_names, "core/utils.py", ""),
        (banned_names, "helpers/cost.py", ""),
        (banned_names, "core/_util.py", ""),
    ],
)  # fmt: skip
def test_each_rule_can_fail(tmp_path, rule, where, text):
    write(tmp_path, where, text)

    assert rule(tmp_path)


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("supervisor/loop.py", "from workbench import core\nimport workbench.cluster.session"),
        ("supervisor/loop.py", "from ..store import wishes\nfrom . import observe"),
        ("engine/train.py", "import chainer\nfrom mpi4py import MPI\nimport workbench.errors"),
        ("notebook/magics.py", "from workbench.view.stop import ask_stop"),
        ("cli/command.py", "from workbench import view\nfrom workbench.store import Store"),
        ("cloud/ec2.py", "import boto3"),
        ("core/cost.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import boto3"),
        ("__init__.py", "def load_ipython_extension(shell):\n    import workbench.notebook"),
    ],
)
def test_what_the_design_allows_passes(tmp_path, where, text):
    write(tmp_path, where, f'"""Do one thing."""\n{text}\n')

    assert [found for rule in RULES for found in rule(tmp_path)] == []


def write(package: Path, where: str, text: str) -> None:
    path = package / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
