"""The files of arrays that are written in one pass are NumPy's own, and read without copies."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy
import pytest

from workbench.engine.snapshot.array_file import read_arrays, write_arrays
from workbench.engine.snapshot.folder import _Summed

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
    write_arrays(_Summed(file), values)
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
@pytest.mark.parametrize("is_kept", [True, False])
def test_what_was_written_is_read(name: str, *, is_kept: bool) -> None:
    """A kind of array is read as it was, as a copy or not."""
    found = read_arrays(bytearray(written()), lambda _: is_kept)

    assert is_same(found[name], VALUES[name])
    assert [*found] == [*VALUES]


@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed])
def test_files_of_numpy_are_read(save: Any) -> None:
    """A snapshot of an older version, or one that a user has repaired, is one."""
    file = io.BytesIO()
    save(file, **VALUES)

    found = read_arrays(bytearray(file.getvalue()), lambda _: False)

    assert all(
        is_same(found[name], one) and found[name].flags.aligned for name, one in VALUES.items()
    )


def test_arrays_that_are_not_kept_are_parts_of_the_content() -> None:
    """No memory is needed for them; the data are aligned, so that copies of them are fast."""
    content = numpy.frombuffer(bytearray(written()), "u1")

    found = read_arrays(content.data, lambda name: name == "scalar")

    assert numpy.shares_memory(found["matrix"], content)
    assert found["matrix"].flags.aligned
    assert not numpy.shares_memory(found["scalar"], content)


def test_the_archive_is_whole() -> None:
    """Other programs compare its own checksums."""
    assert zipfile.ZipFile(io.BytesIO(written())).testzip() is None


@pytest.mark.parametrize("content", [b"", b"no archive", written()[:-200]])
def test_another_file_is_refused(content: bytes) -> None:
    """A file that is no archive has no arrays."""
    with pytest.raises(ValueError, match="cannot be read"):
        read_arrays(content)
