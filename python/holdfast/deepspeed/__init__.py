"""DeepSpeed: the checkpoints of its engine as versions of a run.

    engine.checkpoint_engine = holdfast.deepspeed.CheckpointEngine("s3://bucket/run")
    tag = holdfast.deepspeed.resume("s3://bucket/run", "/local/checkpoints")

Needs the package ``deepspeed``: ``pip install holdfast[deepspeed]``.
"""

from .._requirements import require

require("deepspeed", "0.19", "deepspeed")

from ._engine import CheckpointEngine
from ._resume import resume

__all__ = ["CheckpointEngine", "resume"]
