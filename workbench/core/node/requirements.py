"""Decide which packages an environment needs to match another one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from workbench.core.messages import decode
from workbench.errors import MachineError

OURS = "dist-workbench"
# The versions of an environment's own tools do not matter to what runs in it.
_TOOLS = frozenset({OURS, "pip", "setuptools", "wheel", "uv"})
# Packages of the notebook's own server, which no training needs; libraries that a cell may import
# are not among them. A node gets one of these if another package requires it.
AT_HOME = frozenset({
    "fqdn", "isoduration", "jupyter", "jupyter-builder", "jupyter-console", "jupyter-events",
    "jupyter-lsp", "jupyter-server", "jupyter-server-terminals", "jupyterlab",
    "jupyterlab-language-pack-ja-jp", "jupyterlab-pygments", "jupyterlab-server",
    "jupyterlab-widgets", "nbclassic", "nbconvert", "notebook", "notebook-shim", "pandocfilters",
    "rfc3339-validator", "rfc3986-validator", "rfc3987-syntax", "send2trash", "terminado",
    "uri-template", "voila", "widgetsnbextension",
})  # fmt: skip
# From where uv downloads a Python: its own host first, then the publisher's.
PYTHON_HOSTS = ("releases.astral.sh", "github.com")
# Each build of PyTorch has its own index, which uv knows by these names.
_TORCH = re.compile(r"cpu|cu[0-9]{2,3}|rocm[0-9.]+", re.ASCII)
# Where a package of conda was built; that file no longer exists (conda/conda#11580).
_BUILT_BY_CONDA = re.compile(r"^file:.*/(feedstock_root|croot|conda-bld)(/|$)")


@dataclass(frozen=True)
class Environment:
    """The contents of a Python environment.

    Args:
        python: Such as ``3.11``.
        package: Hash of this package's content; empty if it is not installed.
        distributions: Name to version, and to its origin if that was not an index.
        release: The full version of Python, such as ``3.11.2``.
        pythons: Name to the required releases of Python, if it has any: ``>=3.11.5``.
        conda: Names of the packages installed by conda.
        indexes: Hosts of the package indexes that pip is configured to ask.
    """

    python: str
    package: str
    distributions: Mapping[str, tuple[str, str]]
    release: str = ""
    pythons: Mapping[str, str] = field(default_factory=dict)
    conda: frozenset[str] = frozenset()
    indexes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Environment Python {self.python}, {len(self.distributions)} distributions>"


def read_environment(text: str) -> Environment:
    """Return the environment that ``rented.environment`` printed, without a login shell's output.

    Raises:
        ValueError: The text has no environment.
    """
    try:
        return decode(Environment, text.strip().rpartition("\n")[2])
    except MachineError as error:
        raise ValueError("no environment was given") from error


def lacking(here: Environment, there: Environment) -> tuple[str, ...]:
    """Return the requirements with which pip makes ``there`` match this environment.

    Packages that were installed from a local folder cannot be fetched, and are left out; so are
    those that only the notebook's server needs. A build for one sort of processor (``2.13.0+cpu``)
    matches any other. Packages that do not support the Python there are required in any version,
    and pip chooses the newest one that does.
    """
    loose = {_plain(name) for name in too_new(here, there)}
    held = {_plain(name): _public(version) for name, (version, _) in there.distributions.items()}
    wanted = {
        _plain(name): name if _plain(name) in loose else _build_requirement(here, name)
        for name, (version, _) in here.distributions.items()
        if held.get(_plain(name)) != _public(version)
        and not (_plain(name) in loose and _plain(name) in held)
    }
    kept = _TOOLS | AT_HOME
    return tuple(text for name, text in sorted(wanted.items()) if text and name not in kept)


def at_home(here: Environment, there: Environment) -> tuple[str, ...]:
    """Return constraints for the packages left out, if another package requires them there."""
    loose = {_plain(name) for name in too_new(here, there)}
    found = (
        text
        for name in here.distributions
        if _plain(name) in AT_HOME - loose and (text := _build_requirement(here, name))
    )
    return tuple(sorted(text for text in found if "@" not in text))


def lacking_of(wanted: Sequence[str], there: Environment) -> tuple[str, ...]:
    """Return the requirements without an installed version there."""
    held = {_plain(name) for name in there.distributions}
    return tuple(text for text in wanted if _plain(re.split(r"[\[<>=!~ ]", text)[0]) not in held)


def torch_build(here: Environment) -> str:
    """Return the index name of the installed PyTorch build; empty for the default build."""
    versions = (v for name, (v, _) in here.distributions.items() if _plain(name) == "torch")
    build = next(versions, "").partition("+")[2]
    return build if _TORCH.fullmatch(build) else ""


def remaining(here: Environment) -> tuple[str, ...]:
    """Return the names of installed packages that a node cannot fetch."""
    kept = _TOOLS | AT_HOME
    return tuple(
        sorted(
            n
            for n in here.distributions
            if not _build_requirement(here, n) and _plain(n) not in kept
        )
    )


def list_renumbered(here: Environment) -> tuple[str, ...]:
    """Return custom builds; nodes get their published version."""
    return tuple(
        f"{name} {version}"
        for name, (version, origin) in sorted(here.distributions.items())
        if "+" in version and not origin and not _TORCH.fullmatch(version.partition("+")[2])
    )


def notes(here: Environment, image_python: str, image: str) -> tuple[str, ...]:
    """Return what the user should know about nodes with this environment before buying them.

    Args:
        image_python: Version of the image's own Python; empty if unknown.
        image: The image's title in messages.
    """
    found = []
    if names := remaining(here):
        found.append(
            f"Nodes do without {format_names(names, 8)}: installed here from a folder or file that "
            "they cannot reach. Install from an index or by git+https, or have nodes install it "
            "with a prepare script (--prepare)."
        )
    if versions := list_renumbered(here):
        found.append(
            f"Of {format_names(versions, 8)} nodes get the version without what follows the +, if "
            "an index has it; have a prepare script install another (--prepare)."
        )
    if image_python and image_python != here.python:
        found.append(
            f"{image} has Python {image_python}; nodes get {here.python} from the releases that uv "
            f"downloads, so they have to reach {' or '.join(PYTHON_HOSTS)} too."
        )
    if here.indexes:
        found.append(
            f"pip asks {' and '.join(here.indexes)} here, and on nodes the public index alone, "
            "where a package of yours is missing or is another one of the same name. Have nodes "
            "install such packages with a prepare script (--prepare)."
        )
    return tuple(found)


def too_new(here: Environment, there: Environment) -> tuple[str, ...]:
    """Return the names of packages whose installed version does not support the Python there.

    A release such as 3.11.2 may be too old: soupsieve 4.1.1 requires >=3.11.5.
    """
    return tuple(
        sorted(name for name, text in here.pythons.items() if not _takes(text, there.release))
    )


def _takes(wanted: str, release: str) -> bool:
    try:
        return not release or SpecifierSet(wanted).contains(release, prereleases=True)
    except InvalidSpecifier:
        return True


def _build_requirement(here: Environment, name: str) -> str:
    """Return the requirement for pip; empty for a package that exists only here."""
    version, origin = here.distributions[name]
    pinned = f"{name}=={_public(version)}"
    if not origin:
        return pinned
    known = json.loads(origin)
    url, source = str(known.get("url", "")), known.get("vcs_info")
    if name in here.conda or _BUILT_BY_CONDA.match(url):
        return pinned
    if not url.startswith("https://"):
        return ""
    return f"{name} @ {source['vcs']}+{url}@{source['commit_id']}" if source else f"{name} @ {url}"


def _public(version: str) -> str:
    return version.partition("+")[0]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def format_names(names: Sequence[str], most: int = 3) -> str:
    """Return the first few names, and the number of others, for a sentence."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
