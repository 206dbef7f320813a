"""``save_state`` and ``load_state`` of accelerate, to and from a run."""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional

from accelerate import Accelerator

from .._saves_directories import SavesDirectories
from ..errors import InvalidArgument
from ._resume import NAMING, resume


class AcceleratorCheckpoints(SavesDirectories):
    """Checkpoints of an ``Accelerator`` as versions of a run. Each rank makes one and calls it.

    ``directory``: where accelerate writes and reads, on a disk with room for two checkpoints.
    ``remove_local``: removes what was written there when it is committed, if it is still as it
    was saved. ``save_timeout``:
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
        super().__init__(
            uri, remove_local=remove_local, save_timeout=save_timeout, options=options
        )
        self._accelerator = accelerator
        self._directory = directory

    def save_state(
        self, version: int, *, metrics: Mapping[str, float] = {}, **save_options: Any
    ) -> None:
        """Has accelerate write its state, and begins to save it as this version.

        The training continues when the agent has opened the files. A save that fails is raised by
        the next call, on all ranks. ``save_options`` are those of ``Accelerator.save_state``.
        """
        self._joined()
        target = os.path.join(self._directory, NAMING.of(version))
        self._accelerator.save_state(target, **save_options)
        self._save_directory(target, version, metrics)

    def load_state(self, version: Optional[int] = None, **load_options: Any) -> Optional[int]:
        """Restores a version, by default the latest, and has accelerate load it.

        Returns the version. ``None``: the run has no checkpoint yet, and nothing was loaded.
        """
        found = resume(self._uri, self._directory, version=version, **self._options)
        if found is None:
            return None
        self._accelerator.load_state(found, **load_options)
        return NAMING.version_in(os.path.basename(found))
