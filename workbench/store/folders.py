"""Check where a cluster's data comes from and its output goes to, before anything is started."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from workbench.core.cluster import ClusterWish
from workbench.core.fleet import FleetWish, Place
from workbench.core.staging import check_folder_name, is_bucket, parse_bucket
from workbench.errors import InputError, StateError


def checked_data(place: str) -> str:
    """Return where the data is: an absolute path, or ``s3://bucket/prefix`` as it was.

    Raises:
        InputError: There is no such folder, it has no file, or S3's form is another.
    """
    if is_bucket(place):
        parse_bucket(place)
        return place
    folder = _absolute(place)
    if not folder.is_dir():
        raise InputError(
            f"There is no folder {folder} for the data; name one, or s3://bucket/prefix."
        )
    if not any(names for _, _, names in os.walk(folder, followlinks=True)):
        raise InputError(f"There is no file in {folder}; name the folder that has the data.")
    return str(folder)


def checked_output(place: str) -> str:
    """Return where output goes: an absolute path, or ``s3://bucket/prefix`` as it was.

    Raises:
        InputError: The folder could not be made, or S3's form is another.
    """
    if is_bucket(place):
        parse_bucket(place)
        return place
    folder = _absolute(place)
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise InputError(
            f"The folder {folder} for the output cannot be written; name another, or "
            "s3://bucket/prefix."
        )
    return str(folder)


def placed(fleet: FleetWish, before: ClusterWish | None) -> FleetWish:
    """Return ``fleet`` with its places checked, but for those that the cluster had before.

    Raises:
        InputError: One will not do.
        StateError: The cluster's nodes have other data.
    """
    known = before.fleet if before else FleetWish()
    data, output = fleet.data, fleet.output
    if data and known.data != data:
        data = checked_data(data)
    if output and known.output != output:
        output = checked_output(output)
    has_nodes = before is not None and before.up and known.place is not Place.LOCAL and known.nodes
    if has_nodes and data and known.data != data:
        raise StateError(
            f"The nodes have {f'the data of {known.data}' if known.data else 'no data'}, not that "
            f"of {data}, and get other data only when they start; take the cluster down first."
        )
    return replace(fleet, data=data, output=output)


def _absolute(place: str) -> Path:
    return Path(check_folder_name(place)).expanduser().absolute()
