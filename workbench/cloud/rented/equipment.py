"""Install this machine's Python environment and this package on a node."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.metadata
import io
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.cloud.rented import environment, userdata
from workbench.cloud.rented.bootstrap import as_root
from workbench.cloud.rented.environment import PACKAGE, package_files
from workbench.cloud.rented.userdata import is_ready, packages
from workbench.core.fleet.node_provider import Report
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
from workbench.core.world.remote import Session, python_of
from workbench.errors import MachineError
from workbench.namesake import DISTRIBUTION

# How apt, pip, uv and git report an unreachable host, with its name.
_UNREACHED = tuple(
    re.compile(pattern)
    for pattern in (
        r"Temporary failure resolving '([\w.-]+)'",
        r"Could not (?:resolve host:|resolve|connect to) '?([\w.-]+)",
        r"(?:Cannot initiate the connection to|Connection to|connect to) ([\w.-]+):\d+",
        r"HTTPS?Connection(?:Pool)?\(host='([\w.-]+)'",
        r"error sending request for url \(\w+://([\w.-]+)",
        r"(?:Request failed after|Failed to (?:fetch|download)).*\w+://([\w.-]+)",
    )
)
# pip of Debian 12 does not name the host.
_NAMELESS = re.compile(r"NewConnectionError|ConnectTimeoutError|Name or service not known")
_INDEX = "the package index"
_TRACED = "+ "  # written by sh -x
_REMEDY = (
    "check that its subnet has a route there (an internet gateway and a public address, or a NAT "
    "gateway) and that no firewall blocks it, or bake an image that has all"
)

PTH = "workbench_compat.pth"
_WHEEL = "Wheel-Version: 1.0\nGenerator: workbench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_NAME = DISTRIBUTION.replace("-", "_")  # in names of files
_FIRST = (1980, 1, 1, 0, 0, 0)  # the oldest date of a zip: the same files give the same wheel

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
{exports}export PIP_CONSTRAINT="$PWD/built-with.txt"
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


@dataclass(frozen=True)
class Site:
    """Where nodes of one sort keep what is installed, and what helps where that fails.

    Args:
        make: Makes the environment of a node that lacks it.
        folder: For lists of requirements, below the home directory.
        uv: Path of uv there, as a word of a shell.
        route: What to do where a node reaches no package index.
        afresh: What to do where the environment does not fit.
        exports: Lines that set variables of the installation.
        send: Sends a node the wheels of these requirements, and returns the options by which uv
            finds them; None where nodes always reach the index.
    """

    make: Callable[[Session], None]
    folder: str = NODE_FOLDER
    uv: str = f"{userdata.UV}/bin/uv"
    route: str = _REMEDY
    afresh: str = "bake the image again, or leave --image out."
    exports: str = ""
    send: Callable[[Session, Sequence[str], Report], str] | None = None


def _wait_until_made(session: Session) -> None:
    """Wait until a rented node has set itself up."""
    done = session.run(["sh", "-c", is_ready(SETUP_SECONDS)], seconds=SETUP_SECONDS + ASK_SECONDS)
    if done.status:
        raise MachineError(not_set_up(session.host.address, done.errors))


RENTED = Site(_wait_until_made)


def equip(
    session: Session,
    report: Report,
    here: Environment | None = None,
    more: Sequence[str] = (),
    site: Site = RENTED,
) -> bool:
    """Set a node up, install what it lacks, and return whether it lacked anything.

    Args:
        here: The environment that it must have (default: this one).
        more: Further requirements, such as CuPy's, if none of them is installed there.

    Raises:
        MachineError: It was not set up, or something could not be installed.
    """
    report("It is being set up.")
    site.make(session)
    here, there = here or environment_here(), _environment_there(session, site)
    if there.python != here.python:
        raise MachineError(
            f"{session.host.address} has Python {there.python} at {python_of(session)}, and here "
            f"it is {here.python}",
            site.afresh,
        )
    missing = (*lacking(here, there), *lacking_of(more, there))
    if missing:
        names = format_names([text.partition("=")[0] for text in missing])
        report(f"It gets {names}.{_other_versions(here, there)}")
        if site is RENTED and any(" @ git+" in text for text in missing):
            _get_git(session)
        _put(session, site, "wanted.txt", missing)
        _put(session, site, "at-home.txt", at_home(here, there))
        what = "-r wanted.txt -c at-home.txt"
        try:
            _install(session, site, what, torch_build(here))
        except Unreached:
            if site.send is None:
                raise
            _install(session, site, f"{site.send(session, missing, report)} {what}")
    if there.package != here.package:
        report("It gets this version of workbench.")
        session.put(_wheel(), f"{site.folder}/{wheel_name()}")
        _install(session, site, f"--no-deps --force-reinstall {wheel_name()}")
    return bool(missing) or there.package != here.package


@functools.cache
def environment_here() -> Environment:
    """Return the contents of this environment, which is read once."""
    return read_environment(json.dumps(environment.collect_environment()))


@functools.cache
def environment_nbytes() -> int:
    """Return the space that this environment takes, as its distributions list their files."""
    files = (one for found in importlib.metadata.distributions() for one in found.files or ())
    return sum(one.size or 0 for one in files)


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


def _environment_there(session: Session, site: Site) -> Environment:
    source = Path(environment.__file__).read_text(encoding="utf-8")
    done = session.run([python_of(session), "-I", "-"], input=source, seconds=ASK_SECONDS)
    try:
        return read_environment(done.output)
    except ValueError as error:
        raise MachineError(
            f"{session.host.address} has no Python at {python_of(session)} that runs "
            f"({_last(done.errors)})",
            site.afresh,
        ) from error


def _get_git(session: Session) -> None:
    """Install git, which images need not have, for requirements from a repository."""
    command = as_root(session, ["sh", "-eu", "-c", packages([GIT])])
    done = session.run(command, seconds=SETUP_SECONDS)
    if done.status:
        raise MachineError(not_set_up(session.host.address, done.errors))


def _put(session: Session, site: Site, name: str, requirements: Sequence[str]) -> None:
    session.put("".join(f"{text}\n" for text in requirements).encode(), f"{site.folder}/{name}")


class Unreached(MachineError):
    """A node does not reach the package index."""


def _install(session: Session, site: Site, what: str, torch: str = "") -> None:
    session.put(BUILT_WITH.encode(), f"{site.folder}/built-with.txt")
    script = _INSTALL.format(
        folder=site.folder,
        exports=site.exports,
        uv=site.uv,
        python=python_of(session),
        what=what,
        torch=torch,
    )
    done = session.run(["sh", "-s"], input=script, seconds=INSTALL_SECONDS)
    if done.status:
        kind = Unreached if find_unreached(done.errors) else MachineError
        raise kind(not_installed(session.host.address, done.errors, site.route))


def _last(text: str) -> str:
    return (text.strip() or "no output").splitlines()[-1]


def wheel_name() -> str:
    """Return the wheel's file name, in the standard form."""
    return f"{_NAME}-{importlib.metadata.version(DISTRIBUTION)}-py3-none-any.whl"


def wheel(folder: Path) -> bytes:
    """Return a wheel of the package in ``folder``, without files for browsers."""
    metadata = importlib.metadata.distribution(DISTRIBUTION)
    info = f"{_NAME}-{metadata.version}.dist-info"
    files = {f"{PACKAGE}/{path.relative_to(folder).as_posix()}": path.read_bytes()
             for path in package_files(folder)}  # fmt: skip
    for place in (folder / "compat" / PTH, folder.parent / PTH):
        if place.exists():
            files[PTH] = place.read_bytes()
            break
    files[f"{info}/METADATA"] = (metadata.read_text("METADATA") or "").encode()
    files[f"{info}/WHEEL"] = _WHEEL.encode()
    files[f"{info}/entry_points.txt"] = (metadata.read_text("entry_points.txt") or "").encode()
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD").encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, _FIRST), data, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _record(files: dict[str, bytes], own: str) -> str:
    lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    return "\n".join([*lines, f"{own},,", ""])


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def find_unreached(text: str) -> str:
    """Return the unreachable host that a program's output names; empty if there is none."""
    found = [(match.start(), match.group(1)) for one in _UNREACHED for match in one.finditer(text)]
    return max(found)[1] if found else _INDEX if _NAMELESS.search(text) else ""


def not_set_up(address: str, text: str, route: str = _REMEDY) -> str:
    """Return the error sentence for a node that could not be set up.

    Args:
        text: The end of the output.
        route: What to do where it does not reach a host.
    """
    if host := find_unreached(text):
        return f"{address} was not set up: it could not reach {host}; {route}."
    return f"{address} was not set up: {_last_line(text)}"


def not_installed(address: str, text: str, route: str = _REMEDY) -> str:
    """Return the error sentence for a node on which this environment could not be installed."""
    if host := find_unreached(text):
        what = f"{address} could not install this environment, because {host} is unreachable"
        return f"{what}; {route}."
    return (
        f"{address} could not install this environment ({_last_line(text)}); install from an index "
        "what is not there, or bake an image."
    )


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if not line.startswith(_TRACED)]
    return lines[-1] if lines else "it gave no output"
