"""Compile a package so that each function marks its module in memory that processes share.

A profiler is called for every call of every library and makes a start several times as long. Marked
functions store one byte, and their compiled modules are read from a folder as ``.pyc`` files are.
"""

from __future__ import annotations

import ast
import marshal
from collections.abc import Iterator
from pathlib import Path

FOLDER_VARIABLE = "WORKBENCH_MARKED_CODE"
"""Names the folder to `scripts/marking/sitecustomize.py`, which every Python of ours runs."""
MARKS, INDEX = "marks", "index"
SEEN = "__workbench_seen__"


class Marker(ast.NodeTransformer):
    """Let each function and lambda store 1 at its module's number.

    Args:
        number: Of the module.
    """

    def __init__(self, number: int) -> None:
        self._number = number

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._mark(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._mark(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)
        mark = _expression(f"{SEEN}.__setitem__({self._number}, 1)")
        both = ast.Tuple([mark, node.body], ast.Load())
        node.body = ast.Subscript(both, ast.Constant(1), ast.Load())
        return node

    def _mark(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self.generic_visit(node)
        documented = ast.get_docstring(node, clean=False) is not None
        node.body[documented:documented] = ast.parse(f"{SEEN}[{self._number}] = 1").body
        return node


def compile_marked(source: str, path: str, number: int) -> bytes:
    """Return a module's compiled code, marked, as ``marshal`` writes it; its lines stay."""
    tree = Marker(number).visit(ast.parse(source, path))
    for node in ast.walk(tree):
        if not hasattr(node, "lineno"):
            ast.copy_location(node, tree.body[0])
    return marshal.dumps(compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True))


class MarkedCode:
    """A package's marked modules, and which of them have executed a function.

    Args:
        folder: An empty folder, for the compiled modules and the marks.
        package: The package's folder.
    """

    def __init__(self, folder: Path, package: Path) -> None:
        self.modules = dict(_modules_of(package))
        for number, (name, path) in enumerate(self.modules.items()):
            code = compile_marked(path.read_text(encoding="utf-8"), str(path), number)
            (folder / name).write_bytes(code)
        index = {name: (n, str(path)) for n, (name, path) in enumerate(self.modules.items())}
        (folder / INDEX).write_bytes(marshal.dumps(index))
        self._marks = folder / MARKS
        self._marks.write_bytes(bytes(len(index)))

    def executed(self) -> frozenset[str]:
        """Return the modules with a function that began since the last `clear`."""
        seen = self._marks.read_bytes()
        return frozenset(name for name, mark in zip(self.modules, seen, strict=True) if mark)

    def clear(self) -> None:
        with self._marks.open("r+b") as file:
            file.write(bytes(len(self.modules)))


def _modules_of(package: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
