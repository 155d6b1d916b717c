"""The disk of a folder is read from the kernel's list of mounts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.weekly import examples
from workbench.core.node.disks import Disk, Mount, mount_of

MOUNTS = r"""
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 27 0:40 / /users rw,relatime shared:1 - nfs4 server:/users rw,vers=4.2
41 40 0:41 / /users/me/local rw - xfs /dev/sdb rw
42 27 0:42 / /mnt/my\040cloud rw - fuse.sshfs me@there: rw
43 27 0:43 / /scratch rw - ext4 /dev/sdc rw
44 27 0:44 / /scratch rw - lustre mds:/scratch rw
45 27 0:45 / /usersly rw - tmpfs tmpfs rw
nonsense
"""


@pytest.mark.parametrize(
    ("path", "place", "kind", "shared"),
    [
        ("/", "/", "ext4", False),
        ("/var/lib", "/", "ext4", False),
        ("/users/me/.local/share/workbench", "/users", "nfs4", True),
        ("/users/me/local/workbench", "/users/me/local", "xfs", False),
        ("/usersly/workbench", "/usersly", "tmpfs", False),
        ("/mnt/my cloud/workbench", "/mnt/my cloud", "fuse.sshfs", True),
        ("/scratch/workbench", "/scratch", "lustre", True),  # the later mount hides the earlier
    ],
)
def test_a_folder_lies_on_the_nearest_mount_above_it(path, place, kind, shared) -> None:
    mount = mount_of(path, MOUNTS)

    assert mount == Mount(place, kind)
    assert mount.is_shared is shared


@pytest.mark.parametrize(
    "kind", ["nfs", "cifs", "smb3", "9p", "afs", "ceph", "gpfs", "fuse.glusterfs", "fuse.unheard"]
)
def test_what_machines_can_share_counts_as_shared(kind) -> None:
    assert Mount("/", kind).is_shared


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "fuseblk", "fuse.gocryptfs", ""]
)
def test_what_is_one_machines_own_does_not(kind) -> None:
    assert not Mount("/", kind).is_shared


@settings(derandomize=True, deadline=None, max_examples=examples(2_000))
@given(st.text(st.sampled_from("/ -\\0479aé\n:nfs"), max_size=200))
def test_no_list_of_mounts_is_too_odd(text) -> None:
    assert mount_of("/home", text).place.startswith("/")


def test_a_disk_says_how_much_is_free() -> None:
    disk = Disk(Mount("/data", "ext4"), 20_000_000_000, 12_000)

    assert str(disk) == "/data (ext4, 20 GB with 12 kB free)"
    assert disk.is_full
