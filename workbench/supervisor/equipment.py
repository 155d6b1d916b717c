"""Give a rented node the environment that is here, and this very package."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

from workbench.cloud import environment
from workbench.cloud.parcel import wheel, wheel_name
from workbench.cloud.userdata import is_ready
from workbench.cluster.nodes import NODE_FOLDER
from workbench.core.requirements import Environment, lacking, read_environment, shown
from workbench.core.session import Session
from workbench.errors import MachineError
from workbench.supervisor.lender import Say

# apt and a base Python take one or two minutes, frameworks some more.
SETUP_SECONDS = 900.0
INSTALL_SECONDS = 1800.0
ASK_SECONDS = 60.0
# chainer's setup.py imports pkg_resources, which setuptools 81 dropped.
BUILT_WITH = "setuptools<81\n"
_INSTALL = """\
set -eu
cd {folder}
export PIP_CONSTRAINT="$PWD/built-with.txt"
if [ -x /opt/uv/bin/uv ]; then
  /opt/uv/bin/uv pip install -q --python {python} --build-constraints built-with.txt {what}
else
  {python} -m pip install -q --disable-pip-version-check {what}
fi
"""


def equip(session: Session, say: Say) -> bool:
    """Wait until a node is set up, then install what it lacks, and tell whether it lacked any.

    Raises:
        MachineError: It was not set up, or something could not be installed.
    """
    say("It is being set up.")
    done = session.run(["sh", "-c", is_ready(SETUP_SECONDS)], seconds=SETUP_SECONDS + ASK_SECONDS)
    if done.status:
        raise MachineError(f"{session.host.address} was not set up: {_last(done.errors)}")
    here, there = environment_here(), _environment_there(session)
    if there.python != here.python:
        raise MachineError(
            f"{session.host.address} has Python {there.python} at {sys.prefix}, and here it is "
            f"{here.python}; bake the image anew, or leave --image out."
        )
    missing = lacking(here, there)
    if missing:
        say(f"It gets {shown([text.partition('=')[0] for text in missing])}.")
        session.put("".join(f"{text}\n" for text in missing).encode(), f"{NODE_FOLDER}/wanted.txt")
        _install(session, "-r wanted.txt")
    if there.package != here.package:
        say("It gets this version of workbench.")
        session.put(_wheel(), f"{NODE_FOLDER}/{wheel_name()}")
        _install(session, f"--no-deps --force-reinstall {wheel_name()}")
    return bool(missing) or there.package != here.package


@functools.cache
def environment_here() -> Environment:
    """Return what this environment holds; it is read once."""
    return read_environment(json.dumps(environment.environment()))


@functools.cache
def _wheel() -> bytes:
    folder = environment.package_folder()
    assert folder is not None
    return wheel(folder)


def _environment_there(session: Session) -> Environment:
    source = Path(environment.__file__).read_text(encoding="utf-8")
    done = session.run([sys.executable, "-I", "-"], input=source, seconds=ASK_SECONDS)
    try:
        return read_environment(done.output)
    except ValueError as error:
        raise MachineError(
            f"{session.host.address} has no Python at {sys.executable} that runs "
            f"({_last(done.errors)}); bake the image anew, or leave --image out."
        ) from error


def _install(session: Session, what: str) -> None:
    session.put(BUILT_WITH.encode(), f"{NODE_FOLDER}/built-with.txt")
    script = _INSTALL.format(folder=NODE_FOLDER, python=sys.executable, what=what)
    done = session.run(["sh", "-s"], input=script, seconds=INSTALL_SECONDS)
    if done.status:
        raise MachineError(
            f"{session.host.address} could not install what is here ({_last(done.errors)}); "
            "install from an index what is not there, or bake an image."
        )


def _last(text: str) -> str:
    return (text.strip() or "it said nothing").splitlines()[-1]
