"""Hold the arrows of the design: which room may import which, and who knows the outside world."""

from __future__ import annotations

import ast
import graphlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "workbench"
EVERYONE = {"core", "errors", "namesake", "surfaces"}
ALLOWED = {
    "surfaces": set(),
    "errors": {"surfaces"},
    "namesake": {"errors"},
    "core": {"errors"},
    "store": EVERYONE,
    "cloud": EVERYONE | {"store", "cluster", "node"},
    "cluster": EVERYONE | {"node"},
    "engine": EVERYONE,
    "frameworks": EVERYONE | {"engine", "compat"},
    "node": EVERYONE,
    "compat": EVERYONE,
    "requests": EVERYONE | {"store"},
    "analysis": EVERYONE | {"store", "requests"},
    "supervisor": EVERYONE | {"store", "requests", "analysis", "cloud", "cluster", "node"},
    "view": EVERYONE | {"store", "requests", "analysis", "pages"},
    "pages": EVERYONE | {"store", "requests", "analysis", "view"},
    "notebook": EVERYONE | {"store", "requests", "analysis", "view", "pages"},
    "server": EVERYONE | {"store", "requests", "analysis", "view", "pages"},
    "cli": EVERYONE | {"store", "requests", "analysis", "view", "pages"},
    "demo": {"__init__"},  # what a person would write, so it has workbench.report at most
    "__init__": EVERYONE
    | {"store", "cluster", "engine", "frameworks", "notebook"},  # loaded when asked for
}
OUTSIDE = {
    "asyncssh": (
        "cloud/hosts/ssh.py",
        "cloud/hosts/ssh_process.py",
        "cloud/slurm/job_agent.py",
        "cloud/slurm/dials.py",
    ),
    "boto3": ("cloud/ec2/client.py", "cloud/ec2/preflight.py", "node/s3.py"),
    "botocore": ("cloud/ec2/client.py", "cloud/ec2/preflight.py", "node/s3.py"),
    "ipyparallel": ("cluster/",),
    "mpi4py": ("engine/", "frameworks/", "demo/"),
    "chainer": ("frameworks/chainer/", "compat/", "demo/"),
    "chainermn": ("frameworks/chainer/", "compat/", "demo/"),
    "torch": ("frameworks/torch/", "frameworks/horovod/", "demo/"),
    "jax": ("frameworks/jax.py",),
    "lightning": ("frameworks/lightning.py", "frameworks/lightning_trainer.py"),
    "transformers": ("frameworks/transformers.py", "frameworks/transformers_trainer.py"),
    "accelerate": ("frameworks/accelerate.py",),
}
# The folders of core from the ground up: each may know those before it, and core's single modules.
CORE = (
    "world", "node", "fleet", "cluster", "performance", "run", "recovery", "supervisor",
    "options",
)  # fmt: skip
BY_NAME = {
    # What the cluster has engines do in their own processes, by name.
    ("cluster", "workbench.engine.compiled_modules"),
    ("cluster", "workbench.engine.entrypoints"),
    ("cluster", "workbench.engine.exchange.codec_kernels"),
    ("cluster", "workbench.engine.mpi_start"),
    ("cluster", "workbench.engine.output.output_capture"),
    ("cluster", "workbench.engine.script_process"),
}
# Whole words that name a provider; a sentence that people read may have one.
NAMED_PROVIDER = re.compile(r"(--)?(ec2|rehearsal)|\w*(ec2|rehearsal)", re.IGNORECASE)
# Strings that name a framework, a module of it, or its distribution.
NAMED_FRAMEWORK = re.compile(
    r"(accelerate|chainer|chainermn|cupy|deepspeed|horovod|jax|lightning|pytorch_lightning|torch"
    r"|transformers)(-\w+)?(\.\w+)*"
)
# What a person types for other launchers, and what is looked up in an environment that is not ours:
# the packages of a node, those for CUDA, a framework for the demo, and Chainer beside its compat.
SPELLS_FRAMEWORKS = {
    "cli/demo.py",
    "cluster/doctor.py",
    "core/fleet/offers.py",
    "core/node/findings.py",
    "core/node/requirements.py",
    "core/run/other_launchers.py",
    "engine/exchange/codecs.py",  # where nothing is compiled, PyTorch converts to half precision
    "node/description.py",
}
# The words of a shell, which it puts into the notebook's.
SPELLS_PROVIDERS = {"surfaces.py"}
# What has state, waits or looks at the world has no place among decisions.
IMPURE = {
    "IPython", "asyncio", "boto3", "botocore", "mpi4py", "multiprocessing", "os", "psutil",
    "shutil", "signal", "socket", "sqlite3", "subprocess", "tempfile", "threading", "time",
}  # fmt: skip
# Types are learnt by one thread at a time: the lock holds nothing but that.
LOCKED = {("core/messages.py", "threading")}
ASKING = {"now", "utcnow", "today", "read_text", "read_bytes", "write_text", "write_bytes"}
BANNED = {"utils", "helpers", "common", "manager", "misc", "util", "helper"}
# What a string of a test may have of a program; a longer one is a file, which ruff and mypy read.
LONGEST_PROGRAM = 12
MOST_FILES = 25
PROGRAM = re.compile(r"^ *(?:import|from [\w.]+ import) .*^.*\w\(", re.MULTILINE | re.DOTALL)
# A module, and what is in it; it may be in the folder of the module that names it.
NAMED = re.compile(r"(workbench\.)?([a-z_0-9]+(?:\.[a-z_0-9]+)*)(?::([A-Za-z_]\w*))?")
LABELS = ("workbench:", "sts:")
# Fields that are for the reader, variables that hold errors, and what takes a text apart.
SENTENCES = {"failure", "message", "remark", "remedy", "sentence", "waiting", "what"}
ERRORS = {"error", "exception", "problem", "refusal"}
CUTS = {"partition", "rpartition", "split", "rsplit"}
SEARCHES = CUTS | {
    "endswith", "find", "index", "removeprefix", "removesuffix", "rfind", "rindex", "startswith",
}  # fmt: skip


def modules(package: Path) -> Iterator[tuple[str, ast.Module, str]]:
    """Give each module's path in the package, its tree and its text."""
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield path.relative_to(package).as_posix(), parsed(text), text


@cache
def parsed(text: str) -> ast.Module:
    """Return a module's tree, which several rules read."""
    return ast.parse(text)


@cache
def imports(where: str, tree: ast.Module, *, types: bool = False) -> tuple[str, ...]:
    """Return the full dotted names that run when the module or a function of it runs.

    Args:
        types: Also those that only a type checker reads.
    """
    return (*_imports(where, tree, types),)


def _imports(where: str, tree: ast.Module, types: bool) -> Iterator[str]:
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if not types and isinstance(node, ast.If) and _is_type_checking(node.test):
            pending.extend(node.orelse)
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = ["workbench", *where.split("/")[:-1]]
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
        for name in imports(where, tree, types=True):
            top, *rest = name.split(".")
            # "from workbench import report" takes a public name, whose room is not said.
            target = rest[0] if rest and rest[0] in public else "__init__"
            known = target in {here, *ALLOWED.get(here, ())} or rest == ["__version__"]
            if top == "workbench" and not known and (here, name) not in BY_NAME:
                wrong.append(f"{where} imports {name}")
    return wrong


def upward_in_core(package: Path) -> list[str]:
    """List the imports in core that lead from a folder to one above it, or from a single module."""
    wrong = []
    for where, tree, _ in modules(package):
        above, folder, *_ = [*where.split("/"), ""]
        if above != "core":
            continue
        for name in imports(where, tree, types=True):
            target = name.split(".")[2:3]
            if name.startswith("workbench.core.") and _level(*target) > _level(folder):
                wrong.append(f"{where} imports {name}")
    return wrong


def _level(folder: str) -> int:
    return CORE.index(folder) if folder in CORE else -1


def cycles(package: Path) -> list[str]:
    """List the modules that import one another, also where only a function or a type imports."""
    graph: dict[str, set[str]] = {}
    for where, tree, _ in modules(package):
        name = ".".join(["workbench", *Path(where).with_suffix("").parts])
        graph[name] = {*imports(where, tree, types=True)}
    for name, known in graph.items():  # a name of a module counts as the module
        graph[name] = {one if one in graph else one.rpartition(".")[0] for one in known} - {name}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [" imports ".join(reversed(error.args[1]))]
    return []


def named_providers(package: Path) -> list[str]:
    """List where a module outside a provider's folder names it, other than in a sentence."""
    wrong = []
    for where, tree, _ in modules(package):
        if where.startswith("cloud/") or where in SPELLS_PROVIDERS:
            continue
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else _identifier(node)
            if isinstance(text, str) and NAMED_PROVIDER.fullmatch(text):
                wrong.append(f"{where}:{getattr(node, 'lineno', 0)} names {text}")
    return wrong


def named_frameworks(package: Path) -> list[str]:
    """List where a module that knows no framework has a string that names one."""
    return [
        f"{where}:{node.lineno} names {node.value}"
        for where, tree, _ in modules(package)
        if room(where) not in {"frameworks", "compat", "demo"} and where not in SPELLS_FRAMEWORKS
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and NAMED_FRAMEWORK.fullmatch(node.value)
    ]


def _identifier(node: ast.AST) -> str:
    """Return what a node of the tree is called; an import, as the provider that it names."""
    if isinstance(node, ast.alias | ast.ImportFrom):
        module = (node.name if isinstance(node, ast.alias) else node.module) or ""
        found = re.search(r"cloud\.(ec2|rehearsal)\b", module)
        return found[1] if found else ""
    names = (getattr(node, name, None) for name in ("id", "attr", "arg", "name"))
    return next((name for name in names if isinstance(name, str)), "")


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
            if name.split(".")[0] in IMPURE and (where, name) not in LOCKED
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


def programs_in_strings(tests: Path) -> list[str]:
    """List the strings that are programs: they are long, import something, and call something."""
    return [
        f"{where}:{node.lineno} has {len(lines)} lines"
        for where, tree, _ in modules(tests)
        for node, text in _strings(tree)
        if len(lines := text.strip().splitlines()) > LONGEST_PROGRAM and PROGRAM.search(text)
    ]


def _strings(tree: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    """Give each string that is no docstring, whole where it is put together from several."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.JoinedStr):
            parts = (one.value if isinstance(one, ast.Constant) else "x" for one in node.values)
            yield node, "".join(map(str, parts))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            texts = [text for _, text in _strings(ast.Module([node.left, node.right], []))]
            yield node, "".join(texts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            value = node.value
            yield node, value if isinstance(value, str) else value.decode(errors="replace")
        else:
            pending.extend(reversed([*ast.iter_child_nodes(node)]))


def banned_names(package: Path) -> list[str]:
    return [
        where
        for where, _, _ in modules(package)
        if {part.removesuffix(".py").strip("_") for part in where.split("/")} & BANNED
    ]


def crowded(package: Path) -> list[str]:
    """List the folders whose files cannot be taken in at a glance."""
    counts = Counter(Path(where).parent.as_posix() for where, _, _ in modules(package))
    return [f"{folder} has {count} files" for folder, count in counts.items() if count > MOST_FILES]


def homonyms(package: Path) -> list[str]:
    """List the class names that more than one module defines."""
    homes: dict[str, list[str]] = {}
    for where, tree, _ in modules(package):
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        for name in {node.name for node in classes}:
            homes.setdefault(name, []).append(where)
    return [f"{name}: {', '.join(found)}" for name, found in homes.items() if len(found) > 1]


def parsed_sentences(package: Path) -> list[str]:
    """List where a sentence is taken apart or searched, in place of a field that says the same."""
    wrong = []
    for where, tree, _ in modules(package):
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
                is_wrong = _is_sentence(node.comparators[0])
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                is_wrong = node.func.attr in SEARCHES and _is_sentence(node.func.value)
                is_wrong &= bool(node.args)  # else it only takes out white space
                is_wrong |= node.func.attr in CUTS and any(map(_is_between_clauses, node.args[:1]))
            else:
                continue
            if is_wrong:
                wrong.append(f"{where}:{node.lineno} parses {ast.unparse(node)}")
    return wrong


def _is_sentence(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr in SENTENCES) or (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "str"
        and [ast.unparse(one) for one in node.args] in ([one] for one in ERRORS)
    )


def _is_between_clauses(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in ("; ", ": ", ". ", ", ", " (")


def absent_names(package: Path) -> list[str]:
    """List the strings that name a module, or a function of one, that is not there."""
    names = {
        where.removesuffix(".py").removesuffix("/__init__").replace("/", "."): {
            getattr(node, "name", "") for node in tree.body
        }
        for where, tree, _ in modules(package)
    }
    for stub in package.rglob("*.pyi"):  # of a compiled module
        names[stub.relative_to(package).with_suffix("").as_posix().replace("/", ".")] = set()
    wrong = []
    for where, tree, _ in modules(package):
        folder = Path(where).parent.as_posix().replace("/", ".")
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else None
            found = NAMED.fullmatch(text) if isinstance(text, str) else None
            if found is None or text.startswith(LABELS):
                continue
            own, module, name = found.groups()
            if name is None and (own is None or "." not in module):
                continue  # a package, a logger, or a word
            known = [names.get(one) for one in (module, f"{folder}.{module}")]
            if not any(one is not None and (name is None or name in one) for one in known):
                wrong.append(f"{where}:{node.lineno} names {text}")
    return wrong


LONG = "import os\n" + "os.sync()\n" * LONGEST_PROGRAM
RULES = (
    wrong_arrows,
    cycles,
    upward_in_core,
    named_providers,
    named_frameworks,
    strangers,
    impurities,
    unexplained,
    banned_names,
    crowded,
    homonyms,
    parsed_sentences,
    absent_names,
)


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps_the_rule(rule):
    assert rule(PACKAGE) == []


def test_a_program_that_a_test_runs_is_a_file():
    assert programs_in_strings(TESTS) == []


@pytest.mark.parametrize(
    ("rule", "where", "text"),
    [
        (wrong_arrows, "errors.py", "import workbench.core"),
        (wrong_arrows, "core/fleet/model.py", "from workbench.store import Wish"),
        (wrong_arrows, "core/fleet/model.py", "from workbench import report"),
        (wrong_arrows, "core/units.py", "from .. import store"),
        (wrong_arrows, "core/fleet/model.py", "from ...store import wishes"),
        (wrong_arrows, "core/fleet/model.py", "def plan():\n    import workbench.cluster"),
        (wrong_arrows, "store/facts.py", "import workbench.cluster.mpi_cluster"),
        (wrong_arrows, "cloud/hosts/listed_hosts.py", "import workbench.requests"),
        (wrong_arrows, "cluster/mpi_cluster.py", "from workbench import engine"),
        (wrong_arrows, "engine/train.py", "import_module('workbench.store')"),
        (wrong_arrows, "compat/hook.py", "import workbench.engine"),
        (wrong_arrows, "engine/train.py", "import workbench.frameworks.torch.hook"),
        (strangers, "engine/train.py", "import chainer"),
        (strangers, "frameworks/torch/hook.py", "from chainermn import optimizers"),
        (wrong_arrows, "supervisor/loop.py", "import workbench.notebook"),
        (wrong_arrows, "supervisor/loop.py", "import workbench.engine.train"),
        (wrong_arrows, "view/text.py", "import workbench.notebook.cell_output"),
        (wrong_arrows, "requests/supervisor.py", "import workbench.supervisor"),
        (wrong_arrows, "store/facts.py", "import workbench.view"),
        (wrong_arrows, "notebook/magics.py", "import workbench.cli.listing"),
        (wrong_arrows, "notebook/magics.py", "import workbench.supervisor"),
        (wrong_arrows, "notebook/magics.py", "import workbench.cluster"),
        (wrong_arrows, "server/rest.py", "import workbench.notebook"),
        (wrong_arrows, "cli.py", "import workbench.supervisor"),
        (wrong_arrows, "unplanned/thing.py", "import workbench.core"),
        (wrong_arrows, "node/agent.py", "import workbench.cloud.hosts.ssh"),
        (wrong_arrows, "node/agent.py", "import workbench.engine"),
        (named_frameworks, "engine/cell_effects.py", "HARMLESS = ('torch.hub',)"),
        (named_frameworks, "node/preloading.py", "follow('chainermn')"),
        (named_providers, "view/nodes.py", "is_paid = fleet.provider == 'ec2'"),
        (named_providers, "cli/cloud_commands.py", "given['--rehearsal']"),
        (named_providers, "supervisor/hosts.py", "import workbench.cloud.ec2.tags"),
        (strangers, "cloud/hosts/listed_hosts.py", "import boto3"),
        (strangers, "cloud/hosts/listed_hosts.py", "import asyncssh"),
        (strangers, "supervisor/loop.py", "from botocore import exceptions"),
        (strangers, "supervisor/loop.py", "from ipyparallel import Client"),
        (strangers, "cluster/mpi_cluster.py", "from mpi4py import MPI"),
        (strangers, "notebook/magics.py", "def run():\n    import chainer.training"),
        (strangers, "compat/hook.py", "import torch"),
        (impurities, "core/fleet/cost.py", "import time"),
        (impurities, "core/fleet/cost.py", "import sqlite3"),
        (impurities, "core/fleet/cost.py", "from threading import Lock"),
        (impurities, "core/fleet/cost.py", "import IPython.display"),
        (impurities, "core/fleet/cost.py", "import datetime\ndatetime.datetime.now()"),
        (impurities, "core/fleet/cost.py", "open('price')"),
        (unexplained, "core/fleet/cost.py", "x = 1"),
        (banned_names, "core/utils.py", ""),
        (banned_names, "helpers/cost.py", ""),
        (banned_names, "core/_util.py", ""),
        (programs_in_strings, "test_a.py", f"A = {LONG!r}"),
        (programs_in_strings, "test_a.py", f"def test_a(n):\n    run(f{LONG!r}, n)"),
        (programs_in_strings, "test_a.py", f"run('import os\\n' + HEAD + {LONG[10:]!r})"),
        (programs_in_strings, "node/test_a.py", f"A = {LONG.encode()!r}"),
        (absent_names, "node/agent.py", "DOES = {'GiveData': 'giving:give_data'}"),
        (absent_names, "node/agent.py", "DOES = 'workbench.node.agent:serve'"),
        (absent_names, "cluster/launcher.py", "command = ['-m', 'workbench.cluster.engine']"),
        (parsed_sentences, "core/run/ending.py", "at = text.rpartition('; ')[2]"),
        (parsed_sentences, "core/run/ending.py", "is_stopped = 'stopped at' in fact.message"),
        (parsed_sentences, "core/run/ending.py", "rank = fact.message.removeprefix('Rank ')"),
        (parsed_sentences, "cloud/ec2/provider.py", "if 'not found' in str(error):\n    pass"),
    ],
)  # fmt: skip
def test_each_rule_can_fail(tmp_path, rule, where, text):
    write(tmp_path, where, text)

    assert rule(tmp_path)


@pytest.mark.parametrize("opening", ["def f():", "if TYPE_CHECKING:"])
def test_modules_that_import_one_another_are_found(tmp_path, opening):
    write(tmp_path, "core/a.py", f"{opening}\n    from workbench.core.b import g")
    write(tmp_path, "core/b.py", "from workbench.core import a")

    assert len(cycles(tmp_path)) == 1


@pytest.mark.parametrize(
    "text",
    [
        f"A = {LONG.removesuffix('os.sync()' + chr(10))!r}",
        f"A = {LONG.replace('import os', 'Print the time.')!r}",
        f"A = {LONG.replace('()', '')!r}",
        f'"""{LONG}"""',
        f'def do():\n    """{LONG}"""',
    ],
    ids=["short", "without an import", "without a call", "of a module", "of a function"],
)
def test_a_string_that_is_no_program_passes(tmp_path, text):
    write(tmp_path, "test_a.py", text)

    assert programs_in_strings(tmp_path) == []


def test_a_crowded_folder_is_found(tmp_path):
    for number in range(MOST_FILES):
        write(tmp_path, f"node/part_{number}.py", "")
    assert not crowded(tmp_path)

    write(tmp_path, "node/s3.py", "")

    assert crowded(tmp_path) == ["node has 26 files"]


def test_a_class_name_is_defined_in_one_module_only(tmp_path):
    write(tmp_path, "node/s3.py", "class Bucket:\n    pass")
    assert not homonyms(tmp_path)

    write(tmp_path, "engine/layout.py", "def make():\n    class Bucket:\n        pass")

    assert homonyms(tmp_path) == ["Bucket: engine/layout.py, node/s3.py"]


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("supervisor/loop.py", "from workbench import core\nimport workbench.cluster.mpi_cluster"),
        ("supervisor/loop.py", "from ..store import wishes\nfrom . import observe"),
        (
            "frameworks/chainer/train.py",
            "import chainer\nfrom mpi4py import MPI\nimport workbench.engine",
        ),
        ("notebook/magics.py", "from workbench.requests.run import ask_stop"),
        ("cli/command.py", "from workbench import view\nfrom workbench.store import Store"),
        ("cloud/ec2/client.py", "import boto3"),
        (
            "cloud/ec2/provider.py",
            "host, _, port = address.partition(':')\nis_full = error.code in FULL",
        ),
        (
            "core/fleet/cost.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import boto3",
        ),
        ("core/run/model.py", "from workbench.core import units\nimport workbench.core.fleet.cost"),
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
