"""NumPy's ``.npz`` files of whole trainings: written and read with one pass over each array.

``numpy.savez`` copies each array in pieces, under the interpreter's lock, which the training waits
for; ``numpy.load`` copies each twice, and sums up again what was checked when the file was read.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Literal, NamedTuple

import numpy
from numpy.lib import format as npy

from workbench.engine.snapshot.saved_bytes import Bytes, Place, SavedBytes, Spot, Spots, StateFile

Arrays = dict[str, Any]
"""NumPy arrays by name."""

_ALIGNMENT = 64
# At the end of a local header, the lengths of the name and of the extra field: APPNOTE.TXT, 4.3.7.
_LENGTHS, _LENGTHS_OFFSET, _HEADER_NBYTES = struct.Struct("<HH"), 26, 30
_SUFFIX = ".npy"


class _Plain(NamedTuple):
    """An array whose numbers are in the file as they are in memory."""

    start: int
    kind: Any
    shape: tuple[int, ...]
    order: Literal["C", "F"]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * int(self.kind.itemsize)


class ArrayFile(StateFile):
    """Arrays by name, where an entry has several; the name of an array itself is empty."""

    name = "state.npz"

    def flatten(self, values: Mapping[str, Any]) -> Arrays:
        """Return arrays by their names in the file."""
        flat: Arrays = {}
        for name, value in values.items():
            several = value if isinstance(value, Mapping) else {"": value}
            flat |= {f"{name}/{path}" if path else name: one for path, one in several.items()}
        return flat

    def write(self, values: Mapping[str, Any], file: IO[bytes]) -> None:
        """Write arrays as ``numpy.savez`` does, each at an aligned place of the file.

        Args:
            values: By the entry's name, and their own.
            file: At its beginning; it need not be able to seek.
        """
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, value in self.flatten(values).items():
                array = numpy.asanyarray(value)
                with archive.open(f"{name}{_SUFFIX}", "w", force_zip64=True) as entry:
                    if _is_plain(array):
                        entry.write(_header(array, _position(archive)))
                        entry.write(_bytes_of(array))
                    else:
                        npy.write_array(entry, array)

    def read(self, content: SavedBytes) -> dict[str, Any]:
        """Return arrays by the entry's name and their own.

        Raises:
            ValueError: It is no such file.
        """
        found: dict[str, Any] = {}
        for name, one in self.read_flat(content).items():
            entry, _, path = name.partition("/")
            found.setdefault(entry, {})[path] = one
        return found

    def read_flat(self, content: SavedBytes) -> Arrays:
        """Return arrays by their names in the file; see ``read``."""
        try:
            found: Arrays = {}
            with content.open() as file, zipfile.ZipFile(file) as archive:
                for name, entry, one in _scan(archive, file):
                    if one is None:
                        numbers = io.BytesIO(archive.read(entry))
                        found[name] = npy.read_array(numbers, allow_pickle=True)
                    elif not one.nbytes:
                        found[name] = numpy.empty(one.shape, one.kind)
                    else:
                        flat = content.take(one.start, one.nbytes).view(one.kind)
                        found[name] = flat.reshape(one.shape, order=one.order)
            return found
        except (zipfile.BadZipFile, struct.error, EOFError) as error:
            raise ValueError(f"its arrays cannot be read ({error})") from error

    def find_spots(self, content: SavedBytes) -> Spots:
        """Return where arrays are."""
        try:
            with content.open() as file, zipfile.ZipFile(file) as archive:
                return {
                    name: Spot(one.start, one.nbytes, _describe(one.kind, one.shape))
                    for name, _, one in _scan(archive, file)
                    if one is not None and one.order == "C"
                }
        except Exception:  # noqa: BLE001  # the checksum tells what is wrong
            return {}

    def find_places(self, values: Mapping[str, Any]) -> dict[str, Place]:
        """Return the memory of arrays of NumPy."""
        return {
            name: Place(_describe(one.dtype, one.shape), _bytes_of(one))
            for name, one in self.flatten(values).items()
            if isinstance(one, numpy.ndarray) and one.flags.writeable and _is_plain(one)
        }


ARRAYS = ArrayFile()


def _describe(kind: Any, shape: Sequence[int]) -> str:
    """Return what an array has to be, to be overwritten by the bytes of another one."""
    return f"{npy.dtype_to_descr(kind)} {shape}"


def _scan(
    archive: zipfile.ZipFile, file: IO[bytes]
) -> Iterator[tuple[str, zipfile.ZipInfo, _Plain | None]]:
    """Yield the name of each array, its entry, and where it is; None if it must be unpacked."""
    for entry in archive.infolist():
        yield entry.filename.removesuffix(_SUFFIX), entry, _find_plain(file, entry)


def data_start(file: IO[bytes], entry: zipfile.ZipInfo) -> int:
    """Return where the bytes of an entry of a zip file begin."""
    file.seek(entry.header_offset + _LENGTHS_OFFSET)
    name, extra = _LENGTHS.unpack(file.read(_LENGTHS.size))
    return int(entry.header_offset + _HEADER_NBYTES + name + extra)


def _find_plain(file: IO[bytes], entry: zipfile.ZipInfo) -> _Plain | None:
    if entry.compress_type != zipfile.ZIP_STORED:
        return None
    file.seek(data_start(file, entry))
    if npy.read_magic(file) != (1, 0):
        return None
    shape, is_fortran, kind = npy.read_array_header_1_0(file)
    return None if kind.hasobject else _Plain(file.tell(), kind, shape, "F" if is_fortran else "C")


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


def _bytes_of(array: Any) -> Bytes:
    return array.reshape(-1).view("u1")
