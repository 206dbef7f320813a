"""The names of torchelastic's ``checkpoint.api``."""

from __future__ import annotations

from ._contract import (
    Checkpoint,
    CheckpointManager,
    get_checkpoint_manager,
    set_checkpoint_manager,
)
from ._run import FileSystemCheckpointManager, RunCheckpointManager

__all__ = [
    "Checkpoint",
    "CheckpointManager",
    "FileSystemCheckpointManager",
    "RunCheckpointManager",
    "get_checkpoint_manager",
    "set_checkpoint_manager",
]
