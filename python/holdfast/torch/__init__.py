"""Checkpoints of ``torch.distributed.checkpoint``, by the agent of the node.

    import holdfast.torch as dcp

    dcp.async_save(state, checkpoint_id=f"s3://bucket/run/step-{step}")
    step = dcp.load(state, checkpoint_id="s3://bucket/run/latest")
"""

from .._requirements import require

require("torch", "2.15", "torch")

from ._api import async_save, load, save
from ._planner import WeightsLoadPlanner
from ._reader import Reader
from ._writer import Writer

__all__ = ["Reader", "WeightsLoadPlanner", "Writer", "async_save", "load", "save"]
