"""What ``train`` needs of a manager of checkpoints, and the one that it uses."""

from __future__ import annotations

import abc
import os
import re
from typing import BinaryIO, Optional, Sequence

from ...errors import InvalidArgument

#: The only key that the train loop uses.
STATE_KEY = "default"
_KEY_BYTES_MAX = 255


class Checkpoint(abc.ABC):
    """Streams of bytes by keys, which become visible as a whole."""

    @abc.abstractmethod
    def open_output_stream(self, key: str) -> BinaryIO:
        """Allowed before ``commit``. If a key is opened twice, the last stream counts."""

    @abc.abstractmethod
    def open_input_stream(self, key: str) -> BinaryIO:
        """Allowed after ``commit``."""

    @abc.abstractmethod
    def commit(self) -> None:
        """Makes the whole checkpoint visible and durable. Repeatable."""

    @abc.abstractmethod
    def discard(self) -> None:
        """Drops a checkpoint that is not committed. Repeatable."""


class CheckpointManager(abc.ABC):
    """Makes and finds checkpoints.

    ``train`` also calls these methods, if a manager has them: ``join`` when this worker has become
    rank 0, and ``leave`` when it is no longer rank 0.
    """

    @abc.abstractmethod
    def create_checkpoint(self) -> Checkpoint:
        """Begins the next checkpoint."""

    @abc.abstractmethod
    def get_checkpoint(self, sequence_id: int) -> Optional[Checkpoint]:
        """``None``: there is no such checkpoint."""

    @abc.abstractmethod
    def get_latest_checkpoint(self) -> Optional[Checkpoint]:
        """``None``: there is no checkpoint."""

    @abc.abstractmethod
    def list_checkpoints(self) -> Sequence[Checkpoint]:
        """Newest first."""


_manager: Optional[CheckpointManager] = None


def set_checkpoint_manager(checkpoint_manager: Optional[CheckpointManager]) -> None:
    """Sets the manager of this process. Call it on every rank: any of them may become rank 0.

    ``None``, the default: no checkpoints.
    """
    global _manager
    names = ("create_checkpoint", "get_latest_checkpoint", "list_checkpoints")
    if checkpoint_manager is not None:
        missing = [name for name in names if not callable(getattr(checkpoint_manager, name, None))]
        if missing:
            raise InvalidArgument(
                f"checkpoint_manager: expected a CheckpointManager, got {checkpoint_manager!r} "
                f"without {', '.join(missing)}"
            )
    _manager = checkpoint_manager


def get_checkpoint_manager() -> Optional[CheckpointManager]:
    return _manager


def check_key(key: str) -> str:
    """A key is the name of a file, and cannot lead out of its directory."""
    is_name = isinstance(key, str) and key not in ("", ".", "..") and not re.search(r"[/\\\0]", key)
    if is_name and len(os.fsencode(key)) <= _KEY_BYTES_MAX:
        return key
    raise InvalidArgument(
        f"key: expected a file name of at most {_KEY_BYTES_MAX} bytes, without / and \\, got {key!r}"
    )
