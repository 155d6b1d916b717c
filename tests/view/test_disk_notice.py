"""A full disk is reported once, and once that it has free space again."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

from workbench.view.following import LOOK_SECONDS, DiskRoom


def test_a_full_disk_and_its_end_are_reported_once_each(tmp_path, monkeypatch) -> None:
    room, free, said = DiskRoom(tmp_path / "store.sqlite3"), [1 << 40], []
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: SimpleNamespace(free=free[0], total=1 << 41)
    )

    for moment, free[0] in enumerate([1 << 40, 0, 0, 0, 1 << 40, 1 << 40]):
        said.append(room.look(moment * LOOK_SECONDS))

    assert [bool(sentence) for sentence in said] == [False, True, False, False, True, False]
    assert said[1].startswith(f"The disk of {tmp_path} is full: ")
    assert said[4] == f"The disk of {tmp_path} has free space again."
