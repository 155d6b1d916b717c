"""Explain a rank's NameError for a name that the notebook's kernel has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

from IPython import get_ipython

from workbench.core.run.model import Run

_MISSING = re.compile(r"NameError: name '(\w+)' is not defined")
# A frame, or several folded ones of libraries; code of a cell is in no file.
_FRAME = re.compile(r'^[\s|]*(?:File "(?P<file>[^"]*)"|…)')
_LONGEST_VALUE = 30


def kernel_advice(run: Run) -> str:
    """Return what to do about a cell's missing name, if this kernel has it; else nothing."""
    shell = get_ipython()
    if shell is None or run.wish.path:
        return ""
    hidden = vars(shell).get("user_ns_hidden", {})  # what IPython itself puts there
    names = {
        name: value
        for name, value in shell.user_ns.items()
        if not name.startswith("_") and hidden.get(name, hidden) is not value
    }
    return explain_missing(run.fact.error, names)


def explain_missing(traceback: str, names: Mapping[str, Any]) -> str:
    """Return one sentence for the first name that a cell's own code misses and ``names`` has.

    Args:
        traceback: The rank's, with the frames of libraries folded or not.
        names: The kernel's variables.
    """
    is_own = False
    for line in traceback.splitlines():
        if frame := _FRAME.match(line):
            is_own = (frame["file"] or "").startswith("<") and "<frozen" not in line
        elif (found := _MISSING.search(line)) and is_own and found[1] in names:
            return _sentence(found[1], names[found[1]])
    return ""


def _sentence(name: str, value: object) -> str:
    verb = {ModuleType: "import", FunctionType: "define", type: "define"}.get(type(value), "make")
    where = f"{verb} it in a %%dist_train or %%dist_setup cell"
    if isinstance(value, int | float) and len(repr(value)) < _LONGEST_VALUE:
        where += f", or add --param {name}={value!r}"
    return f"{name!r} is in the notebook's kernel; ranks have their own variables: {where}."
