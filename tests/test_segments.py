"""What MPI's libraries leave in shared memory is removed when a session of tests ends."""

from __future__ import annotations

import mmap
import os

from tests.conftest import SEGMENT_SECONDS, remove_segments


def test_segments_are_removed_that_are_old_and_that_no_process_has_mapped(tmp_path) -> None:
    names = "sm_segment.host.0.1", "mpich_shm_2_0", "sm_segment.mapped", "other"
    for name in names:
        (tmp_path / name).write_bytes(bytes(mmap.PAGESIZE))
        then = (tmp_path / name).stat().st_mtime - 2 * SEGMENT_SECONDS
        os.utime(tmp_path / name, (then, then))
    (tmp_path / "sm_segment.new").touch()

    with (tmp_path / "sm_segment.mapped").open("r+b") as file, mmap.mmap(file.fileno(), 0):
        remove_segments(tmp_path)

    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"sm_segment.mapped", "sm_segment.new", "other"}
