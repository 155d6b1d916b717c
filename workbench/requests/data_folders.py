"""Check a cluster's data source and output place, before anything is started."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from workbench.core.cluster.model import ClusterWish
from workbench.core.fleet.model import FleetWish
from workbench.core.node.staging import check_folder_name, is_bucket, parse_bucket
from workbench.errors import InputError, StateError


def check_data(place: str) -> str:
    """Return the checked data source: an absolute path, or ``s3://bucket/prefix`` unchanged.

    Raises:
        InputError: The folder is missing or empty, or the S3 prefix is not valid.
    """
    if is_bucket(place):
        parse_bucket(place)
        return place
    folder = _absolute(place)
    if not folder.is_dir():
        raise InputError(
            f"There is no data folder {folder}", "give an existing one, or s3://bucket/prefix."
        )
    if not any(names for _, _, names in os.walk(folder, followlinks=True)):
        raise InputError(f"The data folder {folder} is empty", "give the folder that has the data.")
    return str(folder)


def check_output(place: str) -> str:
    """Return the checked output folder: an absolute path, or ``s3://bucket/prefix`` unchanged.

    Raises:
        InputError: The folder could not be created, or the S3 prefix is not valid.
    """
    if is_bucket(place):
        parse_bucket(place)
        return place
    folder = _absolute(place)
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise InputError(
            f"The output folder {folder} cannot be written", "give another, or s3://bucket/prefix."
        )
    return str(folder)


def check_places(fleet: FleetWish, before: ClusterWish | None) -> FleetWish:
    """Return ``fleet`` with its data source and output folder checked, if they are new.

    Raises:
        InputError: One is not valid.
        StateError: The cluster's nodes have other data.
    """
    known = before.fleet if before else FleetWish()
    data, output = fleet.data, fleet.output
    if data and known.data != data:
        data = check_data(data)
    if output and known.output != output:
        output = check_output(output)
    has_nodes = before is not None and before.up and known.place.has_nodes and known.nodes
    if has_nodes and data and known.data != data:
        raise StateError(
            f"The nodes have {f'the data of {known.data}' if known.data else 'no data'}, not that "
            f"of {data}, and data is only copied when nodes start",
            "delete the cluster first.",
        )
    return replace(fleet, data=data, output=output)


def _absolute(place: str) -> Path:
    return Path(check_folder_name(place)).expanduser().absolute()
