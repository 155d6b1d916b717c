"""NumPy's ``.npz`` files of whole trainings: written and read with one pass over each array.

``numpy.savez`` copies each array in pieces, under the interpreter's lock, which the training waits
for; ``numpy.load`` copies each twice, and sums up again what was checked when the file was read.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy
from numpy.lib import format as npy

Arrays = dict[str, Any]
"""NumPy arrays by name."""

_ALIGNMENT = 64
# At the end of a local header, the lengths of the name and of the extra field: APPNOTE.TXT, 4.3.7.
_LENGTHS, _LENGTHS_OFFSET, _HEADER_NBYTES = struct.Struct("<HH"), 26, 30
_SUFFIX = ".npy"


def write_arrays(file: IO[bytes], values: Mapping[str, Any]) -> None:
    """Write arrays as ``numpy.savez`` does, each at an aligned place of the file.

    Args:
        file: At its beginning; it need not be able to seek.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, value in values.items():
            array = numpy.asanyarray(value)
            with archive.open(f"{name}{_SUFFIX}", "w", force_zip64=True) as entry:
                if _is_plain(array):
                    entry.write(_header(array, _position(archive)))
                    entry.write(_bytes_of(array))
                else:
                    npy.write_array(entry, array)


def read_arrays(content: Any, is_kept: Callable[[str], bool] = lambda name: True) -> Arrays:
    """Return the arrays in the bytes of a file.

    Args:
        content: A buffer of bytes whose checksum was compared.
        is_kept: Whether an array of this name is a copy; else it may be a part of ``content``,
            which then stays in memory for as long as the array does.

    Raises:
        ValueError: It is no such file.
    """
    view = memoryview(content).cast("B")
    try:
        with zipfile.ZipFile(view_file(view)) as archive:
            return {
                name: _array(archive, one, view, is_copy=is_kept(name))
                for one in archive.infolist()
                for name in (one.filename.removesuffix(_SUFFIX),)
            }
    except (zipfile.BadZipFile, struct.error, EOFError) as error:
        raise ValueError(f"its arrays cannot be read ({error})") from error


def _array(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, view: memoryview, *, is_copy: bool
) -> Any:
    if entry.compress_type != zipfile.ZIP_STORED:
        return npy.read_array(io.BytesIO(archive.read(entry)), allow_pickle=True)
    lengths = entry.header_offset + _LENGTHS_OFFSET
    start = entry.header_offset + _HEADER_NBYTES + sum(_LENGTHS.unpack_from(view, lengths))
    data = view[start : start + entry.file_size]
    file = view_file(data)
    version = npy.read_magic(file)
    if version != (1, 0):
        return npy.read_array(io.BytesIO(data), allow_pickle=True)
    shape, is_fortran, kind = npy.read_array_header_1_0(file)
    if kind.hasobject:
        return npy.read_array(io.BytesIO(data), allow_pickle=True)
    count = int(numpy.prod(shape, dtype=numpy.int64))
    flat = numpy.frombuffer(data, kind, count, file.tell()) if count else numpy.empty(0, kind)
    flat = flat.copy() if is_copy or not flat.flags.aligned else flat
    return flat.reshape(shape, order="F" if is_fortran else "C")


def _position(archive: zipfile.ZipFile) -> int:
    """Return how much has been written; the archive counts where the file cannot tell."""
    return 0 if archive.fp is None else archive.fp.tell()


def _is_plain(array: Any) -> bool:
    return not array.dtype.hasobject and array.flags.c_contiguous and array.nbytes > 0


def _header(array: Any, offset: int) -> bytes:
    """Return an array's header; its data follow it.

    Args:
        offset: Of the header in the file.
    """
    file = io.BytesIO()
    npy.write_array_header_1_0(file, npy.header_data_from_array_1_0(array))
    header = file.getvalue()
    prefix = npy.MAGIC_LEN + 2  # and the length of the rest
    rest = header[prefix:].rstrip()
    padding = -(offset + prefix + len(rest) + 1) % _ALIGNMENT
    rest += b" " * padding + b"\n"
    return header[: npy.MAGIC_LEN] + struct.pack("<H", len(rest)) + rest


def _bytes_of(array: Any) -> Any:
    return memoryview(array.reshape(-1).view("u1"))


def view_file(view: memoryview) -> io.BufferedReader:
    """Return a file whose content is a buffer, which is not copied."""
    return io.BufferedReader(_Viewed(view))


class _Viewed(io.RawIOBase):
    """A file whose content is a buffer, which is not copied."""

    def __init__(self, view: memoryview) -> None:
        self._view, self._at = view, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, origin: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._view)}[origin]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        found = self._view[self._at : self._at + len(buffer)]
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)
