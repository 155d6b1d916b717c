"""Find the file system of a folder in the list of mounts, and whether machines share it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from workbench.core.units import size_text

# Several machines may mount such a file system at once.
_NETWORK = {
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "exfs", "gfs", "gfs2",
    "glusterfs", "gpfs", "kafs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs",
    "prl_fs", "pvfs2", "smb", "smb2", "smb3", "smbfs", "stornext", "vboxsf", "virtiofs",
    "vmhgfs", "wekafs",
}  # fmt: skip
# Unknown FUSE file systems count as shared, which is the safe assumption.
_FUSE_HERE = {
    "bindfs", "cryfs", "encfs", "exfat", "ext2", "ext3", "ext4", "fuse-overlayfs", "gocryptfs",
    "lxcfs", "mergerfs", "ntfs", "ntfs-3g", "squashfuse", "unionfs", "unionfs-fuse", "zfs",
}  # fmt: skip
FULL_NBYTES = 256 << 10


@dataclass(frozen=True)
class Mount:
    """The mount point and the kind of a file system."""

    place: str
    kind: str

    @property
    def is_shared(self) -> bool:
        """Whether another machine may have it mounted too."""
        family, _, name = self.kind.partition(".")
        if family == "fuse":
            return name not in _FUSE_HERE
        return family in _NETWORK


@dataclass(frozen=True)
class Disk:
    """The disk of a folder.

    Args:
        size: Its size in bytes.
        free: Free bytes.
    """

    mount: Mount
    size: int
    free: int

    @property
    def is_full(self) -> bool:
        """Whether it has almost no free space."""
        return self.free < FULL_NBYTES

    def __str__(self) -> str:
        kind = f"{self.mount.kind}, " if self.mount.kind else ""
        size = size_text(self.size)
        return f"{self.mount.place} ({kind}{size} with {size_text(self.free)} free)"


def mount_of(path: str, mounts: str) -> Mount:
    """Return the mount of an absolute, resolved path.

    Args:
        path: The path.
        mounts: The text of ``/proc/self/mountinfo``; lines that cannot be read are skipped.
    """
    found, depth = Mount("/", ""), 0
    for line in mounts.splitlines():
        before, dash, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if not dash or len(fields) < 5 or not kinds[0]:
            continue
        place = PurePosixPath(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4]))
        # Of two mounts on one path, the later one hides the other.
        if PurePosixPath(path).is_relative_to(place) and len(place.parts) >= depth:
            found, depth = Mount(str(place), kinds[0]), len(place.parts)
    return found
