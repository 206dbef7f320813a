"""Brings a checkpoint of a run to where DeepSpeed looks for it."""

from __future__ import annotations

import os
from typing import Any, Optional

from .._directory_resume import Naming, resume_directory

_NAME = "global_step{version}"


def resume(
    uri: str, load_dir: str, *, version: Optional[int] = None, **options: Any
) -> Optional[str]:
    """Restores a version, by default the latest, to ``load_dir/global_stepN`` on every node.

    Returns the tag, on all ranks, for ``engine.load_checkpoint(load_dir, tag)``. The file
    ``latest`` names it too. ``None``: the run has no checkpoint yet. Call it on all ranks, after
    ``deepspeed.initialize``.

    A directory of this name that DeepSpeed has written, perhaps in part, is renamed to
    ``global_stepN.before-resume``. A later resume removes it. ``options`` are those of
    ``holdfast.connect``.

    ``Corrupt``: there are checkpoints, and none can be loaded. ``NotFound``: not this ``version``.
    """
    found = resume_directory(
        uri,
        load_dir,
        naming=Naming(_NAME),
        trackers={"latest": _NAME},
        version=version,
        options=options,
    )
    return None if found is None else os.path.basename(found.path)
