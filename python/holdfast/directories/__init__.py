"""Directories that the processes of a job write together, as versions of a run.

    checkpoints = holdfast.directories.DirectoryCheckpoints("s3://bucket/run", "/local/ckpt")

Needs PyTorch: ``pip install holdfast[torch]``.
"""

from .._requirements import require

require("torch", "2.0", "torch")

from ._checkpoints import DirectoryCheckpoints

__all__ = ["DirectoryCheckpoints"]
