"""A region's types are listed once a day, by the first process that needs them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from workbench.cloud.ec2.inventory import InstanceType
from workbench.cloud.ec2.list_prices import KEPT_SECONDS
from workbench.cloud.ec2.offers import TypeBook

KIND = InstanceType("c5.large", 2, 1, 4.0, 0, "", 0.0, 0.75, 10.0)
KINDS = [KIND, replace(KIND, type="t3.large", sustained=0.3, credits=True, placement=False)]


@pytest.mark.parametrize(
    ("after", "kept"), [(0.0, True), (KEPT_SECONDS - 1, True), (KEPT_SECONDS, False), (-1, False)]
)
def test_types_are_kept_for_a_day_for_every_process(tmp_path: Path, after, kept) -> None:
    TypeBook(tmp_path / "types", "us-east-1").write(KINDS, 1000.0)

    assert TypeBook(tmp_path / "types", "us-east-1").read(1000.0 + after) == KINDS * kept
    assert TypeBook(tmp_path / "types", "eu-west-1").read(1000.0) == []
    assert len(list((tmp_path / "types").iterdir())) == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"at": 1000, "fields": []}', "\ud800"])
def test_a_file_that_does_not_say_them_is_as_good_as_none(tmp_path: Path, text) -> None:
    book = TypeBook(tmp_path, "us-east-1")
    (tmp_path / "types-us-east-1.json").write_bytes(text.encode("utf-8", "surrogatepass"))

    assert book.read(1000.0) == []
    book.write(KINDS, 1000.0)
    assert book.read(1000.0) == KINDS


def test_a_file_of_a_release_that_knew_less_is_not_read(tmp_path: Path) -> None:
    book = TypeBook(tmp_path, "us-east-1")
    book.write(KINDS, 1000.0)
    path = tmp_path / "types-us-east-1.json"
    kept = json.loads(path.read_text())
    path.write_text(json.dumps(kept | {"fields": kept["fields"][:-1]}))

    assert book.read(1000.0) == []


def test_where_nothing_can_be_written_they_are_asked_for_each_time(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    book = TypeBook(tmp_path / "file", "us-east-1")

    book.write(KINDS, 1000.0)

    assert book.read(1000.0) == []
    assert TypeBook(None, "us-east-1").read(1000.0) == []
