"""Print what a Python environment contains, as JSON, with the standard library alone.

The same text runs here and, sent over a session, in an environment without this package.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "workbench"
# Files for browsers alone, and Python's own cache.
LEFT_OUT = frozenset({"__pycache__", "labextension", "static", "node_modules"})


def package_files(folder: Path) -> Iterator[Path]:
    """Yield the files of the package that a node needs, in order."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not LEFT_OUT.intersection(parts) and path.suffix != ".pth":
            yield path


def package_folder() -> Path | None:
    """Return the package's folder; None if it is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    return Path(found.origin).parent if found and found.origin else None


def package_hash(folder: Path) -> str:
    """Return a hash of the package's content."""
    digest = hashlib.sha256()
    for path in package_files(folder):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def collect_environment() -> dict[str, object]:
    """Return Python's version, the package's hash, and the metadata of each distribution."""
    folder = package_folder()
    held, pythons, conda = {}, {}, []
    for found in importlib.metadata.distributions():
        if name := found.metadata["Name"]:
            held[name] = [found.version, found.read_text("direct_url.json") or ""]
            pythons[name] = found.metadata["Requires-Python"] or ""
            if (found.read_text("INSTALLER") or "").strip() == "conda":
                conda.append(name)
    return {
        "python": "{}.{}".format(*sys.version_info),
        "release": "{}.{}.{}".format(*sys.version_info),
        "package": package_hash(folder) if folder else "",
        "distributions": held,
        "conda": conda,
        "pythons": {name: text for name, text in pythons.items() if text},
    }


if __name__ == "__main__":
    print(json.dumps(collect_environment()))
