"""Say at the start what cannot work: another package called workbench, or another system.

A distribution of others with a package of our name overwrites this one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from workbench.errors import MachineError

DISTRIBUTION = "dist-workbench"
"""What the package index, pip and the metadata call this package."""
_OWN_METADATA = DISTRIBUTION.replace("-", "_") + "-"
_MODULE = b"workbench/__init__.py,"


def find_namesake(folder: Path = Path(__file__).parents[1]) -> str:
    """Return name and version of the other distribution in ``folder``, or an empty text.

    Reads the installers' lists of files, about 0.1 ms for each distribution.
    """
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".dist-info") or name.startswith(_OWN_METADATA):
            continue
        try:
            files = (folder / name / "RECORD").read_bytes()
        except OSError:  # of a distribution that another installer than pip has brought
            continue
        if files.startswith(_MODULE) or b"\n" + _MODULE in files:
            return " ".join(name.removesuffix(".dist-info").split("-"))
    return ""


def require_own_package(system: str = sys.platform) -> None:
    """Do nothing on Linux if no other distribution has a package of this name.

    Raises:
        MachineError: One has, so that files of either are missing or wrong; or the system has not
            what supervisors and ranks need.
    """
    if system != "linux":
        raise MachineError(
            f"workbench needs Linux (pidfd, /proc, Open MPI's wheel for it), and this is {system}",
            "use a Linux machine with this one's browser, or a virtual machine with Linux.",
        )
    if found := find_namesake():
        raise MachineError(*describe_namesake(found))


def describe_namesake(found: str) -> tuple[str, str]:
    """Return what is wrong where another distribution has a package of this name, and the remedy.

    Args:
        found: What ``find_namesake`` returned.
    """
    name = found.partition(" ")[0]
    return (
        f"{found} is another project, and its files have the places of {DISTRIBUTION}'s, as both "
        "packages are called workbench",
        f"keep it out of this environment: `pip uninstall --yes {name}` and then "
        f"`pip install --force-reinstall --no-deps {DISTRIBUTION}`.",
    )
