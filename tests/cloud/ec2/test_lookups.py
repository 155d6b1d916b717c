from __future__ import annotations

from workbench.cloud.ec2.image_lookup import NAME, LookupCache


def test_the_successor_finds_what_was_looked_up(tmp_path):
    LookupCache(tmp_path)["one"] = "/parameter ami-1"

    assert dict(LookupCache(tmp_path)) == {"one": "/parameter ami-1"}


def test_an_invalid_file_is_looked_up_again(tmp_path):
    (tmp_path / NAME).write_text("[1")
    book = LookupCache(tmp_path)

    assert "one" not in book
    book["one"] = "two"
    assert dict(book) == {"one": "two"}


def test_the_next_cluster_of_a_name_looks_up_again(tmp_path):
    book = LookupCache(tmp_path)
    book["one"] = "two"

    book.discard()
    book.discard()

    assert list(book) == []
