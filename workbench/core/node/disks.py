"""Find the file system of a folder in the list of mounts, and what may be kept there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from workbench.core.units import size_text

# Several machines may have such a file system mounted at once.
_NETWORK = {
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "exfs", "gfs", "gfs2",
    "glusterfs", "gpfs", "kafs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs",
    "prl_fs", "pvfs2", "smb", "smb2", "smb3", "smbfs", "stornext", "vboxsf", "virtiofs",
    "vmhgfs", "wekafs",
}  # fmt: skip
# FUSE file systems of a name that is not known count as shared: that is the safe side.
_FUSE_HERE = {
    "bindfs", "cryfs", "encfs", "exfat", "ext2", "ext3", "ext4", "fuse-overlayfs", "gocryptfs",
    "lxcfs", "mergerfs", "ntfs", "ntfs-3g", "squashfuse", "unionfs", "unionfs-fuse", "zfs",
}  # fmt: skip
FULL_NBYTES = 256 << 10


@dataclass(frozen=True)
class Mount:
    """Where a file system is mounted, and of what kind it is."""

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
    """What a folder lies on.

    Args:
        size: Bytes in all.
        free: Bytes that may still be written.
    """

    mount: Mount
    size: int
    free: int

    @property
    def is_full(self) -> bool:
        """Whether hardly anything can be written."""
        return self.free < FULL_NBYTES

    def __str__(self) -> str:
        kind = f"{self.mount.kind}, " if self.mount.kind else ""
        size = size_text(self.size)
        return f"{self.mount.place} ({kind}{size} with {size_text(self.free)} free)"


def mount_of(path: str, mounts: str) -> Mount:
    """Return the mount that an absolute, resolved path lies on.

    Args:
        path: The path.
        mounts: The text of ``/proc/self/mountinfo``; what cannot be read in it is passed over.
    """
    found, depth = Mount("/", ""), 0
    for line in mounts.splitlines():
        before, dash, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if not dash or len(fields) < 5 or not kinds[0]:
            continue
        place = PurePosixPath(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4]))
        # Of two on one place the later one hides the other.
        if PurePosixPath(path).is_relative_to(place) and len(place.parts) >= depth:
            found, depth = Mount(str(place), kinds[0]), len(place.parts)
    return found
