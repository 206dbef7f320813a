"""Checks that a load fills each tensor completely. DCP reads only the parts that it finds."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner
from torch.distributed.checkpoint.planner_helpers import _create_chunk_list

from ..errors import InvalidArgument


def check_filled(plan: LoadPlan, planner: LoadPlanner, metadata: Metadata) -> None:
    """``InvalidArgument``: the checkpoint has a part of a tensor, and this rank loads more."""
    # A planner that keeps its state elsewhere is not checked.
    state: Any = getattr(planner, "state_dict", None)
    if not isinstance(state, dict):
        return
    counts: dict[str, int] = {}
    for item in plan.items:
        if item.type == LoadItemType.TENSOR:
            name = item.dest_index.fqn
            counts[name] = counts.get(name, 0) + math.prod(item.lengths)
    for name, tensor in state.items():
        # A planner that allows partial loads omits tensors that the checkpoint does not have.
        if not isinstance(tensor, torch.Tensor) or name not in metadata.state_dict_metadata:
            continue
        wanted = sum(math.prod(chunk.sizes) for chunk in _create_chunk_list(tensor))
        count = counts.get(name, 0)
        if count != wanted:
            raise InvalidArgument(
                f"tensor {name!r}: the checkpoint has {count} of the {wanted} elements that this rank "
                "loads; it was saved without collectives, so load it with the same sharding"
            )
