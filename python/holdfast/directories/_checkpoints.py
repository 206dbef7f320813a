"""Saves and restores directories of one trainer."""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional

from .._directory_resume import Naming, check_trackers, resume_directory
from .._arguments import check_version
from .._saves_directories import SavesDirectories


class DirectoryCheckpoints(SavesDirectories):
    """Directories in ``parent``, one for each version. Each rank makes one and calls its methods.

    The ranks are those of ``torch.distributed``, or this process alone. One process of each node
    hands the files of its node to the agent. Nodes may share the directory, or have one each.

    ``parent``: where the trainer writes and reads. ``name``: of a directory in it, with the version, as in
    ``global_step_{version}`` or ``iter_{version:07d}``. ``trackers``: files in ``parent`` that name
    the checkpoint to load, as in ``{"latest": "global_step{version}"}``; ``resume`` writes them.
    ``remove_local``: removes a directory when its version is committed, if it is still as it was
    saved. ``save_timeout``: seconds from a save to its commit. Other ``options`` are those of
    ``holdfast.connect``. It joins the run at its first save.

    ``InvalidArgument``: the name has no version, or leads out of ``parent``.
    """

    def __init__(
        self,
        uri: str,
        parent: str,
        *,
        name: str = "step-{version}",
        trackers: Mapping[str, str] = {},
        remove_local: bool = False,
        save_timeout: Optional[float] = None,
        **options: Any,
    ) -> None:
        super().__init__(
            uri, remove_local=remove_local, save_timeout=save_timeout, options=options
        )
        self._parent = parent
        self._naming = Naming(name)
        check_trackers(trackers)
        self._trackers = trackers

    def path(self, version: int) -> str:
        """The directory of a version. It need not exist."""
        return os.path.join(self._parent, self._naming.of(check_version(version)))

    def save(self, version: int, *, metrics: Mapping[str, float] = {}) -> None:
        """Begins to save ``path(version)``, which every rank has written before it calls this.

        When it returns on any rank, all ranks have called it and the agents have opened every
        file: the directory may be removed, and must not be written to. A failure on one rank is
        raised on all of them. A save that fails later is raised by the next call, on all ranks.

        ``InvalidArgument``: there is a symbolic link in the directory. ``Conflict``: the version
        is committed with other content. ``Fenced``: a newer start of the job owns the run.
        """
        self._save_directory(self.path(version), version, metrics)

    def resume(self, version: Optional[int] = None) -> Optional[int]:
        """Restores a version, by default the latest, to its path on every node. Returns it.

        ``None``: the run has no checkpoint yet. A directory that the trainer has written there,
        perhaps in part, gets ``.before-resume`` behind its name, and a later call removes it. The
        trackers are written when the directory is whole.

        ``Corrupt``: there are checkpoints, and none can be loaded. ``NotFound``: not this version.
        """
        found = resume_directory(
            self._uri,
            self._parent,
            naming=self._naming,
            trackers=self._trackers,
            version=version,
            options=self._options,
        )
        return None if found is None else found.version
