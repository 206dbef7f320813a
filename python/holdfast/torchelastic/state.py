"""What a trainer carries from step to step."""

from __future__ import annotations

import abc
import inspect
import pickle
import sys
from typing import Any, BinaryIO

from ..errors import Corrupt, Unsupported

# How files of torch begin: since 2020 as ZIP archives, before with this number as a pickle.
_TORCH_STARTS = (b"PK\x03\x04", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.")


class State(abc.ABC):
    """The state of a trainer: model, optimizer, position in the data.

    ``snapshot`` and ``apply`` are the names in torchelastic's documents, ``capture_snapshot`` and
    ``apply_snapshot`` those of its release. Override either pair.
    """

    @abc.abstractmethod
    def sync(self, world_size: int, rank: int) -> Any:
        """Makes all workers equal. Called on each after each rendezvous.

        A worker that has just begun may be rank 0, with an older state from a checkpoint. So let
        the state that is furthest win, not that of rank 0.
        """

    def snapshot(self) -> Any:
        """A copy that later steps do not change. ``None``, the default: no rollback."""
        return None

    def apply(self, snapshot: Any) -> None:
        """Replaces the whole state with a snapshot. ``sync`` follows."""
        if snapshot is not None:
            raise Unsupported(f"{type(self).__name__} has snapshots, but no apply for them")

    def capture_snapshot(self) -> Any:
        """Called before each step and each rendezvous."""
        return self.snapshot()

    def apply_snapshot(self, snapshot: Any) -> None:
        """Called after a failure that a retry may cure, and by ``load``."""
        self.apply(snapshot)

    def save(self, stream: BinaryIO) -> None:
        """Writes the snapshot: by ``torch.save`` if torch is imported, else by ``pickle``.

        ``Unsupported``: the snapshot is ``None``, so the checkpoint would be empty.
        """
        snapshot = self.capture_snapshot()
        if snapshot is None:
            raise Unsupported(
                f"{type(self).__name__} has nothing to save: its snapshot is None; override "
                "snapshot and apply, or save and load"
            )
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.save(snapshot, stream)
        else:
            pickle.dump(snapshot, stream, protocol=4)

    def load(self, stream: BinaryIO) -> None:
        """Applies what ``save`` wrote, or the ``save`` of torchelastic.

        A pickle can run any code, so load only what your own job has saved.
        """
        start = stream.read(max(len(each) for each in _TORCH_STARTS))
        if not start:
            raise Corrupt("the checkpoint of the state has no bytes")
        stream.seek(0)
        is_of_torch = start.startswith(_TORCH_STARTS)
        self.apply_snapshot(_load_by_torch(stream) if is_of_torch else pickle.load(stream))

    def should_save_checkpoint(self, rank: int) -> bool:
        """Called after each step. All ranks must answer the same. Default: never."""
        return False


def _load_by_torch(stream: BinaryIO) -> Any:
    import torch  # type: ignore[import-not-found, unused-ignore]

    # Releases differ in the default. A snapshot may be any object.
    has_choice = "weights_only" in inspect.signature(torch.load).parameters
    options: dict[str, Any] = {"weights_only": False} if has_choice else {}
    return torch.load(stream, **options)
