"""Replace shell commands in messages by magics in a notebook, and by buttons in a page.

Messages name the shell's command, in backticks: `workbench delete`. A command that exists only in a
shell is not replaced.
"""

from __future__ import annotations

import re

_MAGICS = {
    "up": "%dist_cluster",
    "run": "%%dist_train",
    "sweep": "%%dist_sweep",
    "delete": "%dist_delete",
    "resize": "%dist_resize",
    "keep": "%dist_keep",
    "stop": "%dist_stop",
    "status": "%dist_status",
    "runs": "%dist_runs",
    "bandwidth": "%dist_bandwidth",
    "plan": "%dist_plan",
    "interrupt": "%dist_interrupt",
    "doctor": "%dist_doctor",
}
_BUTTONS = {
    "up": "Start",
    "delete": "Delete",
    "resize": "Resize",
    "stop": "Stop",
    "extend": "Extend",
    "keep": "Keep nodes",
    "bandwidth": "Measure bandwidth",
    "status": "the panel",
    "runs": "the list of runs",
}
# Options that neither magics nor buttons have.
_SHELL_ONLY = ("--iam", "--host", "--retain", "--plot")
_LINES = ("--resume", ".py", " -m ")
_KEPT_OF_UP = re.compile(r"--rehearsal\b|--(?:cluster|link) \S+")
_COMMAND = re.compile(r"`workbench\s([a-z-]+)((?:\s[^`]*)?)`")


def in_notebook(text: str) -> str:
    """Return ``text`` with magics in place of the shell's commands."""
    return _COMMAND.sub(_magic, text) if _COMMAND.search(text) else text


def in_page(text: str) -> str:
    """Return ``text`` with the names of buttons in place of the shell's commands."""
    return _COMMAND.sub(_button, text) if _COMMAND.search(text) else text


def _magic(found: re.Match[str]) -> str:
    name, options = found.groups()
    if name not in _MAGICS or _is_shell_only(options):
        return found[0]
    if name == "up":
        kept = [one.replace("--rehearsal", "--rehearsal N") for one in _KEPT_OF_UP.findall(options)]
        options = "".join(f" {one}" for one in kept)
    # A script is named on the line, and a run that is resumed keeps its cell.
    is_line = _MAGICS[name].startswith("%%") and any(one in options for one in _LINES)
    return (_MAGICS[name][1:] if is_line else _MAGICS[name]) + options


def _button(found: re.Match[str]) -> str:
    name, options = found.groups()
    return found[0] if _is_shell_only(options) else _BUTTONS.get(name, found[0])


def _is_shell_only(options: str) -> bool:
    return any(option in options for option in _SHELL_ONLY)
