"""Make images of nodes that are set up, without what is a node's own or a person's; delete them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.cloud import launch
from workbench.cloud.calls import Calls, refused
from workbench.cloud.preflight import DRY_RUN
from workbench.cloud.tags import CLUSTER, IMAGE, OWNER, read
from workbench.cloud.userdata import RUN
from workbench.core.refusal import Kind
from workbench.core.session import Session
from workbench.core.staging import DATA_ROOT, OUTPUT_ROOT
from workbench.errors import CloudRefused, MachineError

# In memory there: it is in no image.
STASH = f"{RUN}/bake.tar"
# Keys, leases, worlds and what a shell remembers; cloud-init's state is of this boot.
_OF_HOMES = (
    ".ssh", ".aws", ".workbench", ".local/state/workbench", ".bash_history", ".python_history",
)  # fmt: skip
_OF_NODE = ("etc/ssh/ssh_host_*", "etc/machine-id", "var/lib/cloud", "var/lib/systemd/random-seed")
_USELESS = (".cache",)
_ROOT = "root"
AWAY_SECONDS = 120.0
# Whoever began may be gone: then the node puts all back itself.
BACK_SECONDS = 300
_TIMER = "workbench-bake-timer"


@dataclass(frozen=True)
class Progress:
    """How far an image is.

    Args:
        state: ``pending``, ``available``, or what went wrong.
        percent: Of its disk, as far as EC2 says.
    """

    state: str
    percent: int = 0


def bake(
    calls: Calls, session: Session, id_: str, name: str, tags: Sequence[tuple[str, str]]
) -> str:
    """Begin to make an image of a node, and return its id; the node goes on as it was.

    Its disk is taken as it is at one moment. For that moment the node lacks what is its own and
    nobody can log in to it.

    Args:
        session: With the node; as root, or as somebody who may do all.
        tags: Of the image and its snapshots.

    Raises:
        CloudRefused: EC2 does not make it.
        MachineError: Something of a person's is there that cannot be taken off and put back.
    """
    request = {
        "InstanceId": id_,
        "Name": name,
        # Restarted, it would come up as a node that nobody knows.
        "NoReboot": True,
        "TagSpecifications": [*launch.tagged("image", tags), *launch.tagged("snapshot", tags)],
    }
    _try(calls, "create_image", request)
    try:
        _as_root(session, away())
        return str(calls.call("ec2", "create_image", **request)["ImageId"])
    finally:
        _as_root(session, back())


def progress(calls: Calls, image: str) -> Progress:
    """Return how far an image is.

    Raises:
        CloudRefused: There is none, or the place does not answer.
    """
    found = _described(calls, image)
    state = str(found["State"])
    if state != "pending":
        reason = (found.get("StateReason") or {}).get("Message", "")
        return Progress(state if state == "available" else reason or state, 100)
    ids = _snapshots(found)
    if not ids:
        return Progress(state)
    rows = calls.rows("ec2", "describe_snapshots", "Snapshots", SnapshotIds=ids)
    done = [int(str(row.get("Progress") or "0").rstrip("%") or 0) for row in rows]
    return Progress(state, min(done, default=0))


def discard(calls: Calls, image: str) -> tuple[str, ...]:
    """Delete an image that was baked, with its snapshots; return their ids.

    Raises:
        CloudRefused: It is none of ours, or something may not be deleted.
    """
    found = _described(calls, image)
    if IMAGE not in dict(read(found.get("Tags"))):
        raise CloudRefused(
            f"{image} was not baked by workbench, and stays; delete it in the console if it is "
            "really to go.",
            Kind.CONFIGURATION,
        )
    ids = _snapshots(found)
    calls.call("ec2", "deregister_image", ImageId=image)
    for id_ in ids:
        calls.call("ec2", "delete_snapshot", SnapshotId=id_)
    return tuple(ids)


def image_tags(cluster: str, owner: str) -> tuple[tuple[str, str], ...]:
    """Return what tells a baked image."""
    return ((IMAGE, cluster), *(((OWNER, owner),) if owner else ()))


def found_node(calls: Calls, id_: str, cluster: str) -> dict[str, Any]:
    """Return what EC2 says of a node of ``cluster``.

    Raises:
        CloudRefused: There is none, or the place does not answer.
    """
    rows = calls.rows("ec2", "describe_instances", "Reservations.Instances", InstanceIds=[id_])
    found = next(iter(rows), {})
    if dict(read(found.get("Tags"))).get(CLUSTER) != cluster:
        raise refused("InvalidInstanceID.NotFound", f"{id_} is no node of {cluster}")
    return found


def away() -> str:
    """Return the script that keeps aside what is the node's own or a person's; run as root."""
    homes = " ".join(f"$home/{name}" for name in _OF_HOMES)
    useless = " ".join(f'"$home/{name}"' for name in _USELESS)
    data = " ".join(f'"/$home/{root.removeprefix("~/")}"' for root in (DATA_ROOT, OUTPUT_ROOT))
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
        # Without a lease it would end the node.
        f"pkill -STOP -f {RUN}/watch || true\n"
        f"mkdir -p {RUN}\n"
        f'tar -cf {STASH} -- "$@"\n'
        f"setsid sh -c {shlex.quote(f'sleep {BACK_SECONDS}; {back()}')} {_TIMER} "
        "</dev/null >/dev/null 2>&1 &\n"
        'rm -rf -- "$@"\n'
        "[ ! -d etc ] || : > etc/machine-id\n"
        "find var/log -xdev -type f -exec truncate -s 0 {} +\n"
        "sync\n"
    )


def back() -> str:
    """Return the script that puts it back; also after one that was cut off."""
    return (
        "set -eu\numask 077\ncd /\n"
        f"if [ -s {STASH} ]; then tar -xpf {STASH}; fi\n"
        f"rm -f {STASH}\n"
        f"pkill -CONT -f {RUN}/watch || true\n"
    )


def _as_root(session: Session, script: str) -> None:
    sudo = () if session.host.user == _ROOT else ("sudo", "-n")
    done = session.run([*sudo, "sh", "-s"], input=script, seconds=AWAY_SECONDS)
    if done.status == 3:
        raise MachineError(
            f"{done.errors.strip()} on {session.host.address}, which would be in the image; bake "
            "from a node that has run nothing and was given no data: `workbench up --ec2 "
            "--nodes 1 --cluster bake`, then `workbench image bake --cluster bake`."
        )
    if done.status:
        said = (done.errors.strip() or "it said nothing").splitlines()[-1]
        raise MachineError(
            f"{session.host.address} could not be made ready for its image ({said}); see "
            f"{shlex.quote(STASH)} there, which has what was taken off."
        )


def _try(calls: Calls, operation: str, request: dict[str, Any]) -> None:
    """Make a call without doing anything.

    Raises:
        CloudRefused: It would not be done.
    """
    try:
        calls.call("ec2", operation, **request, DryRun=True)
    except CloudRefused as error:
        if error.code != DRY_RUN:
            raise


def _described(calls: Calls, image: str) -> dict[str, Any]:
    found = calls.call("ec2", "describe_images", ImageIds=[image])["Images"]
    if not found:
        raise refused("InvalidAMIID.NotFound", f"{image} is not in {calls.region}")
    one: dict[str, Any] = found[0]
    return one


def _snapshots(image: dict[str, Any]) -> list[str]:
    disks = [one.get("Ebs", {}) for one in image.get("BlockDeviceMappings", ())]
    return [str(disk["SnapshotId"]) for disk in disks if disk.get("SnapshotId")]
