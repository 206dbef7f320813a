"""Composer: the checkpoints of its trainer as versions of a run.

    trainer = Trainer(..., save_folder="/local", autoresume=True, run_name="my-run",
                      loggers=[holdfast.composer.CheckpointDestination("s3://bucket/run")])

Needs the package ``mosaicml``: ``pip install holdfast[composer]``.
"""

from .._requirements import require

require("mosaicml", "0.32", "composer")

from ._destination import CheckpointDestination
from ._store import ObjectStore

__all__ = ["CheckpointDestination", "ObjectStore"]
