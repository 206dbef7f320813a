"""Hugging Face Trainer and accelerate: their checkpoint directories as versions of a run.

    trainer = Trainer(..., callbacks=[holdfast.hf.CheckpointCallback("s3://bucket/run")])
    trainer.train(resume_from_checkpoint=holdfast.hf.resume("s3://bucket/run", args.output_dir))

Needs the packages ``transformers`` and ``accelerate``: ``pip install holdfast[hf]``.
"""

from .._requirements import require

require("transformers", "5.0", "hf")
require("accelerate", "1.0", "hf")

from ._accelerate import AcceleratorCheckpoints
from ._callback import CheckpointCallback
from ._resume import resume

__all__ = ["AcceleratorCheckpoints", "CheckpointCallback", "resume"]
