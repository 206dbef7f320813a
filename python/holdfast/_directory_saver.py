"""Saves directories that all processes of a job have written, each as one version."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, Mapping, NamedTuple, Optional

from ._attempt import attempt as drawn_attempt
from ._connect import connect
from ._link import log
from ._nodes import Nodes
from ._tree import FileFacts, Tree, tree_of
from .errors import Conflict, HoldfastError, InvalidArgument, NotFound
from .handle import Handle
from .run import Run

#: Files by their names in the checkpoint.
Listing = Mapping[str, FileFacts]
_NOTHING = Tree({}, [])


class _Local(NamedTuple):
    tree: Tree
    #: A directory that gets its name later has another.
    identity: tuple[int, int]


class _Saved(NamedTuple):
    directory: str
    handle: Handle
    #: What this node saved from.
    local: _Local
    #: The directory is to be removed when the version is committed.
    may_remove: bool


class DirectorySaver:
    """One writer for each node. All methods but ``close`` are collective: each rank calls them.

    A failure on any rank is raised on all of them, so that no rank waits for one that has stopped.
    """

    def __init__(
        self, uri: str, nodes: Nodes, *, remove_local: bool, options: Mapping[str, Any]
    ) -> None:
        self._nodes = nodes
        self._remove_local = remove_local
        self._saved: dict[int, _Saved] = {}
        self._run: Optional[Run] = None
        attempt = drawn_attempt()

        def join() -> None:
            _check(uri, options)
            index = nodes.leader_index
            if index is not None:
                writer = (index, len(nodes.leaders))
                self._run = connect(uri, attempt=attempt, writer=writer, **options)

        try:
            nodes.together(join)
        except BaseException:
            self.close()
            raise

    def save(
        self,
        directory: str,
        version: int,
        metrics: Mapping[str, float],
        *,
        timeout: Optional[float] = None,
        keep: Optional[str] = None,
    ) -> None:
        """Begins to save what all ranks have written into the directory.

        When it returns, the agent has opened every file: the directory may be removed. Its files
        must not be written to before they are delivered; such a save fails as ``SourceChanged``.
        Empty directories are kept. ``InvalidArgument``: there is a symbolic link in the directory.
        If the version was saved before, it is saved again if that save failed, or if the directory
        is not as it was saved: then it is a ``Conflict`` unless the content is the same.

        ``keep``: a directory that is not removed although its version is committed.
        """
        self._nodes.together(lambda: self._look_at_earlier(version))
        again = self._nodes.together(lambda: self._has_committed(version))
        if all(again[rank] for rank in self._nodes.leaders):
            as_saved = self._nodes.together(lambda: self._is_as_saved(directory, version))
            if all(as_saved[rank] for rank in self._nodes.leaders):
                return
        trees = self._nodes.together(lambda: self._tree(directory))
        files = shares([trees[rank].files for rank in self._nodes.leaders])
        # A directory that is empty here may have files on another node. It is not empty then.
        tree = trees[self._nodes.rank]
        # What a link leads to stays.
        may_remove = self._remove_local and not os.path.islink(directory)
        local = _Local(tree, _identity(directory))

        def begin() -> None:
            index, run = self._nodes.leader_index, self._run
            if index is None or run is None:
                return
            paths = {name: os.path.join(directory, name) for name in files[index]}
            # A writer that has no file would never deliver, and the checkpoint would wait for it.
            filler = {} if paths else {f"holdfast-node-{index}": b"\n"}
            handle = run._save_tree(
                version,
                paths,
                tree.empty_directories,
                buffers=filler,
                metrics=metrics if index == 0 else None,
                timeout=timeout,
                # Without the part of the first node, no node can commit it before an earlier one.
                in_order=index == 0 and len(self._nodes.leaders) > 1 and bool(self._saved),
            )
            self._saved[version] = _Saved(directory, handle, local, may_remove)

        self._nodes.together(begin)
        self._remove_committed(keep)

    def finish(self, timeout: Optional[float] = None, keep: Optional[str] = None) -> None:
        """Waits until all versions are committed. ``TimedOut``: they are not after ``timeout``."""

        def wait() -> None:
            for saved in list(self._saved.values()):
                saved.handle.wait("committed", timeout)

        self._nodes.together(wait)
        self._remove_committed(keep)

    def close(self) -> None:
        """Leaves the run. Saves that are staged continue in the agent."""
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def _look_at_earlier(self, now: int) -> None:
        """Raises the failure of an earlier save, unless it was of this version."""
        for version, saved in list(self._saved.items()):
            if version == now or not saved.handle.done():
                continue
            error = saved.handle.error()
            if error is not None:
                del self._saved[version]
                raise error

    def _has_committed(self, version: int) -> bool:
        """Waits for the end of an earlier save of this version. Returns whether it is committed."""
        saved = self._saved.get(version)
        if saved is None:
            return False
        try:
            saved.handle.wait("committed")
        except Conflict:
            raise
        except HoldfastError:
            # It is saved again with the files that the directory has now.
            del self._saved[version]
            return False
        return True

    def _is_as_saved(self, directory: str, version: int) -> bool:
        """Whether the directory has what this node saved. One that is gone has nothing else."""
        saved = self._saved.get(version)
        if saved is None:
            return False
        try:
            tree = self._tree(directory)
        except NotFound as error:
            return bool(error.details["path"] == directory)
        return _Local(tree, _identity(directory)) == saved.local

    def _tree(self, directory: str) -> Tree:
        if self._nodes.leader_index is None:
            return _NOTHING
        try:
            return tree_of(directory)
        except NotFound as error:
            # The Trainer makes no directory on a node that has nothing to save.
            if self._nodes.rank != 0 and error.details["path"] == directory:
                return _NOTHING
            raise

    def _remove_committed(self, keep: Optional[str]) -> None:
        for version, saved in list(self._saved.items()):
            if saved.handle.state != "committed":
                continue
            if saved.may_remove and not _is_same(saved.directory, keep):
                _remove(saved.directory, saved.local, version)
                self._saved[version] = saved._replace(may_remove=False)
            if version != max(self._saved):
                del self._saved[version]


def _check(uri: str, options: Mapping[str, Any]) -> None:
    if not isinstance(uri, str) or not uri or uri.startswith(("/", ".")):
        raise InvalidArgument(f"uri: expected a run, as s3://bucket/run or an alias, got {uri!r}")
    for name in ("writer", "attempt"):
        if name in options:
            raise InvalidArgument(f"{name}: the ranks of torch.distributed give it")


def shares(listings: list[Listing]) -> list[list[str]]:
    """Which files each node saves, so that each file is saved once.

    Nodes may share the directory, or each may have its own with other files. A file that several
    nodes see alike goes to the one that has the fewest bytes so far, the largest file first.
    """
    shared: list[list[str]] = [[] for _ in listings]
    sizes = [0] * len(listings)
    names = {name for each in listings for name in each}
    first = {name: next(each[name] for each in listings if name in each) for name in names}
    for name in sorted(names, key=lambda name: (-first[name][0], name)):
        alike = [index for index, each in enumerate(listings) if each.get(name) == first[name]]
        index = min(alike, key=lambda index: (sizes[index], index))
        shared[index].append(name)
        sizes[index] += first[name][0]
    return shared


def _identity(directory: str) -> tuple[int, int]:
    """Device and number. Zeros: it does not exist on this node."""
    try:
        facts = os.lstat(directory)
    except OSError:
        return (0, 0)
    return (facts.st_dev, facts.st_ino)


def _remove(directory: str, saved: _Local, version: int) -> None:
    """Removes what was saved, and nothing that came later."""
    try:
        is_as_saved = _identity(directory) == saved.identity and tree_of(directory) == saved.tree
    except NotFound:
        return
    except HoldfastError:
        is_as_saved = False
    if not is_as_saved:
        log.warning(
            "%s stays: it was changed after it was saved as version %s", directory, version
        )
        return
    for name in saved.tree.files:
        with suppress(OSError):
            os.unlink(os.path.join(directory, name))
    # What came meanwhile keeps its directory.
    for place, _, _ in os.walk(directory, topdown=False):
        with suppress(OSError):
            os.rmdir(place)


def _is_same(directory: str, other: Optional[str]) -> bool:
    return other is not None and os.path.abspath(directory) == os.path.abspath(other)
