"""Checkpoints of Ray Train, saved and restored by the agent of each node.

    config = RunConfig(
        name="my-run", storage_path="/", storage_filesystem=holdfast.ray.filesystem("s3://bucket/run")
    )

    ray.train.report(
        metrics, Checkpoint.from_directory(directory),
        checkpoint_dir_name=f"step-{step}", checkpoint_upload_fn=holdfast.ray.upload,
    )
"""

from .._requirements import require

#: The oldest versions that the tests have run with.
OLDEST_RAY = "2.60.0"
OLDEST_PYARROW = "19.0.1"
require("ray", OLDEST_RAY, "ray")
require("pyarrow", OLDEST_PYARROW, "ray")

from ._files import filesystem
from ._training import get_checkpoint, upload

__all__ = ["filesystem", "get_checkpoint", "upload"]
