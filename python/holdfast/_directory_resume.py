"""Brings a checkpoint of a run to where a trainer looks for it."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import suppress
from typing import Any, Mapping, NamedTuple, Optional

from ._arguments import VERSION_MAX
from ._connect import connect
from ._nodes import Nodes, find_nodes
from .checkpoint import Checkpoint
from .errors import InvalidArgument, TargetExists
from .run import Run

_ASIDE = ".before-resume"


class Resumed(NamedTuple):
    version: int
    #: Of the directory.
    path: str


class Naming:
    """Names of the directories of one trainer.

    ``InvalidArgument``: the template has no version, or would lead elsewhere.
    """

    def __init__(self, template: str) -> None:
        hint = "expected the name of a directory with {version} in it, as in step-{version}"
        try:
            names = [template.format(version=version) for version in (1, 2)]
        except (AttributeError, IndexError, KeyError, ValueError):
            raise InvalidArgument(f"name: {template!r}; {hint}") from None
        if names[0] == names[1] or any(os.path.basename(name) != name for name in names):
            raise InvalidArgument(f"name: {template!r}; {hint}")
        self._template = template
        before, _, after = template.partition("{")
        ends = re.escape(before), re.escape(after.partition("}")[2])
        self._own = re.compile(rf"{ends[0]}(\d+){ends[1]}")
        one = rf"{ends[0]}\d+{ends[1]}"
        #: A directory that a resume has renamed.
        self.aside = re.compile(rf"^({one}){re.escape(_ASIDE)}$")
        #: The agent's note about the files that a restore has written.
        self.note = re.compile(rf"^\.({one})\.holdfast-[0-9a-f]+\..+\.made-0$")

    def of(self, version: int) -> str:
        return self._template.format(version=version)

    def version_in(self, name: str) -> Optional[int]:
        """The version whose directory has this name. ``None``: it is another name."""
        found = self._own.fullmatch(name)
        version = -1 if found is None else int(found[1])
        return version if 0 <= version <= VERSION_MAX and self.of(version) == name else None


def check_trackers(trackers: Mapping[str, str]) -> None:
    """``InvalidArgument``: the name of a file leads elsewhere, or its content has another field."""
    for name, content in trackers.items():
        try:
            content.format(version=1)
        except (AttributeError, IndexError, KeyError, ValueError):
            raise InvalidArgument(
                f"trackers: {content!r} of {name!r}; expected text, with {{version}} for the version"
            ) from None
        if not name or os.path.basename(name) != name:
            raise InvalidArgument(f"trackers: {name!r}; expected the name of a file")


def resume_directory(
    uri: str,
    parent: str,
    *,
    naming: Naming,
    trackers: Mapping[str, str],
    version: Optional[int],
    options: Mapping[str, Any],
) -> Optional[Resumed]:
    """Restores a version, by default the latest, to its directory in ``parent`` on every node.

    Collective, and returns the same on all ranks. Each node gets the checkpoint that rank 0 has
    found. ``NotFound``: it was removed meanwhile. ``None``: the run has no checkpoint yet.
    ``trackers``: the contents of files in ``parent`` by their names. They are replaced when the
    directory is whole.

    A directory of this name that the trainer has written, perhaps in part, is renamed. It gets
    ``.before-resume`` behind its name, and a later call removes it.
    """
    for option in ("writer", "attempt"):
        if option in options:
            raise InvalidArgument(f"{option}: resume only reads")
    nodes = find_nodes()
    run = _opened(nodes, uri, options)
    try:
        found = nodes.together(lambda: _find(run, version) if nodes.rank == 0 else None)[0]
        if found is None:
            return None
        target = os.path.join(parent, naming.of(found.version))
        _restore_on_each(nodes, run, found, target, naming)

        def point() -> None:
            for tracker, content in trackers.items() if nodes.leader_index is not None else ():
                _replace(os.path.join(parent, tracker), content.format(version=found.version))

        nodes.together(point)
        return Resumed(found.version, target)
    finally:
        if run is not None:
            run.close()


def _replace(path: str, content: str) -> None:
    """Another process reads the whole old content or the whole new one."""
    draft = f"{path}.holdfast-{secrets.token_hex(8)}"
    try:
        with open(draft, "x", encoding="utf-8") as file:
            file.write(content)
        os.replace(draft, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)


def _opened(nodes: Nodes, uri: str, options: Mapping[str, Any]) -> Optional[Run]:
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


def _find(run: Optional[Run], version: Optional[int]) -> Optional[Checkpoint]:
    assert run is not None
    if version is not None:
        return run._reader.details(version, run._begin())[0]
    return run.latest()


def _restore_on_each(
    nodes: Nodes, run: Optional[Run], found: Checkpoint, target: str, naming: Naming
) -> None:
    """Restores on rank 0, and then on each node that does not see the directory of rank 0."""
    name = nodes.gather(f".holdfast-{secrets.token_hex(8)}")[0]
    sign = os.path.join(os.path.dirname(target), name)

    def restore_first() -> None:
        if nodes.rank == 0:
            _restore(run, found, target)
            with open(sign, "x", encoding="ascii"):
                pass

    def restore_elsewhere() -> None:
        if nodes.leader_index is not None and not os.path.exists(sign):
            _restore(run, found, target)

    try:
        nodes.together(restore_first)
        nodes.together(restore_elsewhere)
        if nodes.leader_index is not None:
            _remove_old(*os.path.split(target), naming)
    finally:
        if nodes.rank == 0 and os.path.exists(sign):
            os.unlink(sign)


def _remove_old(directory: str, restored: str, naming: Naming) -> None:
    """Removes what earlier resumes have left: renamed directories, and notes of the agent.

    A note is removed if the trainer has removed the directory that it is about.
    """
    with suppress(OSError):
        for name in os.listdir(directory):
            path = os.path.join(directory, name)
            aside, noted = naming.aside.match(name), naming.note.match(name)
            if aside is not None and aside[1] != restored:
                _remove(path)
            elif noted is not None and not os.path.lexists(os.path.join(directory, noted[1])):
                with suppress(FileNotFoundError):
                    os.unlink(path)


def _restore(run: Optional[Run], found: Checkpoint, target: str) -> None:
    assert run is not None
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        run.restore(target, found, replace=True)
    except TargetExists as error:
        # The trainer has written it, and may have been killed meanwhile.
        before = f"{target}{_ASIDE}"
        _remove(before)
        try:
            os.rename(target, before)
        except OSError as problem:
            message = f"{error.message}; it cannot be renamed to {before}: {problem.strerror}"
            raise TargetExists(message, error.details) from problem
        run.restore(target, found)


def _remove(path: str) -> None:
    """What a resume has renamed: a directory, or a link to one, whose target stays."""
    with suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
