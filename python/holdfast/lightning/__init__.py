"""Checkpoints of Lightning, by the agent of the node.

    from holdfast.lightning import CheckpointIO, ModelCheckpoint

    trainer = Trainer(plugins=[CheckpointIO()], callbacks=[ModelCheckpoint("s3://bucket/run")])
    trainer.fit(model, ckpt_path="last")

``ModelParallelStrategy`` saves sharded models, by ``holdfast.torch``.
"""

from .._requirements import require

#: The oldest version that the tests have run with.
OLDEST_LIGHTNING = "2.5.0"
require("lightning", OLDEST_LIGHTNING, "lightning")

from ._callback import ModelCheckpoint
from ._io import CheckpointIO
from ._sharded import ModelParallelStrategy

__all__ = ["CheckpointIO", "ModelCheckpoint", "ModelParallelStrategy"]
