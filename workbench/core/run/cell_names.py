"""Which names a cell takes from earlier cells, and which it leaves.

Its source says so before it has run. What cannot be read off is noted as such, so that the caller
can be careful. After it has run, its ranks say what it has really bound.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from workbench.core.messages import BaseMessage, Name

# A line that only IPython understands: a magic, or a command of the shell.
_FOREIGN = re.compile(r"^([ \t]*)[%!?].*$", re.MULTILINE)
# What such a line takes from Python, as in ``!ls {folder} $name``.
_EXPANDED = re.compile(r"\{([^{}]*)\}|\$(\w+)")
_GIVEN = re.compile(r"^([ \t]*[\w ,.]+=)[ \t]*[%!].*$", re.MULTILINE)  # files = !ls
_CELL_MAGIC = re.compile(r"\s*%%(\w+).*")
_OF_PYTHON = frozenset({"capture", "prun", "time", "timeit"})  # the rest of their cell is Python
_BINDING = re.compile(r"\s*%(?:edit|load|macro|pylab|run|store)\b")
_WORD = re.compile(r"[^\W\d]\w*")
_ANY_NAME = frozenset({"eval", "exec"})
Names = frozenset[str]


@dataclass(frozen=True)
class CellNames:
    """The names of a cell at its top level.

    Args:
        binds: Bound on every way through the cell.
        may_bind: Bound or deleted on some ways, those of ``binds`` included.
        needs: Read, and never bound: something else has to have bound them.
        may_need: Read on some way before they are bound.
        first: Those of them that are read where no way before has bound them.
        reads: All that are read, inside of functions too.
        fixed: Bound by imports, functions and classes alone: reading one changes nothing.
        imports: Bound by imports.
        effects: A top-level statement sets a part of them, or calls one of their functions for
            its effect: ``numpy.random.seed(0)``.
        reads_any: Whether it may read any name: it cannot be read, or executes text.
        binds_any: Whether it may bind any name: likewise, or it has a star import.
    """

    binds: Names = frozenset()
    may_bind: Names = frozenset()
    needs: Names = frozenset()
    may_need: Names = frozenset()
    first: Names = frozenset()
    reads: Names = frozenset()
    fixed: Names = frozenset()
    imports: Names = frozenset()
    effects: Names = frozenset()
    reads_any: bool = False
    binds_any: bool = False


class Deed(StrEnum):
    """What a cell has done outside of its process, as a sentence says it."""

    WROTE = "wrote files"
    REMOVED = "removed or renamed files"
    STARTED = "started processes"
    CONNECTED = "used the network"


class CellEffects(BaseMessage, frozen=True):
    """What a cell has changed on one rank; each name is in one of the first four.

    Args:
        bound: Names with another value than before.
        fixed: Likewise; to read the value changes nothing, as it is a function, class or number.
        modules: Likewise; the value is a module.
        deleted: Names that it has deleted.
        read: Names in text that it has executed, of those that were there before.
        deeds: What it has done outside of the process.
    """

    bound: tuple[Name, ...] = ()
    fixed: tuple[Name, ...] = ()
    modules: tuple[Name, ...] = ()
    deleted: tuple[Name, ...] = ()
    read: tuple[Name, ...] = ()
    deeds: tuple[Deed, ...] = ()


def refine_names(names: CellNames, ranks: Sequence[CellEffects], *, is_done: bool) -> CellNames:
    """Return the names of a cell that has run, by what it has done.

    Args:
        ranks: What it has changed, on each of its ranks.
        is_done: Whether it came to its end, so that it bound all that it binds on every way.
    """
    if not ranks:
        return names
    every = [frozenset((*one.bound, *one.fixed, *one.modules)) for one in ranks]
    # A value that takes the place of a deleted one in memory looks like it.
    binds = every[0].intersection(*every[1:]) | (names.binds if is_done else frozenset())
    read = frozenset[str]().union(*(one.read for one in ranks))
    modules = frozenset[str]().union(*(one.modules for one in ranks))
    return replace(
        names,
        binds=binds,
        may_bind=binds.union(*every, *(one.deleted for one in ranks)),
        may_need=names.may_need | (read - names.needs),
        first=names.first | (read - names.needs),
        reads=names.reads | read,
        fixed=(names.fixed | modules).union(*(one.fixed for one in ranks))
        - frozenset[str]().union(*(one.bound for one in ranks)),
        imports=names.imports | modules,
        reads_any=False,
        binds_any=False,
    )


@lru_cache(maxsize=256)  # the cells of a cluster are asked about again and again
def names_of(source: str, given: Names = frozenset()) -> CellNames:
    """Return the names of a cell.

    Args:
        given: Names that have a value when it begins: its parameters.
    """
    try:
        tree, foreign = _parse_cell(source)
    except (SyntaxError, ValueError, RecursionError):
        return CellNames(given, given, reads_any=True, binds_any=True)
    reader = _Reader()
    reader.certain |= given
    reader.bound |= given
    reader.read_all(tree.body)
    reader.read_foreign(foreign)
    reader.read_functions()
    needs = frozenset(reader.early - reader.bound)
    return CellNames(
        binds=frozenset(reader.certain),
        may_bind=frozenset(reader.bound),
        needs=needs,
        may_need=frozenset(reader.early) - needs,
        first=frozenset(reader.first) - needs,
        reads=frozenset(reader.reads),
        fixed=frozenset(reader.fixed - reader.assigned - given),
        imports=frozenset(reader.imports),
        effects=frozenset(_effects(tree.body)),
        reads_any=reader.reads_any,
        binds_any=reader.binds_any,
    )


def definitions_of(source: str) -> str:
    """Return the imports, functions and classes of a cell, on the lines where they were."""
    try:
        tree, _ = _parse_cell(source)
    except (SyntaxError, ValueError, RecursionError):
        return ""
    every = source.splitlines()
    lines = [""] * len(every)
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            before = lines[node.lineno - 1]  # another import may be on its line
            lines[node.lineno - 1] = "; ".join(filter(None, (before, ast.unparse(node))))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            lines[first - 1 : node.end_lineno] = every[first - 1 : node.end_lineno]
    return "\n".join(lines).rstrip()


def _parse_cell(source: str) -> tuple[ast.Module, list[str]]:
    """Return the Python of a cell, and the lines that only IPython understands."""
    try:
        return ast.parse(source), []
    except SyntaxError:
        if magic := _CELL_MAGIC.match(source):
            if magic[1] not in _OF_PYTHON:
                return ast.Module([], []), source.splitlines()
            source = source[magic.end() :]
        given = _GIVEN.sub(r"\1 None", source)
        lines = [*_FOREIGN.finditer(source), *_GIVEN.finditer(source)]
        return ast.parse(_FOREIGN.sub(r"\1pass", given)), [line.group() for line in lines]


class _Reader:
    """Follows the statements of a cell in their order.

    ``certain`` holds what every way up to here has bound, ``bound`` what some way has.
    """

    def __init__(self) -> None:
        self.certain = set[str]()
        self.bound = set[str]()
        self.early = set[str]()
        self.first = set[str]()
        self.reads = set[str]()
        self.fixed = set[str]()
        self.assigned = set[str]()
        self.imports = set[str]()
        self.reads_any = self.binds_any = False
        self._later: list[ast.AST] = []  # bodies of functions, which run when they are called

    def read_all(self, body: Sequence[ast.stmt]) -> None:
        """Follow statements one after another."""
        for statement in body:
            self._read(statement)

    def read_functions(self) -> None:
        """Follow the bodies of functions: what the cell itself binds is there when they run."""
        for function in self._later:
            outer = _read_from_outside(function)
            self._note_reads(outer)
            self.early |= outer - self.bound
            declared = _declared_global(function)
            self.bound |= declared
            self.assigned |= declared

    def read_foreign(self, lines: Sequence[str]) -> None:
        """Follow lines that only IPython understands."""
        for line in lines:
            parts = (part for found in _EXPANDED.findall(line) for part in found)
            self._read_name_set({word for part in parts for word in _WORD.findall(part)})
            self.binds_any = self.binds_any or bool(_BINDING.match(line))

    def _read(self, node: ast.AST) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for part in (*node.decorator_list, *_defaults(node.args), *_annotations(node)):
                    self._read(part)
                self._later.append(node)
                self._bind(node.name, fixed=True)
            case ast.ClassDef():
                for part in (*node.decorator_list, *node.bases, *node.keywords):
                    self._read(part)
                own, methods = _split_class(node)
                self._read_name_set(_read_from_outside(own))
                self._later += methods
                self._bind(node.name, fixed=True)
            case ast.Import() | ast.ImportFrom():
                self._import(node)
            case ast.Lambda():
                for part in _defaults(node.args):
                    self._read(part)
                self._later.append(node)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._read_name_set(_read_from_outside(node))
            case ast.Assign():
                self._each(node.value, *node.targets)
            case ast.AnnAssign():
                self._each(*filter(None, (node.annotation, node.value)))
                if node.value is not None or not isinstance(node.target, ast.Name):
                    self._read(node.target)
            case ast.AugAssign():
                if isinstance(node.target, ast.Name):
                    self._read_name_set({node.target.id})
                self._each(node.value, node.target)
            case ast.NamedExpr():
                self._each(node.value, node.target)
            case ast.Name():
                self._name(node)
            case _ if branches := _branches(node):
                first, ways = branches
                self._each(*first)
                self._branch(ways)
            case _:
                self._each(*ast.iter_child_nodes(node))

    def _each(self, *nodes: ast.AST) -> None:
        for node in nodes:
            self._read(node)

    def _branch(self, ways: Sequence[Sequence[ast.AST]]) -> None:
        """Follow each way from here; certain is then what all have bound."""
        before, after = {*self.certain}, list[set[str]]()
        for way in ways:
            self.certain = {*before}
            self._each(*way)
            after.append(self.certain)
        self.certain = set[str].intersection(*after)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self.binds_any = True
                continue
            dotted = isinstance(node, ast.Import)
            name = alias.asname or (alias.name.split(".")[0] if dotted else alias.name)
            self._bind(name, fixed=True)
            self.imports.add(name)

    def _name(self, node: ast.Name) -> None:
        match node.ctx:
            case ast.Load():
                self._read_name_set({node.id})
            case ast.Store():
                self._bind(node.id)
            case _:
                self._read_name_set({node.id})
                self.certain.discard(node.id)
                self.bound.add(node.id)
                self.assigned.add(node.id)

    def _read_name_set(self, names: set[str]) -> None:
        self._note_reads(names)
        self.early |= names - self.certain
        self.first |= names - self.bound

    def _note_reads(self, names: set[str]) -> None:
        self.reads |= names
        if not _ANY_NAME.isdisjoint(names):
            self.reads_any = self.binds_any = True

    def _bind(self, name: str, *, fixed: bool = False) -> None:
        self.certain.add(name)
        self.bound.add(name)
        (self.fixed if fixed else self.assigned).add(name)


def _branches(node: ast.AST) -> tuple[list[ast.AST], list[list[ast.AST]]] | None:
    """Return what a statement evaluates first, and the ways that it can then take."""
    match node:
        case ast.If() | ast.IfExp():
            ways = [node.body, node.orelse]
            return [node.test], [[*one] if isinstance(one, list) else [one] for one in ways]
        case ast.While():
            return [node.test], [[*node.body], [*node.orelse]]
        case ast.For() | ast.AsyncFor():
            return [node.iter], [[node.target, *node.body], [*node.orelse]]
        case ast.BoolOp():
            return [node.values[0]], [[], [*node.values[1:]]]
        case ast.Try() | ast.TryStar():
            handlers = [[*_handler(one)] for one in node.handlers]
            whole: list[ast.AST] = [*node.body, *node.orelse, *node.finalbody]
            return [], [whole, *([*one, *node.finalbody] for one in handlers)]
        case ast.Match():
            return [node.subject], [[], *([*_patterns(one)] for one in node.cases)]
    return None


def _handler(handler: ast.ExceptHandler) -> Iterator[ast.AST]:
    if handler.type is not None:
        yield handler.type
    if handler.name:
        yield ast.Name(handler.name, ast.Store())
    yield from handler.body
    if handler.name:
        yield ast.Name(handler.name, ast.Store())


def _patterns(case: ast.match_case) -> Iterator[ast.AST]:
    for node in ast.walk(case.pattern):
        name = getattr(node, "name", None) or getattr(node, "rest", None)
        yield ast.Name(name, ast.Store()) if name else ast.Pass()
    yield from filter(None, (case.guard, *case.body))


def _split_class(node: ast.ClassDef) -> tuple[ast.ClassDef, list[ast.AST]]:
    """Return a class without the bodies of its methods, and these."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    methods: list[ast.AST] = [one for one in node.body if isinstance(one, kinds)]
    own = copy.copy(node)
    own.body = [copy.copy(one) for one in node.body]
    for one in own.body:
        if isinstance(one, kinds):
            one.body = [ast.Pass()]
    return own, methods


def _read_from_outside(scope: ast.AST) -> set[str]:
    """Return the names that a function, class or comprehension reads and does not bind itself."""
    loaded, stored = set[str](), set[str]()
    for node in ast.walk(scope):
        match node:
            case ast.Name():
                (loaded if isinstance(node.ctx, ast.Load) else stored).add(node.id)
            case ast.arg():
                stored.add(node.arg)
            case ast.Import() | ast.ImportFrom():
                stored |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node is not scope:
                stored.add(node.name)
            case ast.ExceptHandler() if node.name:
                stored.add(node.name)
    return (loaded - stored) | (_declared_global(scope) & loaded)


def _declared_global(scope: ast.AST) -> set[str]:
    found = (node.names for node in ast.walk(scope) if isinstance(node, ast.Global))
    return {name for names in found for name in names}


def _defaults(arguments: ast.arguments) -> Iterator[ast.AST]:
    yield from filter(None, (*arguments.defaults, *arguments.kw_defaults))


def _annotations(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    arguments = node.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from filter(None, (*(one.annotation for one in every), node.returns))


def _effects(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Give the names whose parts top-level statements set, or call for their effect."""
    for statement in body:
        parts: list[ast.expr] = []
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            parts = [statement.value.func]
        elif isinstance(statement, ast.Assign):
            parts = statement.targets
        elif isinstance(statement, ast.AugAssign):
            parts = [statement.target]
        for part in parts:
            if not isinstance(part, ast.Name) and (root := _root(part)):
                yield root


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
