"""What this computer's environment has: GPU libraries, and packages that nodes would not get."""

from __future__ import annotations

import configparser
import contextlib
import functools
import os
import sys
from collections.abc import Mapping
from importlib.metadata import distributions
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from workbench.core.fleet.model import FleetWish, Offer
from workbench.core.fleet.offers import has_cuda
from workbench.core.node.requirements import Environment, notes
from workbench.core.node.staging import is_bucket, sending_text

MOST_FILES = 100_000

PIP_FILE = "PIP_CONFIG_FILE"
_PARTS, _KEYS = ("global", "install"), ("index-url", "extra-index-url")
_VARIABLES = (
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL",
    "UV_DEFAULT_INDEX", "UV_INDEX",
)  # fmt: skip


def travel_notes(wish: FleetWish, offer: Offer) -> tuple[str, ...]:
    """Return the notes on the nodes' environment to show before a price is confirmed.

    Args:
        offer: The offer that would be bought first.
    """
    if not wish.place.copies_environment:
        return ()
    said = notes(environment_here(), *wish.place.image_of(wish, bool(offer.gpus)))
    sending = "" if is_bucket(wish.data) else sending_text(_nbytes_of(wish.data))
    return (*said, sending) if sending else tuple(said)


def _nbytes_of(folder: str) -> int:
    """Return how much is in a folder, of its first files; 0 without one.

    What cannot be read counts as nothing, and a person may still be typing the path.
    """
    paths = (
        os.path.join(place, name)
        for place, _, names in (os.walk(folder) if folder else ())
        for name in names
    )
    total = 0
    for path in islice(paths, MOST_FILES):
        with contextlib.suppress(OSError):
            total += os.stat(path).st_size
    return total


@functools.cache
def environment_here() -> Environment:
    """Return the packages installed here and their origin; read once."""
    held, conda = {}, set()
    for found in distributions():
        if name := found.metadata["Name"]:
            held[name] = (found.version, found.read_text("direct_url.json") or "")
            if (found.read_text("INSTALLER") or "").strip() == "conda":
                conda.add(name)
    python = "{}.{}".format(*sys.version_info)
    return Environment(python, "", held, conda=frozenset(conda), indexes=configured_indexes())


def configured_indexes(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the hosts of the package indexes that the user has configured for pip or uv.

    pip's user guide, "Configuration": its files, then its variables. No password is in a host.
    """
    home = Path(environment.get("HOME", "~")).expanduser()
    own = [Path(environment[PIP_FILE])] if PIP_FILE in environment else []
    settings = configparser.RawConfigParser(strict=False)
    for path in (
        Path("/etc/pip.conf"), home / ".pip/pip.conf", home / ".config/pip/pip.conf",
        Path(sys.prefix, "pip.conf"), *own,
    ):  # fmt: skip
        with contextlib.suppress(configparser.Error, UnicodeDecodeError, OSError):
            settings.read(path, encoding="utf-8")
    found = [settings.get(part, key, fallback="") for part in _PARTS for key in _KEYS]
    found += [environment.get(name, "") for name in _VARIABLES]
    hosts = [urlsplit(url).hostname for text in found for url in text.split()]
    return tuple(dict.fromkeys(host for host in hosts if host))


@functools.cache
def has_cuda_here() -> bool:
    """Whether CuPy, or PyTorch for CUDA, is installed here; read once."""
    return has_cuda((one.metadata["Name"] or "", one.version) for one in distributions())
