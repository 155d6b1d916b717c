"""Build a wheel of this package, so that nodes run the same code as the supervisor."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import io
import zipfile
from pathlib import Path

from workbench.cloud.rented.environment import PACKAGE, package_files
from workbench.namesake import DISTRIBUTION

PTH = "workbench_compat.pth"
_WHEEL = "Wheel-Version: 1.0\nGenerator: workbench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_NAME = DISTRIBUTION.replace("-", "_")  # in names of files
_FIRST = (1980, 1, 1, 0, 0, 0)  # the oldest date of a zip: the same files give the same wheel


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
