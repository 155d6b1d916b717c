"""The files of arrays that are written in one pass are NumPy's own, and read without copies."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy
import pytest

from workbench.engine.snapshot.array_file import ARRAYS
from workbench.engine.snapshot.folder import _Summed
from workbench.engine.snapshot.saved_bytes import make_room, view

VALUES: dict[str, Any] = {
    "matrix": numpy.arange(12.0).reshape(3, 4),
    "transposed": numpy.asfortranarray(numpy.arange(6, dtype="f").reshape(2, 3)),
    "strided": numpy.arange(20).reshape(10, 2)[::2],
    "empty": numpy.empty((0, 4)),
    "scalar": numpy.asarray(3.5),
    "none": numpy.asarray(None),
    "text": numpy.array(["one", "three"]),
    "record": numpy.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    "half": numpy.ones(3, "e"),
}


def written(values: dict[str, Any] = VALUES) -> bytes:
    file = io.BytesIO()
    ARRAYS.write(values, _Summed(file))
    return file.getvalue()


def is_same(one: Any, other: Any) -> bool:
    same = (one.dtype, one.shape) == (other.dtype, other.shape)
    return bool(same and (one == other).all())


@pytest.mark.parametrize("name", VALUES)
def test_numpy_reads_what_was_written(name: str) -> None:
    """A kind of array is the same for plain ``numpy.load``."""
    with numpy.load(io.BytesIO(written()), allow_pickle=True) as arrays:
        found = arrays[name]

    assert is_same(found, VALUES[name])


@pytest.mark.parametrize("name", VALUES)
def test_what_was_written_is_read(name: str) -> None:
    """A kind of array is read as it was."""
    found = ARRAYS.read_flat(view(written()))

    assert is_same(found[name], VALUES[name])
    assert [*found] == [*VALUES]


@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed])
def test_files_of_numpy_are_read(save: Any) -> None:
    """A snapshot of an older version, or one that a user has repaired, is one."""
    file = io.BytesIO()
    save(file, **VALUES)

    found = ARRAYS.read_flat(view(file.getvalue()))

    assert all(
        is_same(found[name], one) and found[name].flags.aligned for name, one in VALUES.items()
    )


def fill(content: bytes, places: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays of a file whose bytes come into present arrays where they fit."""
    room = make_room(len(content), ARRAYS.find_spots(view(content)), ARRAYS.find_places(places))
    given = memoryview(content)
    for message in room.messages():
        message[:] = numpy.frombuffer(given[: len(message)], "u1")
        given = given[len(message) :]
    assert not given
    return ARRAYS.read_flat(room)


LARGE = {
    "first": numpy.arange(60_000.0).reshape(2, -1),
    "small": numpy.arange(5),
    "last": numpy.arange(70_000, dtype="i8"),
}


def test_large_arrays_come_into_those_that_are_there() -> None:
    """Nothing is copied, and no new memory is needed."""
    present = {name: numpy.zeros_like(one) for name, one in LARGE.items()}

    found = fill(written(LARGE), present)

    for name, one in LARGE.items():
        assert is_same(found[name], one)
        assert numpy.shares_memory(found[name], present[name]) == (name != "small")


@pytest.mark.parametrize(
    "other",
    [
        numpy.zeros((2, 30_000), "f4"),
        numpy.zeros((2, 30_000), "i8"),
        numpy.zeros((30_000, 2)),
        numpy.zeros((30_000, 2)).T,
        numpy.broadcast_to(0.0, (2, 30_000)),
        "a text",
    ],
    ids=["narrower", "of integers", "of another shape", "transposed", "read only", "no array"],
)
def test_an_array_of_another_kind_is_left_alone(other: Any) -> None:
    """What refuses the snapshot later sees what it was saved from."""
    before = numpy.copy(other)

    found = fill(written(LARGE), {"first": other})

    assert is_same(found["first"], LARGE["first"])
    assert (other == before).all()


def test_one_array_of_two_names_is_overwritten_once() -> None:
    """Ranks read ahead of what they send."""
    one = numpy.zeros((2, 30_000))
    values = {"first": LARGE["first"], "again": LARGE["first"] + 1}

    found = fill(written(values), {"first": one, "again": one})

    assert all(is_same(found[name], value) for name, value in values.items())


@pytest.mark.parametrize("content", [b"", b"no archive", written()[:-200]])
def test_a_file_that_is_damaged_has_no_places(content: bytes) -> None:
    """Its checksum is what tells."""
    assert ARRAYS.find_spots(view(content)) == {}


def test_the_archive_is_whole() -> None:
    """Other programs compare its own checksums."""
    assert zipfile.ZipFile(io.BytesIO(written())).testzip() is None


@pytest.mark.parametrize("content", [b"", b"no archive", written()[:-200]])
def test_another_file_is_refused(content: bytes) -> None:
    """A file that is no archive has no arrays."""
    with pytest.raises(ValueError, match="cannot be read"):
        ARRAYS.read_flat(view(content))
