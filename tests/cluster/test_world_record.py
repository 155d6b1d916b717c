"""Worlds on several hosts are written down for a successor."""

from __future__ import annotations

from workbench.cluster.world_record import WorldRecord, read_records, write_records
from workbench.core.world.world import Host, World

WORLD = World((Host("10.0.0.1", 1, "me", 2222), Host("10.0.0.2", 2)), 3)


def test_a_successor_reads_what_was_written_down(tmp_path) -> None:
    records = [
        WorldRecord(1, WORLD, ".workbench/a/g1", 42),
        WorldRecord(2, WORLD, ".workbench/a/g2"),
    ]

    write_records(tmp_path / "worlds.json", records)

    assert read_records(tmp_path / "worlds.json") == records


def test_without_worlds_there_is_no_file(tmp_path) -> None:
    write_records(tmp_path / "worlds.json", [WorldRecord(1, WORLD, "f")])

    write_records(tmp_path / "worlds.json", [])

    assert list(tmp_path.iterdir()) == []
    assert read_records(tmp_path / "worlds.json") == []


def test_a_file_that_cannot_be_read_holds_nothing(tmp_path) -> None:
    (tmp_path / "worlds.json").write_text("[{")

    assert read_records(tmp_path / "worlds.json") == []
