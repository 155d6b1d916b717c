"""The folder of a world's shared memory."""

from __future__ import annotations

import os

import pytest

from workbench.cluster import leftovers
from workbench.cluster.leftovers import (
    LeftoverProcesses,
    left_marks,
    segment_folder,
    segment_settings,
)

# Other tests run beside this one, and look for processes with their own marks.
MARK = f"{os.getpid():012x}.3"
OTHER = f"{os.getpid():012x}.4"


@pytest.fixture(autouse=True)
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "SHARED_MEMORY", tmp_path)
    return tmp_path


def test_a_worlds_segments_have_a_folder_that_only_its_owner_reads() -> None:
    settings = segment_settings(MARK)

    folder = segment_folder(MARK)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert settings["OMPI_MCA_btl_sm_backing_directory"] == str(folder)
    assert segment_settings(MARK) == settings  # by the next rank


def test_a_folder_that_others_may_enter_is_not_used() -> None:
    segment_folder(MARK).mkdir(mode=0o755)

    assert segment_settings(MARK) == {}


def test_a_link_is_not_used(tmp_path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    segment_folder(MARK).symlink_to(tmp_path / "elsewhere")

    assert segment_settings(MARK) == {}


def test_without_shared_memory_open_mpi_chooses_itself(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(leftovers, "SHARED_MEMORY", tmp_path / "absent")

    assert segment_settings(MARK) == {}


def test_segments_go_with_the_last_process_of_their_world() -> None:
    segment_settings(MARK)
    (segment_folder(MARK) / "sm_segment").touch()
    segment_settings(OTHER)

    assert LeftoverProcesses(MARK).press(0.0)
    assert LeftoverProcesses("").press(0.0)

    assert not segment_folder(MARK).exists()
    assert segment_folder(OTHER).exists()


def test_the_worlds_of_one_cluster_that_left_a_folder_are_found() -> None:
    segment_folder(f"{MARK}.1").mkdir()
    segment_folder(f"{MARK}.12").mkdir()
    try:
        assert left_marks(MARK) == [f"{MARK}.1", f"{MARK}.12"]
        assert left_marks(f"{MARK}.1") == []
    finally:
        segment_folder(f"{MARK}.1").rmdir()
        segment_folder(f"{MARK}.12").rmdir()
