"""Give all ranks one rank's parameters, optimizer state or objects, as Horovod's calls do."""

from __future__ import annotations

from typing import Any

import torch

from workbench.frameworks.horovod.collectives import broadcast_
from workbench.frameworks.horovod.world import world


def broadcast_parameters(params: Any, root_rank: int, process_set: Any = None) -> None:
    """Replace parameters by those of a rank.

    Args:
        params: ``model.state_dict()``, ``model.named_parameters()`` or ``model.parameters()``.
    """
    del process_set
    if isinstance(params, dict):
        params = sorted(params.items())
    for one in [*params]:
        tensor = one[1] if isinstance(one, tuple) else one
        if isinstance(tensor, torch.Tensor):
            broadcast_(tensor.data, root_rank)


def broadcast_optimizer_state(
    optimizer: Any, root_rank: int, model: Any = None, process_set: Any = None
) -> None:
    """Replace an optimizer's state by that of a rank; tensors go to where its parameters are."""
    del model, process_set
    state = broadcast_object(optimizer.state_dict(), root_rank)
    if world().rank != root_rank:
        optimizer.load_state_dict(state)


def broadcast_object(
    obj: Any, root_rank: int = 0, name: Any = None, process_set: Any = None
) -> Any:
    """Return rank ``root_rank``'s object."""
    here = world()
    here.turn("object", root_rank)
    return here.comm.bcast(_on_host(obj) if here.rank == root_rank else None, root_rank)


def allgather_object(obj: Any, name: Any = None, process_set: Any = None) -> list[Any]:
    """Return the objects of all ranks, by rank."""
    here = world()
    here.turn("objects")
    return [*here.comm.allgather(_on_host(obj))]


def _on_host(value: Any) -> Any:
    """Return a copy whose tensors any rank can hold."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return type(value)((key, _on_host(one)) for key, one in value.items())
    if type(value) in (list, tuple):
        return type(value)(_on_host(one) for one in value)
    return value
