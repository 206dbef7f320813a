"""Brings the latest checkpoint of a run to where a Trainer looks for it."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import suppress
from typing import Any, Optional

from .._connect import connect
from ..errors import InvalidArgument, TargetExists
from ..run import Run
from ._nodes import Nodes, find_nodes

#: End of the name of a directory that a resume has renamed.
_ASIDE = re.compile(r"^(checkpoint-\d+)\.before-resume$")
#: The agent's note about the files that a restore has written.
_NOTE = re.compile(r"^\.(checkpoint-\d+)\.holdfast-[0-9a-f]+\..+\.made-0$")


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
    for name in ("writer", "attempt"):
        if name in options:
            raise InvalidArgument(f"{name}: resume only reads")
    nodes = find_nodes()
    run = _opened(nodes, uri, options)
    try:
        found = nodes.together(lambda: _find(run, version) if nodes.rank == 0 else None)[0]
        if found is None:
            return None
        target = os.path.join(output_dir, f"checkpoint-{found}")
        _restore_on_each(nodes, run, found, target)
        return target
    finally:
        if run is not None:
            run.close()


def _opened(nodes: Nodes, uri: str, options: Any) -> Optional[Run]:
    opened: list[Run] = []

    def open_run() -> None:
        if nodes.leader_index is not None:
            opened.append(connect(uri, writer=None, **options))

    try:
        nodes.together(open_run)
    except BaseException:
        for run in opened:
            run.close()
        raise
    return opened[0] if opened else None


def _find(run: Optional[Run], version: Optional[int]) -> Optional[int]:
    assert run is not None
    if version is not None:
        run.files(version)
        return version
    latest = run.latest()
    return None if latest is None else latest.version


def _restore_on_each(nodes: Nodes, run: Optional[Run], version: int, target: str) -> None:
    """Restores on rank 0, and then on each node that does not see the directory of rank 0."""
    name = nodes.gather(f".holdfast-{secrets.token_hex(8)}")[0]
    sign = os.path.join(os.path.dirname(target), name)

    def restore_first() -> None:
        if nodes.rank == 0:
            _restore(run, version, target)
            with open(sign, "x", encoding="ascii"):
                pass

    def restore_elsewhere() -> None:
        if nodes.leader_index is not None and not os.path.exists(sign):
            _restore(run, version, target)

    try:
        nodes.together(restore_first)
        nodes.together(restore_elsewhere)
        if nodes.leader_index is not None:
            _remove_old(*os.path.split(target))
    finally:
        if nodes.rank == 0 and os.path.exists(sign):
            os.unlink(sign)


def _remove_old(directory: str, restored: str) -> None:
    """Removes what earlier resumes have left: renamed directories, and notes of the agent.

    A note is removed if the Trainer has removed the directory that it is about.
    """
    with suppress(OSError):
        for name in os.listdir(directory):
            path = os.path.join(directory, name)
            aside, noted = _ASIDE.match(name), _NOTE.match(name)
            if aside is not None and aside[1] != restored:
                shutil.rmtree(path, ignore_errors=True)
            elif noted is not None and not os.path.lexists(os.path.join(directory, noted[1])):
                with suppress(FileNotFoundError):
                    os.unlink(path)


def _restore(run: Optional[Run], version: int, target: str) -> None:
    assert run is not None
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        run.restore(target, version, replace=True)
    except TargetExists:
        # The Trainer has written it, and may have been killed meanwhile.
        before = f"{target}.before-resume"
        shutil.rmtree(before, ignore_errors=True)
        os.rename(target, before)
        run.restore(target, version)
