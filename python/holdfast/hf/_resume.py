"""Brings the latest checkpoint of a run to where a Trainer looks for it."""

from __future__ import annotations

from typing import Any, Optional

from .._directory_resume import Naming, resume_directory

NAMING = Naming("checkpoint-{version}")


def resume(
    uri: str, output_dir: str, *, version: Optional[int] = None, **options: Any
) -> Optional[str]:
    """Restores a version, by default the latest, to ``output_dir/checkpoint-N`` on every node.

    Returns the path of the directory, on all ranks, for
    ``trainer.train(resume_from_checkpoint=...)``. ``None``: the run has no checkpoint yet, so
    the training begins anew. Collective if ``torch.distributed`` is initialized, as after
    ``TrainingArguments`` was made: all ranks restore the same version, and nodes that share
    the directory restore it once.

    A directory of this name that the Trainer has written, perhaps in part, is renamed to
    ``checkpoint-N.before-resume``. A later resume removes it. ``options`` are those of
    ``holdfast.connect``.

    ``Corrupt``: there are checkpoints, and none can be loaded. ``NotFound``: not this ``version``.
    """
    found = resume_directory(
        uri, output_dir, naming=NAMING, trackers={}, version=version, options=options
    )
    return None if found is None else found.path
