"""Which data a node lacks, where it is stored, and how progress is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.node.staging import (
    LEAST_AHEAD_NBYTES,
    MOST_AHEAD_NBYTES,
    StagedFile,
    StagingEntry,
    ahead_nbytes,
    check_entries,
    check_folder_name,
    check_path,
    data_folder,
    find_missing,
    find_outdated,
    parse_bucket,
    progress_text,
    ranges,
    relative_key,
    sending_text,
    total_nbytes,
)
from workbench.errors import InputError

names = st.text("abc.é", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
entries = st.lists(
    st.builds(StagingEntry, paths, st.integers(0, 10**12), st.text("0123", min_size=1, max_size=3)),
    unique_by=lambda entry: entry.path,
)


@given(entries, st.data())
def test_what_is_missing_and_what_is_held_are_all_there_is(wanted, data):
    held = data.draw(st.lists(st.sampled_from(wanted), unique=True)) if wanted else []
    known = {entry.path: StagedFile(entry, 1) for entry in held}

    lacking = {wanted[number] for number in find_missing(wanted, known)}

    assert lacking.isdisjoint(held)
    assert lacking | set(held) == set(wanted)
    assert total_nbytes(lacking) + total_nbytes(held) == total_nbytes(wanted)


@given(entries, entries)
def test_after_one_staging_over_another_the_node_has_the_second_alone(before, after):
    held = {entry.path: StagedFile(entry, 1) for entry in before}

    for path in find_outdated(after, held):
        del held[path]
    held |= {after[n].path: StagedFile(after[n], 2) for n in find_missing(after, held)}

    assert {known.entry for known in held.values()} == set(after)
    assert find_missing(after, held) == []
    assert find_outdated(after, held) == []


@given(st.integers(0, 10_000), st.integers(1, 300))
def test_the_pieces_of_a_file_are_the_file(nbytes, size):
    pieces = ranges(nbytes, size)

    assert sum(length for _, length in pieces) == nbytes
    assert [offset for offset, _ in pieces] == list(range(0, nbytes, size))


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "./a", "a\0b"])
def test_a_path_that_could_lead_elsewhere_is_refused(path):
    with pytest.raises(InputError, match="cannot be a file of the data"):
        check_path(path)


@given(paths)
def test_a_path_within_the_data_is_taken(path):
    assert check_path(path) == path


def test_a_manifest_that_can_be_no_folder_is_refused():
    with pytest.raises(InputError, match="'a' is a file of the data and a folder too"):
        check_entries([StagingEntry("a", 1, "x"), StagingEntry("a/b/c", 1, "y")])
    with pytest.raises(InputError, match="names a file twice"):
        check_entries([StagingEntry("a", 1, "x"), StagingEntry("a", 2, "y")])


@pytest.mark.parametrize(
    ("url", "parsed"),
    [
        ("s3://bucket", ("bucket", "")),
        ("s3://bucket/", ("bucket", "")),
        ("s3://my.bucket-1/a/b", ("my.bucket-1", "a/b")),
        ("s3://bucket/a/b/", ("bucket", "a/b")),
    ],
)
def test_a_place_in_s3_is_a_bucket_and_a_prefix(url, parsed):
    assert parse_bucket(url) == parsed


@pytest.mark.parametrize(
    "url",
    ["s3:", "s3://", "s3:/bucket", "s3://B", "s3://x", "s3://a..b", "s3://b1a/a//b", "s3://b$"],
)
def test_what_is_no_place_in_s3_is_refused_in_one_sentence(url):
    with pytest.raises(InputError, match=r"is not a place in S3; write s3://bucket/prefix\.$"):
        parse_bucket(url)


@pytest.mark.parametrize("place", ["gs://bucket/x", "https://x", "S3://bucket", "s3/bucket"])
def test_a_place_of_another_kind_is_no_folder(place):
    with pytest.raises(InputError, match="is neither a folder nor a place in S3"):
        check_folder_name(place)


@pytest.mark.parametrize(
    ("key", "prefix", "path"),
    [
        ("a/b.txt", "", "a/b.txt"),
        ("data/a.txt", "data", "a.txt"),
        ("data2/a.txt", "data", ""),
        ("data/", "data", ""),
        ("x/digits.npz", "x/digits.npz", "digits.npz"),
    ],
)
def test_a_key_becomes_a_path_within_the_data(key, prefix, path):
    assert relative_key(key, prefix) == path


def test_data_of_another_machine_or_bucket_has_a_folder_of_its_own():
    found = {data_folder("c", source) for source in ("one:/data", "two:/data", "s3://bucket/data")}

    assert len(found) == 3
    assert all(place.startswith("~/workbench-data/c-") for place in found)


def test_how_far_it_is_is_one_sentence():
    assert progress_text(1_200_000_000, 3_400_000_000, 110e6) == (
        "Data: 1.2 of 3.4 GB, 35 %, 110 MB/s"
    )
    assert progress_text(0, 3_400_000_000, 0.0) == "Data: 0 B of 3.4 GB, 0 %"
    assert progress_text(0, 0, 0.0) == "Data: 0 of 0 B, 100 %"


@given(st.floats(0, 1e12))
def test_no_more_is_on_its_way_than_the_node_takes_in_half_a_second(rate):
    assert LEAST_AHEAD_NBYTES <= ahead_nbytes(rate) <= MOST_AHEAD_NBYTES
    assert ahead_nbytes(rate) <= max(LEAST_AHEAD_NBYTES, rate / 2)


def test_it_is_said_how_long_much_data_is_on_its_way() -> None:
    assert sending_text(1_000_000) == ""
    assert sending_text(5_000_000_000).startswith(
        "The data, 5 GB, goes from this computer to the first node, and from there to the "
        "others: 33 min at 20 Mbit/s, 6 min 40 s at 100 Mbit/s, before the first step."
    )
