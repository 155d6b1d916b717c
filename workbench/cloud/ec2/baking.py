"""Make and delete images of nodes that are set up, without keys or a person's files."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.cloud.ec2 import launch_template
from workbench.cloud.ec2.api import Ec2Api, build_error
from workbench.cloud.ec2.cluster_resources import ResourceRetries
from workbench.cloud.ec2.preflight import DRY_RUN
from workbench.cloud.ec2.tags import IMAGE, decode_tags
from workbench.cloud.rented.userdata import RUN
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.node_provider import CLUSTER, OWNER
from workbench.core.node.staging import DATA_ROOT, OUTPUT_ROOT, SNAPSHOT_ROOT
from workbench.core.world.remote import Session
from workbench.errors import CloudError, MachineError

# In memory on the node, so it is in no image.
ARCHIVE = f"{RUN}/bake.tar"
# Keys, leases, worlds and shell histories; cloud-init's state belongs to this boot.
_OF_HOMES = (
    ".ssh", ".aws", ".workbench", ".local/state/workbench", ".bash_history", ".python_history",
)  # fmt: skip
_OF_NODE = ("etc/ssh/ssh_host_*", "etc/machine-id", "var/lib/cloud", "var/lib/systemd/random-seed")
_USELESS = (".cache",)
_LEFT = (DATA_ROOT, OUTPUT_ROOT, SNAPSHOT_ROOT)
_ROOT = "root"
AWAY_SECONDS = 120.0
# From CreateImage's answer until EC2 takes the disk; without a restart it takes seconds.
TAKEN_SECONDS = 120.0
_LATE = ("InvalidAMIID", "InvalidSnapshot")
_DUPLICATE = "InvalidAMIName.Duplicate"
# This process may end before: then the node restores everything itself.
BACK_SECONDS = 300
_TIMER = "workbench-bake-timer"


@dataclass(frozen=True)
class ImageProgress:
    """The progress of an image.

    Args:
        state: ``pending``, ``available``, or the reason of a failure.
        percent: Of its disk, as reported by EC2.
    """

    state: str
    percent: int = 0


def bake(
    calls: Ec2Api,
    session: Session,
    id_: str,
    name: str,
    tags: Sequence[tuple[str, str]],
    patience: ResourceRetries,
) -> str:
    """Begin to make an image of a node, and return its id; the node keeps running.

    EC2 makes images asynchronously: it takes the disk as it is at one moment, some time after
    CreateImage has answered. Until the snapshots show that it was taken, the node's own keys and
    state are removed, and login is impossible. An image that may contain them is deleted again.

    Args:
        session: With the node; as root, or as a user with sudo rights.
        tags: Of the image and its snapshots.
        patience: The clock and the limits for waiting.

    Raises:
        CloudError: EC2 does not make the image.
        MachineError: Files of a user are on the node, and cannot be kept out of the image.
    """
    request = {
        "InstanceId": id_,
        "Name": name,
        # A restart would boot it without its keys, as an unknown node.
        "NoReboot": True,
        "TagSpecifications": [
            *launch_template.build_tags("image", tags),
            *launch_template.build_tags("snapshot", tags),
        ],
    }
    _try(calls, "create_image", request)
    try:
        _as_root(session, away())
        image = _request_image(calls, request)
        try:
            _await_disk(calls, image, patience)
        except BaseException as error:
            _undo(calls, image, error, patience)
            raise
        return image
    finally:
        _as_root(session, back())


def progress(calls: Ec2Api, image: str, patience: ResourceRetries) -> ImageProgress:
    """Return the progress of an image; a new one is not visible everywhere at once.

    Raises:
        CloudError: The image does not exist, or EC2 does not answer.
    """
    answer = patience.call("describe_images", {"ImageIds": [image]}, _LATE)
    found = _only(calls, image, answer)
    state = str(found["State"])
    if state != "pending":
        reason = (found.get("StateReason") or {}).get("Message", "")
        return ImageProgress(state if state == "available" else reason or state, 100)
    ids = _snapshots(found)
    if not ids:
        return ImageProgress(state)
    rows = patience.call("describe_snapshots", {"SnapshotIds": ids}, _LATE)["Snapshots"]
    done = [int(str(row.get("Progress") or "0").rstrip("%") or 0) for row in rows]
    return ImageProgress(state, min(done, default=0))


def discard(calls: Ec2Api, image: str) -> tuple[str, ...]:
    """Delete a baked image with its snapshots; return their ids.

    Raises:
        CloudError: The image was not baked by workbench, or something may not be deleted.
    """
    found = _describe_image(calls, image)
    if IMAGE not in dict(decode_tags(found.get("Tags"))):
        raise CloudError(
            f"{image} was not baked by workbench, so it was not deleted",
            ErrorKind.CONFIGURATION,
            remedy="delete it in the AWS console if you do not need it.",
        )
    ids = _snapshots(found)
    calls.call("ec2", "deregister_image", ImageId=image)
    for id_ in ids:
        calls.call("ec2", "delete_snapshot", SnapshotId=id_)
    return tuple(ids)


def image_tags(cluster: str, owner: str) -> tuple[tuple[str, str], ...]:
    """Return the tags that mark a baked image."""
    return ((IMAGE, cluster), *(((OWNER, owner),) if owner else ()))


def describe_node(calls: Ec2Api, id_: str, cluster: str) -> dict[str, Any]:
    """Return EC2's description of a node of ``cluster``.

    Raises:
        CloudError: The node does not exist, or EC2 does not answer.
    """
    rows = calls.rows("ec2", "describe_instances", "Reservations.Instances", InstanceIds=[id_])
    found = next(iter(rows), {})
    if dict(decode_tags(found.get("Tags"))).get(CLUSTER) != cluster:
        raise build_error("InvalidInstanceID.NotFound", f"{id_} is no node of {cluster}")
    return found


def away() -> str:
    """Return the script that sets the node's own files and those of users aside; run as root."""
    homes = " ".join(f"$home/{name}" for name in _OF_HOMES)
    useless = " ".join(f'"$home/{name}"' for name in _USELESS)
    data = " ".join(f'"/$home/{root.removeprefix("~/")}"' for root in _LEFT)
    return (
        f"{back()}"
        f"pkill -f {_TIMER} || true\n"
        "set --\n"
        "for home in root home/*; do\n"
        f"  for data in {data}; do\n"
        '    if [ -n "$(find "$data" -type f -print 2>/dev/null | head -n 1)" ]; then\n'
        '      echo "$data holds files of yours" >&2; exit 3\n'
        "    fi\n"
        "  done\n"
        f"  rm -rf {useless}\n"
        f'  for one in {homes}; do if [ -e "$one" ]; then set -- "$@" "$one"; fi; done\n'
        "done\n"
        f"for one in {' '.join(_OF_NODE)}; do\n"
        '  if [ -e "$one" ]; then set -- "$@" "$one"; fi\n'
        "done\n"
        # The watch script would end a node without a lease.
        f"pkill -STOP -f {RUN}/watch || true\n"
        f"mkdir -p {RUN}\n"
        f'tar -cf {ARCHIVE} -- "$@"\n'
        f"setsid sh -c {shlex.quote(f'sleep {BACK_SECONDS}; {back()}')} {_TIMER} "
        "</dev/null >/dev/null 2>&1 &\n"
        'rm -rf -- "$@"\n'
        "[ ! -d etc ] || : > etc/machine-id\n"
        "find var/log -xdev -type f -exec truncate -s 0 {} +\n"
        "sync\n"
    )


def back() -> str:
    """Return the script that restores these files; it may run again after an interruption."""
    return (
        "set -eu\numask 077\ncd /\n"
        f"if [ -s {ARCHIVE} ]; then tar -xpf {ARCHIVE}; fi\n"
        f"rm -f {ARCHIVE}\n"
        f"pkill -CONT -f {RUN}/watch || true\n"
    )


def _request_image(calls: Ec2Api, request: dict[str, Any]) -> str:
    """Request the image, and return its id.

    Raises:
        CloudError: EC2 does not make it, or failed after making it: then the error names the image.
    """
    try:
        return str(calls.call("ec2", "create_image", **request)["ImageId"])
    except CloudError as error:
        known = [] if error.code == _DUPLICATE else _find_images(calls, request["Name"])
        if not known:
            raise
        raise CloudError(
            f"{error.what}, yet the image {known[0]} exists, is billed, and may contain keys of "
            "the node",
            error.kind,
            error.code,
            remedy=_deletion(calls, known[0]),
        ) from error


def _find_images(calls: Ec2Api, name: str) -> list[str]:
    """Return the ids of our images with this name; empty if they cannot be listed."""
    filters = [{"Name": "name", "Values": [name]}, {"Name": "tag-key", "Values": [IMAGE]}]
    with contextlib.suppress(CloudError):
        answer = calls.call("ec2", "describe_images", Owners=["self"], Filters=filters)
        return [str(one["ImageId"]) for one in answer["Images"]]
    return []


def _await_disk(calls: Ec2Api, image: str, patience: ResourceRetries) -> None:
    """Wait until all snapshots of an image have begun: later writes are in none of them.

    Raises:
        CloudError: They have not within ``TAKEN_SECONDS``, or the image failed.
    """
    late = CloudError(
        f"EC2 did not copy the disk for {image} within {TAKEN_SECONDS:.0f} s, so the image was "
        "deleted",
        ErrorKind.UNKNOWN,
        remedy="bake it again, and check with `workbench sweep-leaks` that no snapshot is left.",
    )
    deadline = patience.until(TAKEN_SECONDS)
    while not _has_disk(calls, image):
        patience.wait(deadline, late)


def _has_disk(calls: Ec2Api, image: str) -> bool:
    try:
        found = _describe_image(calls, image)
        if found["State"] not in ("pending", "available"):
            reason = (found.get("StateReason") or {}).get("Message") or found["State"]
            raise CloudError(
                f"{image} failed ({reason})", ErrorKind.UNKNOWN, remedy="bake it again."
            )
        disks = [one["Ebs"] for one in found.get("BlockDeviceMappings", ()) if "Ebs" in one]
        ids = _snapshots(found)
        if not ids or len(ids) < len(disks):
            return False
        rows = calls.call("ec2", "describe_snapshots", SnapshotIds=ids)["Snapshots"]
    except CloudError as error:
        if error.is_early or error.code.startswith(_LATE) or error.kind is ErrorKind.THROTTLING:
            return False
        raise
    return len(rows) == len(ids) and all(row.get("StartTime") for row in rows)


def _undo(calls: Ec2Api, image: str, error: BaseException, patience: ResourceRetries) -> None:
    """Delete an image that may contain the node's keys; raise an error if that fails.

    Raises:
        CloudError: The image still exists.
    """
    try:
        patience.call("describe_images", {"ImageIds": [image]}, _LATE)
        discard(calls, image)
    except CloudError as kept:
        raise CloudError(
            f"The image {image} may contain keys of the node ({str(error).rstrip('.')}), and it "
            f"could not be deleted ({kept.what})",
            kept.kind,
            kept.code,
            remedy=_deletion(calls, image),
        ) from error


def _deletion(calls: Ec2Api, image: str) -> str:
    return (
        f"`workbench image delete {image} --region {calls.region}` deletes it, and `workbench "
        "sweep-leaks` lists what is left."
    )


def _as_root(session: Session, script: str) -> None:
    sudo = () if session.host.user == _ROOT else ("sudo", "-n")
    done = session.run([*sudo, "sh", "-s"], input=script, seconds=AWAY_SECONDS)
    if done.status == 3:
        raise MachineError(
            f"{done.errors.strip()} on {session.host.address}, which would be in the image",
            "bake from a new node without runs and data: `workbench up --ec2 --nodes 1 --cluster "
            "bake`, then `workbench image bake --cluster bake`.",
        )
    if done.status:
        reason = (done.errors.strip() or "no message").splitlines()[-1]
        raise MachineError(
            f"{session.host.address} could not be prepared for its image ({reason})",
            f"see {shlex.quote(ARCHIVE)} there, which has the files that were removed.",
        )


def _try(calls: Ec2Api, operation: str, request: dict[str, Any]) -> None:
    """Make a dry run of a call.

    Raises:
        CloudError: The call would fail.
    """
    try:
        calls.call("ec2", operation, **request, DryRun=True)
    except CloudError as error:
        if error.code != DRY_RUN:
            raise


def _describe_image(calls: Ec2Api, image: str) -> dict[str, Any]:
    return _only(calls, image, calls.call("ec2", "describe_images", ImageIds=[image]))


def _only(calls: Ec2Api, image: str, answer: dict[str, Any]) -> dict[str, Any]:
    found = answer["Images"]
    if not found:
        raise build_error("InvalidAMIID.NotFound", f"{image} is not in {calls.region}")
    one: dict[str, Any] = found[0]
    return one


def _snapshots(image: dict[str, Any]) -> list[str]:
    disks = [one.get("Ebs", {}) for one in image.get("BlockDeviceMappings", ())]
    return [str(disk["SnapshotId"]) for disk in disks if disk.get("SnapshotId")]
