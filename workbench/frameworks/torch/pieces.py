"""How what is divided among ranks is saved: the ``DTensor`` of FSDP2, HSDP and tensor parallelism.

Each part of a snapshot is a checkpoint of ``torch.distributed.checkpoint``, whose planner decides
on any number of ranks which bytes each one reads. A part of a run on one node has everything, so
``torch.distributed.checkpoint.load`` reads it too. In ``state.pt`` a tensor on the device ``meta``
stands for each that is divided.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

import torch

from workbench.engine.snapshot.folder import Write
from workbench.engine.snapshot.pieces import (
    HeldPiece,
    Layout,
    PieceFormat,
    PieceRequest,
    SavedPieces,
)
from workbench.engine.snapshot.saved_bytes import Bytes, view
from workbench.frameworks.torch.device_copies import COPIES

_METADATA = ".metadata"
_SUFFIX = ".distcp"


def is_divided(value: Any) -> bool:
    """Return whether a value is divided among the ranks."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def find_divided(value: Any, name: str = "") -> dict[str, Any]:
    """Return the divided tensors in nested dictionaries, by the names of their keys."""
    if is_divided(value):
        return {name: value.detach()}
    if not isinstance(value, dict):
        return {}
    found: dict[str, Any] = {}
    for key, one in value.items():
        found |= find_divided(one, f"{name}.{key}" if name else str(key))
    return found


def leave_out(tensor: Any) -> Any:
    """Return what stands for a tensor that is saved elsewhere."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")


def is_left_out(value: Any) -> bool:
    """Return whether a value stands for a divided tensor."""
    return isinstance(value, torch.Tensor) and value.is_meta


def find_left_out(values: Mapping[str, Any]) -> list[str]:
    """Return the names of the tensors that were divided."""
    return [name for name, one in values.items() if is_left_out(one)]


def new_like(left_out: Any, parameter: Any) -> Any:
    """Return a new tensor for what an optimizer keeps of a parameter."""
    if left_out.shape == parameter.shape:
        return torch.empty_like(parameter.detach(), dtype=left_out.dtype)
    whole = torch.empty(left_out.shape, dtype=left_out.dtype, device=parameter.device)
    return _replicated(whole, parameter) if is_divided(parameter) else whole


def distribute(value: Any, like: Any) -> Any:
    """Return a tensor that was whole when it was saved, divided as another one is now."""
    if not (is_divided(like) and isinstance(value, torch.Tensor) and value.shape == like.shape):
        return value
    if is_left_out(value) or is_divided(value) or not value.dim():
        return value
    return _replicated(value.to(like.device), like).redistribute(placements=like.placements)


def _replicated(value: Any, like: Any) -> Any:
    from torch.distributed.tensor import DTensor, Replicate

    places = [Replicate()] * like.device_mesh.ndim
    return DTensor.from_local(value, like.device_mesh, places, run_check=False)


class TensorPieces(PieceFormat):
    """The pieces of divided tensors."""

    def __init__(self) -> None:
        self._signature: tuple[Any, ...] = ()
        self._layout: Layout = {}
        self._copies: dict[str, Any] = {}
        self._places: Mapping[str, Bytes] = {}

    def describe(self, divided: Mapping[str, Any]) -> Layout:
        """Return the pieces that this rank has, as PyTorch's planner describes them."""
        signature = tuple(
            (name, one.shape, one.dtype, one.device_mesh, one.placements)
            for name, one in divided.items()
        )
        if signature != self._signature:
            self._signature, self._layout = signature, _describe(divided) if divided else {}
            self._copies = {}
        return self._layout

    def copy(
        self, divided: Mapping[str, Any], names: Sequence[str], places: Mapping[str, Bytes]
    ) -> dict[str, Bytes]:
        """Begin to copy pieces to host memory."""
        if places is not self._places:
            self._places, self._copies = places, {}
        found = {}
        for name in names:
            local = divided[self._layout[name].what.index.fqn].to_local().contiguous()
            spare = self._copies.get(name)
            if spare is None and name in places:
                spare = torch.frombuffer(places[name], dtype=local.dtype).reshape(local.shape)
            if local.is_cuda:
                self._copies[name] = COPIES.begin(local, spare)
            else:
                host = torch.empty(local.shape, dtype=local.dtype) if spare is None else spare
                self._copies[name] = host.copy_(local)
            found[name] = bytes_of(self._copies[name])
        return found

    def settle(self) -> None:
        """Wait until what was copied has come."""
        COPIES.wait()

    def files(self, part: int, layout: Layout, pieces: Mapping[str, Bytes]) -> dict[str, Write]:
        """Return what writes a checkpoint of one part."""
        from torch.distributed.checkpoint.default_planner import create_default_global_save_plan
        from torch.distributed.checkpoint.filesystem import _StorageInfo
        from torch.distributed.checkpoint.planner import SavePlan

        plan = SavePlan([one.what for one in layout.values()])
        (indexed,), metadata = create_default_global_save_plan([plan])
        items = dict(zip(layout, indexed.items, strict=True))
        metadata.planner_data = {one.index.fqn: (one.index.fqn,) for one in items.values()}
        metadata.storage_data = {}
        name = f"__{part}_0{_SUFFIX}"

        def write_pieces(file: IO[bytes]) -> None:
            self.settle()
            for key, content in pieces.items():
                data, begun = items[key].tensor_data, file.tell()
                whole = torch.frombuffer(content, dtype=data.properties.dtype)
                torch.save(whole.reshape(data.chunk.sizes), file)
                info = _StorageInfo(name, begun, file.tell() - begun)
                metadata.storage_data[items[key].index] = info

        def write_metadata(file: IO[bytes]) -> None:
            pickle.dump(metadata, file)

        return {name: write_pieces, _METADATA: write_metadata}

    def is_own(self, file: str) -> bool:
        """Return whether a file belongs to PyTorch's checkpoint."""
        return file == _METADATA or file.endswith(_SUFFIX)

    def read(self, divided: Mapping[str, Any], saved: SavedPieces) -> None:
        """Overwrite this rank's pieces; of each it asks for the bytes that it lacks alone."""
        from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner

        found = {part: pickle.loads(one) for part, one in saved.share(_METADATA).items()}
        where = {
            index: (part, info)
            for part, one in found.items()
            for index, info in one.storage_data.items()
        }
        planner = DefaultLoadPlanner(flatten_state_dict=False)
        planner.set_up_planner({**divided}, next(iter(found.values())))
        requests, targets = [], []
        for item in planner.create_local_plan().items:
            part, info = where[item.storage_index]
            target = planner.resolve_tensor(item).detach()
            what = (info.relative_path, info.offset, info.length, item.storage_offsets)
            nbytes = target.numel() * target.element_size()
            requests.append(PieceRequest(part, nbytes, (*what, item.lengths)))
            targets.append(target)
        for target, content in zip(targets, saved.fetch(requests, _answer), strict=True):
            if len(content):
                target.copy_(torch.frombuffer(content, dtype=target.dtype).reshape(target.shape))


PIECES = TensorPieces()


def _describe(divided: Mapping[str, Any]) -> Layout:
    from torch.distributed.checkpoint.default_planner import create_default_local_save_plan

    found = {}
    for item in create_default_local_save_plan({**divided}, is_coordinator=False).items:
        data = item.tensor_data
        assert data is not None
        if nbytes := data.chunk.sizes.numel() * data.properties.dtype.itemsize:
            at = ",".join(map(str, data.chunk.offsets))
            found[f"{item.index.fqn}@{at}"] = HeldPiece(nbytes, item)
    return found


def bytes_of(tensor: Any) -> Bytes:
    """Return the memory of a contiguous tensor of the host."""
    return tensor.reshape(-1).view(torch.uint8).numpy()


def _answer(files: Mapping[str, memoryview], what: Any) -> Bytes:
    """Return a box of a saved tensor."""
    name, offset, length, offsets, lengths = what
    saved = torch.load(view(files[name][offset : offset + length]).open(), weights_only=True)
    for dim, (first, size) in enumerate(zip(offsets, lengths, strict=True)):
        saved = saved.narrow(dim, first, size)
    return bytes_of(saved.contiguous())
