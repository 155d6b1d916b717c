"""The file of a snapshot with PyTorch's values, whose tensors are read where they stay."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

import torch
from torch.serialization import skip_data

from workbench.engine.snapshot.array_file import data_start
from workbench.engine.snapshot.saved_bytes import Bytes, Place, SavedBytes, Spot, Spots, StateFile
from workbench.frameworks.torch.device_copies import COPIES
from workbench.frameworks.torch.pieces import bytes_of, is_divided

_DATA = "/data/"


class TensorFile(StateFile):
    """A dictionary that ``torch.load`` returns."""

    name = "state.pt"

    def write(self, values: Mapping[str, Any], file: IO[bytes]) -> None:
        """Write the values, once they have come from GPUs."""
        COPIES.wait()
        torch.save(dict(values), file)

    def read(self, content: SavedBytes) -> dict[str, Any]:
        """Return the values, with their tensors in host memory."""

        def storage_of(start: int, nbytes: int, storage: Any) -> Any:
            return _storage_of(content.take(start, nbytes))

        try:
            return _load(content, storage_of, is_safe=True)
        except pickle.UnpicklingError:  # a state_dict with an object of the user's own
            return _load(content, storage_of, is_safe=False)

    def find_spots(self, content: SavedBytes) -> Spots:
        """Return where tensors are."""
        starts: dict[int, tuple[int, int]] = {}

        def storage_of(start: int, nbytes: int, storage: Any) -> Any:
            starts[storage.data_ptr()] = start, nbytes
            return storage

        try:
            values = _load(content, storage_of, is_safe=True)
        except Exception:  # noqa: BLE001  # the checksum tells what is wrong
            return {}
        found = {}
        for name, one in _plain_tensors(values):
            start, nbytes = starts[one.untyped_storage().data_ptr()]
            if one.nbytes == nbytes:
                found[name] = Spot(start, nbytes, _describe(one))
        return found

    def find_places(self, values: Mapping[str, Any]) -> dict[str, Place]:
        """Return the memory of tensors in host memory."""
        return {
            name: Place(_describe(one), bytes_of(one.detach()))
            for name, one in _plain_tensors(values)
            if one.device.type == "cpu"
        }


TENSORS = TensorFile()


def _load(
    content: SavedBytes, storage_of: Callable[[int, int, Any], Any], *, is_safe: bool
) -> dict[str, Any]:
    """Return the values of a file, for whose tensors nothing is read.

    Args:
        storage_of: Returns a tensor's memory, from its place in the file, its size, and new memory
            that could be it.
        is_safe: Whether only objects of PyTorch are allowed.
    """
    with content.open() as file:
        records = iter(_find_records(file))

        def locate(storage: Any, _: str) -> Any:
            if not (nbytes := storage.nbytes()):
                return storage
            start, there = next(records)  # PyTorch numbers them as it meets them
            if there != nbytes:
                raise ValueError(f"a tensor has {there:,} of {nbytes:,} bytes")
            return storage_of(start, nbytes, storage)

        with skip_data():
            return dict(torch.load(file, map_location=locate, weights_only=is_safe))


def _find_records(file: IO[bytes]) -> list[tuple[int, int]]:
    """Return start and size of what tensors have, by its number."""
    with zipfile.ZipFile(file) as archive:
        found = sorted(
            (int(one.filename.rpartition("/")[2]), data_start(file, one), one.file_size)
            for one in archive.infolist()
            if _DATA in one.filename and one.file_size
        )
    file.seek(0)
    return [(start, nbytes) for _, start, nbytes in found]


def _storage_of(memory: Bytes) -> Any:
    # A tensor's own storage shows PyTorch that there is nothing to copy.
    is_tensor = isinstance(memory.base, torch.Tensor)
    return (memory.base if is_tensor else torch.from_numpy(memory)).untyped_storage()


def _plain_tensors(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the tensors in nested dictionaries that have memory of their own."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _plain_tensors(one, f"{name}/{key}")
    elif (
        isinstance(value, torch.Tensor)
        and not is_divided(value)
        and not value.is_meta
        and value.layout == torch.strided
        and value.is_contiguous()
        and value.nbytes == value.untyped_storage().nbytes() > 0
    ):
        yield name, value


def _describe(tensor: Any) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)}"
