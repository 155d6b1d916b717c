"""Install this machine's Python environment and this package on a node."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path

from workbench.cloud.rented import environment
from workbench.cloud.rented.bootstrap import as_root
from workbench.cloud.rented.userdata import is_ready, packages
from workbench.cloud.rented.wheel import wheel, wheel_name
from workbench.core.fleet.node_provider import Report
from workbench.core.node import environment_paths
from workbench.core.node.requirements import (
    Environment,
    at_home,
    format_names,
    lacking,
    lacking_of,
    read_environment,
    too_new,
    torch_build,
)
from workbench.core.node.setup_errors import not_installed, not_set_up
from workbench.core.world.remote import Session, python_of
from workbench.errors import MachineError

NODE_FOLDER = ".workbench"
"""Of what is installed, below the home directory on a rented node."""

# apt and a base Python take one or two minutes, frameworks some more.
SETUP_SECONDS = 900.0
INSTALL_SECONDS = 1800.0
ASK_SECONDS = 60.0
# As in ``cloud.userdata.packages``.
GIT = ("command -v git", "git")
# chainer's setup.py imports pkg_resources, which setuptools 81 dropped.
BUILT_WITH = "setuptools<81\n"
_INSTALL = """\
set -eu
cd {folder}
export PIP_CONSTRAINT="$PWD/built-with.txt"
torch={torch}
if [ "$torch" = cpu ] && command -v nvidia-smi > /dev/null; then torch=; fi
install() {{
  {uv} pip install -q --python {python} --build-constraints built-with.txt {what}
}}
if [ -x {uv} ] && [ -n "$torch" ]; then
  # Where its own index is out of reach, the usual build is better than none.
  UV_TORCH_BACKEND="$torch" install || install
elif [ -x {uv} ]; then
  install
else
  {python} -m pip install -q --disable-pip-version-check {what}
fi
"""


def equip(
    session: Session, report: Report, here: Environment | None = None, more: Sequence[str] = ()
) -> bool:
    """Wait until a node is set up, install what it lacks, and return whether it lacked anything.

    Args:
        here: The environment that it must have (default: this one).
        more: Further requirements, such as CuPy's, if none of them is installed there.

    Raises:
        MachineError: It was not set up, or something could not be installed.
    """
    report("It is being set up.")
    done = session.run(["sh", "-c", is_ready(SETUP_SECONDS)], seconds=SETUP_SECONDS + ASK_SECONDS)
    if done.status:
        raise MachineError(not_set_up(session.host.address, done.errors))
    here, there = here or environment_here(), _environment_there(session)
    if there.python != here.python:
        raise MachineError(
            f"{session.host.address} has Python {there.python} at {python_of(session)}, and here "
            f"it is {here.python}",
            "bake the image again, or leave --image out.",
        )
    missing = (*lacking(here, there), *lacking_of(more, there))
    if missing:
        names = format_names([text.partition("=")[0] for text in missing])
        report(f"It gets {names}.{_other_versions(here, there)}")
        if any(" @ git+" in text for text in missing):
            _get_git(session)
        _put(session, "wanted.txt", missing)
        _put(session, "at-home.txt", at_home(here, there))
        _install(session, "-r wanted.txt -c at-home.txt", torch_build(here))
    if there.package != here.package:
        report("It gets this version of workbench.")
        session.put(_wheel(), f"{NODE_FOLDER}/{wheel_name()}")
        _install(session, f"--no-deps --force-reinstall {wheel_name()}")
    return bool(missing) or there.package != here.package


@functools.cache
def environment_here() -> Environment:
    """Return the contents of this environment, which is read once."""
    return read_environment(json.dumps(environment.collect_environment()))


@functools.cache
def _wheel() -> bytes:
    folder = environment.package_folder()
    assert folder is not None
    return wheel(folder)


def _other_versions(here: Environment, there: Environment) -> str:
    names = too_new(here, there)
    if not names:
        return ""
    return f" Of {format_names(names)} it gets a version that its Python {there.release} takes."


def _environment_there(session: Session) -> Environment:
    source = Path(environment.__file__).read_text(encoding="utf-8")
    done = session.run([python_of(session), "-I", "-"], input=source, seconds=ASK_SECONDS)
    try:
        return read_environment(done.output)
    except ValueError as error:
        raise MachineError(
            f"{session.host.address} has no Python at {python_of(session)} that runs "
            f"({_last(done.errors)})",
            "bake the image again, or leave --image out.",
        ) from error


def _get_git(session: Session) -> None:
    """Install git, which images need not have, for requirements from a repository."""
    command = as_root(session, ["sh", "-eu", "-c", packages([GIT])])
    done = session.run(command, seconds=SETUP_SECONDS)
    if done.status:
        raise MachineError(not_set_up(session.host.address, done.errors))


def _put(session: Session, name: str, requirements: Sequence[str]) -> None:
    session.put("".join(f"{text}\n" for text in requirements).encode(), f"{NODE_FOLDER}/{name}")


def _install(session: Session, what: str, torch: str = "") -> None:
    session.put(BUILT_WITH.encode(), f"{NODE_FOLDER}/built-with.txt")
    script = _INSTALL.format(
        folder=NODE_FOLDER,
        uv=f"{environment_paths.UV}/bin/uv",
        python=python_of(session),
        what=what,
        torch=torch,
    )
    done = session.run(["sh", "-s"], input=script, seconds=INSTALL_SECONDS)
    if done.status:
        raise MachineError(not_installed(session.host.address, done.errors))


def _last(text: str) -> str:
    return (text.strip() or "no output").splitlines()[-1]
