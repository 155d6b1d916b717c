"""List, send, receive, store and remove the snapshots on this node, as the supervisor asks."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from workbench.core.node.agent_protocol import (
    AllSent,
    FetchSnapshots,
    LimitSnapshots,
    ListSnapshots,
    Manifest,
    Piece,
    ReceiveSnapshot,
    RemoveSnapshots,
    SendSnapshot,
    StoreSnapshot,
    decode_path,
)
from workbench.core.recovery.snapshot_copies import beyond_limit
from workbench.core.recovery.snapshots import SnapshotManifest, decode_manifest, encode_manifest
from workbench.core.run_id import is_run_id
from workbench.errors import MachineError
from workbench.node.copying import Crc32, crc32_text, send_file
from workbench.node.snapshot_folder import (
    ArrivingSnapshot,
    manifests,
    open_snapshot,
    prune,
    remove_run,
    sizes,
)
from workbench.node.snapshot_place import SnapshotPlace, place_of
from workbench.node.stream import Call


def list_snapshots(call: Call, request: ListSnapshots) -> None:
    """Send the manifest of each complete snapshot of a run."""
    for one in manifests(_folder(request.folder), request.run):
        call.send(Manifest(encode_manifest(one)))
    call.flush()


def send_snapshot(call: Call, request: SendSnapshot) -> None:
    """Send a snapshot, with pauses so that it takes a share of the connection."""
    place = _folder(request.folder)
    manifest = _find_manifest(place, request.run, request.name)
    begun = time.monotonic()

    def pause(nbytes: int) -> None:
        nonlocal begun
        time.sleep((time.monotonic() - begun) * (1 / request.share - 1))
        begun = time.monotonic()

    with open_snapshot(place, manifest) as files:
        for one, file in files:
            checksum = Crc32()
            send_file(call, one.name, file, one.nbytes, checksum=checksum, sent=pause)
            if checksum.hexdigest() != crc32_text(one.checksum) or file.read(1):
                raise MachineError(f"{one.name} of the snapshot is damaged")
    call.flush()


def receive_snapshot(call: Call, request: ReceiveSnapshot) -> None:
    """Receive a snapshot: afterwards it is there whole, or not at all."""
    try:
        manifest = decode_manifest(request.manifest)
    except ValueError as error:
        raise MachineError(f"The manifest cannot be used: {error}") from None
    if manifest.run != request.run:
        raise MachineError(f"The manifest is of run {manifest.run!r:.80}")
    folder = _folder(request.folder)
    arrival = ArrivingSnapshot(folder, manifest)
    try:
        for message in call.messages():
            match message:
                case Piece():
                    arrival.add(decode_path(message.path), message.data, message.offset)
                case AllSent():
                    arrival.end()
                    prune(folder, request.run)
                    return
    finally:
        arrival.drop()


def store_snapshot(call: Call, request: StoreSnapshot) -> None:
    """Store a snapshot in a durable place."""
    folder = _folder(request.folder)
    _durable(request).store(folder, _find_manifest(folder, request.run, request.name))


def fetch_snapshots(call: Call, request: FetchSnapshots) -> None:
    """Claim a durable place for an attempt, and fetch what it needs from there."""
    durable = _durable(request)
    durable.claim(request.run, request.attempt)
    durable.fetch(request.run, _folder(request.folder))


def remove_snapshots(call: Call, request: RemoveSnapshots) -> None:
    """Remove a run's snapshots, here and from its durable place."""
    remove_run(_folder(request.folder), request.run)
    if request.place:
        _durable(request).remove(request.run)


def limit_snapshots(call: Call, request: LimitSnapshots) -> None:
    """Remove the snapshots of the oldest ended runs beyond a limit."""
    root = _folder(request.root)
    if root.is_dir():
        limit = int(shutil.disk_usage(root).total * request.share)
        for run in beyond_limit(sizes(root, is_run_id), request.ended, limit):
            remove_run(root / run, run)


def _durable(request: StoreSnapshot | FetchSnapshots | RemoveSnapshots) -> SnapshotPlace:
    os.environ.update(dict(request.environment))
    return place_of(request.place)


def _folder(path: bytes) -> Path:
    return Path(decode_path(path)).expanduser()


def _find_manifest(folder: Path, run: str, name: str) -> SnapshotManifest:
    found = next((one for one in manifests(folder, run) if one.name == name), None)
    if found is None:
        raise MachineError(f"There is no snapshot {name} in {folder}")
    return found
