"""Import marked modules in their place: benchmarks/marked_code.py made them.

Python runs this at each start where its folder is in ``PYTHONPATH``, so it imports next to nothing.
"""

import builtins
import importlib.machinery
import marshal
import mmap
import os
import sys
from types import CodeType, FunctionType

FOLDER = os.environ.get("WORKBENCH_MARKED_CODE", "")


class Loader(importlib.machinery.SourceFileLoader):
    """Read a module's marked code; all else stays."""

    def get_code(self, fullname):
        return code_of(fullname)


class Finder:
    """Find marked modules where they are; everybody else finds the others."""

    def __init__(self, index):
        self._index = index

    def find_spec(self, fullname, path=None, target=None):
        if fullname not in self._index:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin == self._index[fullname][1]:
            spec.loader = Loader(fullname, spec.origin)
            return spec
        return None


def code_of(name):
    with open(os.path.join(FOLDER, name), "rb") as file:
        return marshal.load(file)


def mark_imported(names):
    """Mark functions of modules that a ``.pth`` file imported before."""
    for name in names:
        module = sys.modules[name]
        marked = {(one.co_name, one.co_firstlineno): one for one in codes_in(code_of(name))}
        holders = [module, *(one for one in vars(module).values() if isinstance(one, type))]
        for value in [value for holder in holders for value in vars(holder).values()]:
            function = getattr(value, "__func__", getattr(value, "fget", value))
            if isinstance(function, FunctionType) and function.__module__ == name:
                code = function.__code__
                function.__code__ = marked.get((code.co_name, code.co_firstlineno), code)


def codes_in(code):
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes_in(constant)


if FOLDER:
    with open(os.path.join(FOLDER, "index"), "rb") as file:
        index = marshal.load(file)
    with open(os.path.join(FOLDER, "marks"), "r+b") as file:
        builtins.__workbench_seen__ = mmap.mmap(file.fileno(), len(index))
    sys.meta_path.insert(0, Finder(index))
    mark_imported([name for name in index if name in sys.modules])
