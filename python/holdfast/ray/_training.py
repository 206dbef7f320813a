"""What a training function calls."""

from __future__ import annotations

import os
from typing import Any, Optional

import ray.train
from pyarrow.fs import PyFileSystem
from ray.train.collective import broadcast_from_rank_zero

from .._framework_ids import version_name
from .._run_pool import runs
from .._tree import tree_of
from ..errors import HoldfastError, InvalidArgument, Unsupported
from ._files import _CHECKPOINT, RunHandler


def upload(checkpoint: ray.train.Checkpoint, checkpoint_dir_name: str) -> ray.train.Checkpoint:
    """For ``ray.train.report(checkpoint_upload_fn=…)``: saves the directory, and waits for its commit.

    The agent reads the files where they are. ``checkpoint_dir_name``: ``step-N``.

    ``InvalidArgument``: there is no file in the directory, or a symbolic link or a special file.
    ``Unsupported``: a rank above 0 reports a checkpoint. ``Conflict``: the run has this version or a later
    one; resume from ``get_checkpoint``. Other errors are those of ``Run.save``.
    """
    context = ray.train.get_context()
    handler, storage = _storage(context)
    if not _CHECKPOINT.match(checkpoint_dir_name):
        raise InvalidArgument(
            f"checkpoint_dir_name: {checkpoint_dir_name!r} has no version; expected as in "
            'ray.train.report(…, checkpoint_dir_name=f"step-{step}")'
        )
    if context.get_world_rank() != 0:
        raise Unsupported(
            f"rank {context.get_world_rank()} reports a checkpoint, and one process saves a version here; "
            "report it on rank 0 alone, or save the shards of all ranks by holdfast.torch"
        )
    version = int(checkpoint_dir_name.removeprefix("step-"))
    with checkpoint.as_directory() as directory:
        names, empty = tree_of(directory)
        if not names:
            raise InvalidArgument(f"the checkpoint in {directory} has no file")
        files = {name: os.path.join(directory, name) for name in names}
        run = runs.writer(handler.run, handler.options)
        saved = run._save_tree(version, files, empty, metadata={"framework": "ray"})
        saved.wait("committed")
    return _checkpoint(storage, version)


def get_checkpoint() -> Optional[ray.train.Checkpoint]:
    """The latest checkpoint of the run, the same on all ranks, which all have to call this.

    Use it in place of ``ray.train.get_checkpoint``: that one does not know a checkpoint that was
    committed just before a worker ended, and a later save of its version would be a ``Conflict``.
    """
    context = ray.train.get_context()
    handler, storage = _storage(context)
    found: dict[str, Any] = {}
    if context.get_world_rank() == 0:
        try:
            latest = handler.reader().latest()
            found["version"] = None if latest is None else latest.version
        except HoldfastError as error:
            # The other ranks wait for an answer.
            found["error"] = error
    found = broadcast_from_rank_zero(found)
    if "error" in found:
        raise found["error"]
    return None if found["version"] is None else _checkpoint(storage, found["version"])


def _storage(context: Any) -> tuple[RunHandler, Any]:
    storage = context.get_storage()
    fs = storage.storage_filesystem
    handler = fs.handler if isinstance(fs, PyFileSystem) else None
    if not isinstance(handler, RunHandler):
        raise Unsupported(
            "the checkpoints of this trainer are elsewhere; pass "
            'RunConfig(storage_path="/", storage_filesystem=holdfast.ray.filesystem("s3://bucket/run"))'
        )
    return handler, storage


def _checkpoint(storage: Any, version: int) -> ray.train.Checkpoint:
    path = f"{storage.experiment_fs_path}/{version_name(version)}"
    return ray.train.Checkpoint(path=path, filesystem=storage.storage_filesystem)
