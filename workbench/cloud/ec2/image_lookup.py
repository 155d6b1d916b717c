"""Look up the image that nodes boot, once for a cluster."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from workbench.cloud.ec2 import launch_template
from workbench.cloud.ec2.api import Ec2Api, build_error
from workbench.cloud.ec2.images import NAMES, find_title, parameters
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.messages import decode
from workbench.errors import CloudError, MachineError
from workbench.store.paths import write_private

log = logging.getLogger("workbench.supervisor")
NAME = "lookups.json"

# What the policy of `workbench doctor --iam` allows to read.
_READABLE = ("/aws/service/", "/workbench/")
Found = MutableMapping[str, str]
"""Image ids by what was requested: nodes that are bought later boot the same image."""


def find_image(
    calls: Ec2Api, wished: str, *, gpus: bool, found: Found | None = None
) -> launch_template.Image:
    """Return the image that nodes boot.

    Args:
        wished: An image's id, a name of ``core.fleet.images``, or the name of a parameter that
            has one; empty to look it up.
        gpus: Whether the nodes have GPUs, and need their driver.
        found: Earlier look-ups; new ones are added. An image that no longer exists is looked up
            again.

    Raises:
        CloudError: There is no such image, or EC2 does not answer.
    """
    names = parameters(wished, gpus=gpus)
    if not names:
        return _describe_image(calls, wished, "")
    found = {} if found is None else found
    key = f"{calls.region} {' '.join(names)}"
    if key in found:
        parameter, _, id_ = found[key].rpartition(" ")
        try:
            return _describe_image(calls, id_, find_title(parameter))
        except CloudError as error:
            if not error.code.startswith("InvalidAMIID"):
                raise
    parameter, id_ = _look_up(calls, names)
    image = _describe_image(calls, id_, find_title(parameter))
    found[key] = f"{parameter} {id_}"
    return image


def _look_up(calls: Ec2Api, names: tuple[str, ...]) -> tuple[str, str]:
    try:
        answer = calls.call("ssm", "get_parameters", Names=list(names))
    except CloudError as error:
        if error.kind != ErrorKind.PERMISSION or names[0].startswith(_READABLE):
            raise
        raise CloudError(
            f"The policy does not allow to read the parameter {names[0]}, but only those below "
            f"/workbench/ ({error.code})",
            ErrorKind.PERMISSION,
            error.code,
            remedy="put the image's id there, or allow ssm:GetParameters for this one.",
        ) from error
    values = {row["Name"]: str(row["Value"]) for row in answer["Parameters"]}
    there = [(name, values[name]) for name in names if name in values]
    if not there:
        raise CloudError(
            f"{calls.region} has no public image for these nodes (no SSM parameter "
            f"{' or '.join(names)})",
            ErrorKind.CONFIGURATION,
            "InvalidAMIID.NotFound",
            remedy=f"name an existing one (--image ami-…, or one of {', '.join(NAMES)}), or choose "
            "another region.",
        )
    return there[0]


def _describe_image(calls: Ec2Api, id_: str, title: str) -> launch_template.Image:
    rows = calls.call("ec2", "describe_images", ImageIds=[id_])["Images"]
    if not rows:
        raise build_error("InvalidAMIID.NotFound", f"{id_} is not in {calls.region}")
    root = str(rows[0].get("RootDeviceName") or "/dev/sda1")
    sizes = [
        mapping["Ebs"].get("VolumeSize", 0)
        for mapping in rows[0].get("BlockDeviceMappings", ())
        if mapping.get("DeviceName") == root and "Ebs" in mapping
    ]
    return launch_template.Image(
        id_, root, max([8, *sizes]), title or str(rows[0].get("Name") or "")
    )


class LookupCache(MutableMapping[str, str]):
    """The cached account and image of one cluster.

    Args:
        folder: The folder of the cluster.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def __repr__(self) -> str:
        return f"<LookupCache {self._path}>"

    def __getitem__(self, key: str) -> str:
        return self._read()[key]

    def __setitem__(self, key: str, value: str) -> None:
        self._keep(self._read() | {key: value})

    def __delitem__(self, key: str) -> None:
        kept = self._read()
        del kept[key]
        self._keep(kept)

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def discard(self) -> None:
        """Delete the cache: the next cluster of this name may have another image or account."""
        self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, str]:
        try:
            kept: dict[str, str] = decode(dict, self._path.read_bytes())
            return {str(key): str(value) for key, value in kept.items()}
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError, MachineError) as error:
            log.warning("%s cannot be read, so all is looked up again: %s", self._path, error)
            return {}

    def _keep(self, kept: dict[str, str]) -> None:
        write_private(self._path, json.dumps(kept, indent=1))
