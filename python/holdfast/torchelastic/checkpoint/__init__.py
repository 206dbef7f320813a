"""Managers of checkpoints, and the one that ``train`` uses."""

from __future__ import annotations

from .api import (
    Checkpoint,
    CheckpointManager,
    FileSystemCheckpointManager,
    RunCheckpointManager,
    get_checkpoint_manager,
    set_checkpoint_manager,
)

__all__ = [
    "Checkpoint",
    "CheckpointManager",
    "FileSystemCheckpointManager",
    "RunCheckpointManager",
    "get_checkpoint_manager",
    "set_checkpoint_manager",
]
