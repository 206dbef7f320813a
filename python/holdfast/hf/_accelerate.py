"""``save_state`` and ``load_state`` of accelerate, to and from a run."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Mapping, Optional

from accelerate import Accelerator

from ..errors import InvalidArgument
from ._directories import DirectorySaver
from ._nodes import find_nodes
from ._resume import resume


class AcceleratorCheckpoints:
    """Checkpoints of an ``Accelerator`` as versions of a run. Each rank makes one and calls it.

    ``directory``: where accelerate writes and reads, on a disk with room for two checkpoints.
    ``remove_local``: removes what was written there when it is committed. ``save_timeout``:
    seconds from a save to its commit. Other ``options`` are those of ``holdfast.connect``. It
    joins the run at the first save.

    ``InvalidArgument``: the accelerator names its checkpoints itself.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        uri: str,
        directory: str,
        *,
        remove_local: bool = True,
        save_timeout: Optional[float] = None,
        **options: Any,
    ) -> None:
        if accelerator.project_configuration.automatic_checkpoint_naming:
            raise InvalidArgument(
                "automatic_checkpoint_naming of the accelerator chooses its own directories; "
                "leave it off"
            )
        self._accelerator = accelerator
        self._uri = uri
        self._directory = directory
        self._remove_local = remove_local
        self._save_timeout = save_timeout
        self._options = options
        self._saver: Optional[DirectorySaver] = None

    def save_state(
        self, version: int, *, metrics: Mapping[str, float] = {}, **save_options: Any
    ) -> None:
        """Has accelerate write its state, and begins to save it as this version.

        The training continues when the agent has opened the files. A save that fails is raised by
        the next call, on all ranks. ``save_options`` are those of ``Accelerator.save_state``.
        """
        if self._saver is None:
            self._saver = DirectorySaver(
                self._uri, find_nodes(), remove_local=self._remove_local, options=self._options
            )
        target = os.path.join(self._directory, f"checkpoint-{version}")
        self._accelerator.save_state(target, **save_options)
        self._saver.save(target, version, metrics, timeout=self._save_timeout)

    def load_state(self, version: Optional[int] = None, **load_options: Any) -> Optional[int]:
        """Restores a version, by default the latest, and has accelerate load it.

        Returns the version. ``None``: the run has no checkpoint yet, and nothing was loaded.
        """
        found = resume(self._uri, self._directory, version=version, **self._options)
        if found is None:
            return None
        self._accelerator.load_state(found, **load_options)
        return int(found.rpartition("-")[2])

    def finish(self, timeout: Optional[float] = None) -> None:
        """Waits until all versions are committed. ``TimedOut``: some are still in progress."""
        if self._saver is not None:
            self._saver.finish(timeout)

    def close(self) -> None:
        """Leaves the run. Saves that are staged continue in the agent."""
        saver, self._saver = self._saver, None
        if saver is not None:
            saver.close()

    def __enter__(self) -> AcceleratorCheckpoints:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self.close()
