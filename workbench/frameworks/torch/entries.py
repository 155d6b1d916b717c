"""How PyTorch's modules, optimizers and tensors in the state of an elastic loop are saved.

``torch.load("state.pt")`` returns a dictionary with each entry's ``state_dict`` by its name; those
of wrapped modules (``DistributedDataParallel``, ``torch.compile``) are the inner module's.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from workbench.engine.snapshot.entries import (
    SAMPLED,
    StateDictEntry,
    StateEntry,
    find_saved_random,
    has_state_dict,
    own_of,
)
from workbench.errors import InputError, StateError
from workbench.frameworks.torch.device_copies import COPIES, fits, new_host_tensor
from workbench.frameworks.torch.pieces import (
    PIECES,
    distribute,
    find_divided,
    find_left_out,
    is_divided,
    is_left_out,
    leave_out,
    new_like,
)
from workbench.frameworks.torch.replicas import exchange_state, resume_exchange
from workbench.frameworks.torch.tensor_file import TENSORS

_EXCHANGE = "workbench/exchange"  # no buffer has a name like it
_DIVIDED = ("FullyShardedDataParallel", "ZeroRedundancyOptimizer")


def unwrap(module: Any) -> Any:
    """Return the user's own module inside of its wrappers."""
    return levels(module)[-1]


def levels(module: Any) -> list[Any]:
    """Return a module and those inside of its wrappers, the user's own one last."""
    found = [module]
    while True:
        if isinstance(module, DistributedDataParallel | torch.nn.DataParallel):
            module = module.module
        elif hasattr(module, "_orig_mod"):
            module = module._orig_mod
        else:
            return found
        found.append(module)


class ModuleEntry(StateEntry):
    """A module: its parameters are equal on all ranks, its buffers are a rank's own."""

    kind = "a module"
    file = TENSORS
    pieces = PIECES
    is_whole = True

    def _state_dict(self, *, parameters: bool) -> dict[str, Any]:
        found = unwrap(self.value).state_dict(keep_vars=True)
        return {
            name: one
            for name, one in found.items()
            if (isinstance(one, torch.nn.Parameter) or is_divided(one)) is parameters
        }

    def divided(self) -> Mapping[str, Any]:
        """Return what ``fully_shard`` or tensor parallelism has divided."""
        return find_divided(self._state_dict(parameters=True))

    def fill(self, common: Any, read: Callable[[Mapping[str, Any]], None]) -> Any:
        """Read what was divided into the module's own tensors."""
        present = self._state_dict(parameters=True)
        wanted = {name: present[name] for name in find_left_out(common) if name in present}
        read({name: one.detach() for name, one in wanted.items()})
        return {name: distribute(one, present.get(name)) for name, one in common.items()} | wanted

    def sample(self) -> list[float]:
        """Return some numbers of the parameters."""
        first = [*self.value.parameters()][:SAMPLED]
        return [number for one in first for number in _sample_tensor(one)]

    def places(self) -> Any:
        """Return the parameters."""
        return self._state_dict(parameters=True)

    def memory(self) -> Callable[[], Any]:
        """Return what allocates tensors for the parameters."""
        return _memory_for(self._state_dict(parameters=True))

    def common(self, spare: Any) -> Any:
        """Return copies of the parameters."""
        return copy_to_host(self._state_dict(parameters=True), spare, later=True)

    def own(self) -> Any:
        """Return copies of the buffers, and what the exchange of gradients keeps."""
        own = copy_to_host(self._state_dict(parameters=False), None)
        for one in levels(self.value):
            if (state := exchange_state(one)) is not None:
                own[_EXCHANGE] = state
        return own

    def readable(self, common: Any, own: Any) -> Any:
        """Return what the module's ``load_state_dict`` takes."""
        return common | _buffers(own)

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Load parameters and buffers."""
        try:
            values = common | _buffers(own_of(owns, rank))
            unwrap(self.value).load_state_dict(values, strict=self.is_whole)
        except (RuntimeError, NotImplementedError) as error:
            raise _build_state_error(self.name, error) from None
        state, existed = own_of(owns, rank).get(_EXCHANGE), rank < len(owns)
        for one in levels(self.value):
            resume_exchange(one, state, existed=existed)
        return ""


class AdapterEntry(ModuleEntry):
    """A module with a small part that PEFT trains; the program makes the rest as it was."""

    kind = "the trained part of a module"
    is_whole = False

    def _state_dict(self, *, parameters: bool) -> dict[str, Any]:
        found = super()._state_dict(parameters=parameters)
        return {name: one for name, one in found.items() if one.requires_grad or not parameters}


def _buffers(own: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in own.items() if name != _EXCHANGE}


class TorchOptimizerEntry(StateEntry):
    """An optimizer, equal on all ranks."""

    kind = "an optimizer of PyTorch"
    file = TENSORS
    pieces = PIECES
    order = 1

    def lacks(self, entries: Mapping[str, StateEntry]) -> str:
        """Return the first parameter that no module or tensor of the state has."""
        known = set[int]()
        for one in entries.values():
            if isinstance(one, ModuleEntry):
                known.update(map(id, one.value.parameters()))
            elif isinstance(one, TensorEntry):
                known.add(id(one.value))
        for number, group in enumerate(self.value.param_groups):
            for parameter in group["params"]:
                if id(parameter) not in known:
                    return f"one of shape {tuple(parameter.shape)} in its group {number}"
        return ""

    def divided(self) -> Mapping[str, Any]:
        """Return what it keeps of divided parameters."""
        return find_divided(self.value.state_dict())

    def fill(self, common: Any, read: Callable[[Mapping[str, Any]], None]) -> Any:
        """Read what was divided into tensors that are divided as their parameters are."""
        saved = [number for group in common["param_groups"] for number in group["params"]]
        present = [one for group in self.value.param_groups for one in group["params"]]
        parameters = dict(zip(saved, present, strict=False))
        state, made = dict[Any, Any](), dict[str, Any]()
        for number, values in common["state"].items():
            parameter = parameters.get(number)
            state[number] = filled = {}
            for name, one in values.items():
                filled[name] = distribute(one, parameter)
                if is_left_out(one) and parameter is not None:
                    filled[name] = new_like(one, parameter)
                    made[f"state.{number}.{name}"] = filled[name]
        read(made)
        return {**common, "state": state}

    def places(self) -> Any:
        """Return its ``state_dict``."""
        return self.value.state_dict()

    def memory(self) -> Callable[[], Any]:
        """Return what allocates tensors for its ``state_dict``."""
        return _memory_for(self.value.state_dict())

    def common(self, spare: Any) -> Any:
        """Return a copy of its ``state_dict``."""
        return copy_to_host(self.value.state_dict(), spare, later=True)

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Load its ``state_dict``."""
        try:
            self.value.load_state_dict(common)
        except (ValueError, KeyError) as error:
            raise _build_state_error(self.name, error) from None
        return ""


class TorchStateDictEntry(StateDictEntry):
    """An object with a ``state_dict``, such as a scheduler or ``GradScaler``."""

    file = TENSORS


class TensorEntry(StateEntry):
    """A tensor, equal on all ranks."""

    kind = "a tensor"
    file = TENSORS
    pieces = PIECES

    def divided(self) -> Mapping[str, Any]:
        """Return the tensor, if it is divided."""
        return find_divided({"": self.value})

    def fill(self, common: Any, read: Callable[[Mapping[str, Any]], None]) -> Any:
        """Read it as it is divided now."""
        if not is_left_out(common):
            return distribute(common, self.value)
        found = torch.empty_like(self.value)
        read({"": found})
        return found

    def sample(self) -> list[float]:
        """Return some of its numbers."""
        return _sample_tensor(self.value)

    def places(self) -> Any:
        """Return the tensor."""
        return self.value

    def memory(self) -> Callable[[], Any]:
        """Return what allocates a tensor."""
        return _memory_for(self.value)

    def common(self, spare: Any) -> Any:
        """Return a copy in host memory."""
        return copy_to_host(self.value, spare, later=True)

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Overwrite the tensor, which stays the same object."""
        present = self.value
        if (common.shape, common.dtype) != (present.shape, present.dtype):
            raise _build_state_error(self.name, f"{_shape(common)} there, {_shape(present)} here")
        with torch.no_grad():
            present.copy_(common)
        return ""


class TorchGeneratorEntry(StateEntry):
    """A generator of random numbers of PyTorch; each rank has its own."""

    kind = "a random generator of PyTorch"

    def own(self) -> Any:
        """Return its state."""
        return self.value.get_state().numpy().copy()

    def restore(self, common: Any, owns: Sequence[Any], rank: int, ranks: int) -> str:
        """Set its state; a new rank keeps its own, unless all ranks had the same one."""
        if (saved := find_saved_random(owns, rank)) is not None:
            self.value.set_state(torch.from_numpy(saved.copy()))
        return ""


def _sample_tensor(tensor: Any) -> list[float]:
    """Return some numbers of a tensor in host memory; none of one that would have to be fetched."""
    if (
        is_divided(tensor)
        or tensor.device.type != "cpu"
        or tensor.layout != torch.strided
        or tensor.is_complex()
    ):
        return []
    flat = tensor.detach().reshape(-1)
    found: list[float] = flat[:: max(1, len(flat) // SAMPLED)][:SAMPLED].double().tolist()
    return found


def copy_to_host(value: Any, spare: Any, *, later: bool = False) -> Any:
    """Return a copy of a value with its tensors in host memory, but for those that are divided.

    Args:
        spare: An earlier copy, whose tensors are overwritten where they fit; or None.
        later: Whether those of a GPU may come until ``COPIES.wait``.
    """
    if is_divided(value):
        return leave_out(value)
    if isinstance(value, torch.Tensor):
        return _copy_tensor(value.detach(), spare, later)
    if isinstance(value, dict):
        before = spare if isinstance(spare, dict) else {}
        return {
            name: copy_to_host(one, before.get(name), later=later) for name, one in value.items()
        }
    if type(value) in (list, tuple):
        fitting = type(spare) is type(value) and len(spare) == len(value)
        pairs = zip(value, spare if fitting else [None] * len(value), strict=True)
        return type(value)(copy_to_host(one, before, later=later) for one, before in pairs)
    return copy.deepcopy(value)


def _memory_for(value: Any) -> Callable[[], Any]:
    """Return what allocates tensors in host memory for a copy of a value."""
    layout = _map_tensors(value, _host_tensor_for)
    return lambda: _call_all(layout)


def _host_tensor_for(tensor: Any) -> Callable[[], Any]:
    return functools.partial(
        new_host_tensor, tensor.shape, tensor.dtype, pinned=bool(tensor.is_cuda)
    )


def _call_all(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _call_all(one) for name, one in value.items()}
    return value() if value is not None else None


def _map_tensors(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return a value's tensors, mapped, in the same dictionaries."""
    if isinstance(value, dict):
        return {name: _map_tensors(one, function) for name, one in value.items()}
    is_whole = isinstance(value, torch.Tensor) and not is_divided(value)
    return function(value) if is_whole and value.layout == torch.strided else None


def _copy_tensor(value: Any, spare: Any, later: bool) -> Any:
    if later and value.is_cuda and value.layout == torch.strided:
        return COPIES.begin(value, spare)
    if fits(spare, value):
        return spare.copy_(value)
    found = value.cpu()
    return found.clone() if found.data_ptr() == value.data_ptr() else found


def torch_entry(name: str, value: Any) -> type[StateEntry] | None:
    """Return how an object of PyTorch is saved, or None if it is none.

    Raises:
        InputError: It cannot be saved.
    """
    names = {one.__name__ for one in type(value).__mro__}
    if divided := next((one for one in _DIVIDED if one in names), ""):
        raise InputError(
            f"state[{name!r}] is a {divided}, whose values are divided among the ranks, "
            "and which does not say which rank has what",
            "use fully_shard or DistributedDataParallel, or save it yourself.",
        )
    if isinstance(value, torch.nn.Module):
        return AdapterEntry if hasattr(unwrap(value), "peft_config") else ModuleEntry
    if isinstance(value, torch.optim.Optimizer):
        return TorchOptimizerEntry
    if isinstance(value, torch.Tensor):
        return TensorEntry
    if isinstance(value, torch.Generator):
        return TorchGeneratorEntry
    is_place = isinstance(value, torch.utils.data.DataLoader | torch.utils.data.Sampler)
    if is_place and not hasattr(value, "state_dict"):
        raise InputError(
            f"state[{name!r}] is a {type(value).__name__}, which does not say its place",
            "pass the DataLoader as workbench.elastic(state, data=…), and use step.batch.",
        )
    return TorchStateDictEntry if has_state_dict(value) else None


def _shape(tensor: Any) -> str:
    return f"{tuple(tensor.shape)} of {tensor.dtype}"


def _build_state_error(name: str, why: object) -> StateError:
    text = " ".join(str(why).split())
    return StateError(
        f"state[{name!r}] is not the one of the snapshot ({text:.300})",
        "resume with the state that the snapshot was saved from.",
    )
