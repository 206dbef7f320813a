"""torchelastic's trainer (its version 0.1), with checkpoints in a run of Holdfast.

    import holdfast.torchelastic as torchelastic
    import holdfast.torchelastic.checkpoint.api as checkpoint

    checkpoint.set_checkpoint_manager(checkpoint.RunCheckpointManager("s3://bucket/run"))
    torchelastic.train(coordinator, train_step, state)

Torch is not needed. If the trainer has imported it, states are saved by ``torch.save``.
"""

from __future__ import annotations

from .coordinator import Coordinator, LocalCoordinator, NonRetryableException, StopException
from .state import State
from .train_loop import run_train, train
from .worker_stats import SimpleWorkerStats, WorkerStats

__all__ = [
    "Coordinator",
    "LocalCoordinator",
    "NonRetryableException",
    "SimpleWorkerStats",
    "State",
    "StopException",
    "WorkerStats",
    "run_train",
    "train",
]
