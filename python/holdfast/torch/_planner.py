"""The planner of loads that is used by default."""

from __future__ import annotations

import io

import torch
from torch.distributed.checkpoint._traverse import set_element
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.planner import ReadItem

from ..errors import InvalidArgument


class WeightsLoadPlanner(DefaultLoadPlanner):
    """DCP's planner, but objects of a checkpoint cannot run code: only weights are unpickled."""

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        name = read_item.dest_index.fqn
        try:
            loaded = torch.load(value, map_location="cpu", weights_only=True)
        except Exception as error:
            raise InvalidArgument(
                f"{name!r} is an object whose class torch does not load as weights; allow it by "
                "torch.serialization.add_safe_globals, or pass planner=DefaultLoadPlanner() if you "
                f"trust all writers of the store: {error}"
            ) from None
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], loaded)
        else:
            self.state_dict[name] = loaded
