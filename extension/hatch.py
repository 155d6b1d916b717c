"""Build the JupyterLab extension when a package is made from a tree that lacks it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
BUILT = HERE.parent / "workbench" / "labextension" / "package.json"
LACKING = (
    "The JupyterLab extension is not built in this tree, and building it needs Node 20.19, 22.12 "
    'or newer on PATH: run "make extension" first, which brings its own Node, install a wheel, or '
    "set SKIP_JUPYTER_BUILDER=1 to go without the extension."
)


def build(target_name: str, version: str) -> None:
    """Run the package's own build once; hatch-jupyter-builder calls this for wheel and sdist."""
    if BUILT.exists():
        return
    node = shutil.which("node")
    if node is None or subprocess.run([node, "node-fits.js"], cwd=HERE, check=False).returncode:
        raise RuntimeError(LACKING)
    for arguments in (["install", "--immutable"], ["build"]):
        subprocess.run(["jlpm", *arguments], cwd=HERE, check=True, env=_environment())


def _environment() -> dict[str, str]:
    # Yarn does not read npm's settings, where a mirror would be named.
    said = _output(["npm", "config", "get", "registry"])
    return ({"YARN_NPM_REGISTRY_SERVER": said} if said else {}) | os.environ


def _output(command: list[str]) -> str:
    if not shutil.which(command[0]):
        return ""
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()
