"""The ``CheckpointEngine`` of DeepSpeed."""

from __future__ import annotations

import os
from typing import Any, Literal, Optional

from deepspeed.runtime.checkpoint_engine import CheckpointCommitInfo, TorchCheckpointEngine

from .._framework_ids import version_in
from .._nodes import find_nodes
from .._saves_directories import SavesDirectories
from ..errors import InvalidArgument


class CheckpointEngine(SavesDirectories, TorchCheckpointEngine):  # type: ignore[misc]
    """Saves each checkpoint of a DeepSpeed engine to a run, as the version in its tag.

        engine, *_ = deepspeed.initialize(...)
        engine.checkpoint_engine = holdfast.deepspeed.CheckpointEngine("s3://bucket/run")

    ``engine.save_checkpoint(directory)`` writes its files as always. Then one process of each node
    hands them to the agent, which has opened all files of all ranks when ``save_checkpoint``
    returns. The file ``latest`` is written after that, so it never names a tag that a rank has not
    finished. The agents commit the checkpoint while the training continues.

    ``remove_local``: removes the directory of a tag when it is committed, if it is still as it
    was saved. ``save_timeout``:
    seconds from a save to its commit. Other ``options`` are those of ``holdfast.connect``. It
    joins the run at the first save.

    A save that fails is raised by the next save or by ``finish``, on all ranks. ``finish`` waits
    for all commits: call it at the end, or use this as a context manager.
    """

    def __init__(
        self,
        uri: str,
        *,
        remove_local: bool = False,
        save_timeout: Optional[float] = None,
        **options: Any,
    ) -> None:
        TorchCheckpointEngine.__init__(self)
        # As DeepSpeed's own engine does unless its configuration says otherwise.
        self.zipfile_serialization = True
        SavesDirectories.__init__(
            self, uri, remove_local=remove_local, save_timeout=save_timeout, options=options
        )
        self._has_written = False

    def create(self, info: CheckpointCommitInfo) -> None:
        """``InvalidArgument``: the tag has no version."""
        self._has_written = False
        self._directory = os.path.join(info.save_dir, info.tag)
        _version_of(info.tag)
        self._joined()
        super().create(info)

    def save(self, state_dict: Any, path: str) -> None:
        super().save(state_dict, path)
        inside = os.path.join(os.path.abspath(self._directory), "")
        self._has_written = self._has_written or os.path.abspath(path).startswith(inside)

    def commit(self, info: CheckpointCommitInfo) -> Literal[True]:
        """Begins to save the directory of the tag. All ranks call it when they have written."""
        # `save_16bit_model` writes a file beside the tags, which is no checkpoint.
        if any(find_nodes().gather(self._has_written)):
            self._save_directory(self._directory, _version_of(info.tag))
        return True


def _version_of(tag: str) -> int:
    version = version_in(tag)
    if version is None:
        raise InvalidArgument(
            f"tag: {tag!r} has no version; expected a number at its end, as in global_step100"
        )
    return version
