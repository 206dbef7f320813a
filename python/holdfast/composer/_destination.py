"""A destination of Composer's logger, which takes the checkpoints."""

from __future__ import annotations

import os
from typing import Any, Optional

from composer.callbacks import CheckpointSaver
from composer.core import State
from composer.loggers import Logger, LoggerDestination
from composer.utils.file_helpers import format_name_with_dist

from .._handles import Handles
from .._run_pool import Options, runs
from ..errors import Unsupported
from ._objects import download


class CheckpointDestination(LoggerDestination):
    """Saves each checkpoint of a trainer to a run, as the version of its batch.

        Trainer(..., save_folder="/local", loggers=[CheckpointDestination("s3://bucket/run")])

    Composer writes the checkpoint into ``save_folder`` as always. The agent has opened the file
    when the training continues, so ``save_num_checkpoints_to_keep=0`` may remove it at once. The
    agent commits it while the training continues. With ``autoresume=True`` the trainer resumes from
    the latest version of the run if it finds no checkpoint in ``save_folder``.

    ``uri``: the run, or an alias of the agent. ``save_timeout``: seconds from a save to its
    commit. ``options``: ``attempt``, ``agent``, ``start`` and ``timeout`` of ``holdfast.connect``.
    It joins the run at the first save, on rank 0.

    A save that fails is raised by the next one or by ``Trainer.close``, which waits for all
    commits. ``Unsupported``: each rank saves a shard of its own. Other files of the logger are
    ignored.
    """

    def __init__(self, uri: str, *, save_timeout: Optional[float] = None, **options: Any) -> None:
        self._uri = uri
        self._save_timeout = save_timeout
        self._options = Options(**options)
        self._handles = Handles()

    def can_upload_files(self) -> bool:
        return True

    def upload_file(
        self, state: State, remote_file_name: str, file_path: Any, *, overwrite: bool
    ) -> None:
        """``Conflict``: the version is committed with other content, also if ``overwrite``."""
        if not _is_checkpoint(state, str(file_path)):
            return
        if state.fsdp_sharded_state_dict_enabled:
            raise Unsupported(
                "each rank saves a shard of its own, and Composer does not say when all have; save "
                "by holdfast.torch, or run `holdfast watch` on save_folder (rule metadata)"
            )
        run = runs.writer(self._uri, self._options)
        name = remote_file_name.rpartition("/")[2]
        self._handles.add(
            run.save(
                state.timestamp.batch.value,
                files={name: str(file_path)},
                metadata={"framework": "composer"},
                timeout=self._save_timeout,
            )
        )

    def download_file(
        self,
        remote_file_name: str,
        destination: str,
        overwrite: bool = False,
        progress_bar: bool = True,
    ) -> None:
        """``FileNotFoundError``, ``FileExistsError``. ``Corrupt``: it is damaged in the store."""
        run = runs.reader(self._uri, self._options)
        download(run, remote_file_name, str(destination), overwrite)

    def close(self, state: State, logger: Logger) -> None:
        """Waits for all commits. Raises the first failure."""
        self._handles.wait()


def _is_checkpoint(state: State, path: str) -> bool:
    for callback in state.callbacks:
        if isinstance(callback, CheckpointSaver):
            folder = os.path.abspath(format_name_with_dist(callback.folder, state.run_name))
            if os.path.abspath(path).startswith(os.path.join(folder, "")):
                return True
    return False
