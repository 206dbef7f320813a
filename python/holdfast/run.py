"""A run, as one process of a trainer sees it."""

from __future__ import annotations

import io
import os
import time
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Mapping, Optional, overload

from ._arguments import (
    VERSION_MAX,
    FilePath,
    check_choice,
    check_flag,
    check_globs,
    check_integer,
    check_text,
    check_timeout,
    check_version,
)
from ._link import Link
from ._payload import DEFAULT_ARRAYS_NAME, Payload
from ._reader import Reader, Version, version_of, writable_bytes
from ._saving import Saver, Staged, WhenBusy, extras
from .checkpoint import Checkpoint, File, Restored, Which
from .errors import HoldfastError, InvalidArgument, TimedOut
from .handle import Handle

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_open_runs: weakref.WeakSet[Run] = weakref.WeakSet()


class Run:
    """Saves and reads checkpoints of one run. ``holdfast.connect`` makes it.

    Safe for threads: a call that waits does not block the calls of other threads. Safe for
    forks: a child shares no connection and no segment with its parent. It joins as a new life of
    the writer when it saves for the first time, and that fences the parent.

    Calls that read take the number of a version, or a ``Checkpoint``. After a rollback, or if the
    run is removed and begun again, another checkpoint may get the number. ``NotFound``: the
    ``Checkpoint`` is no longer there.

    The failure of a save is raised by the next call of the run, once, unless ``Handle.wait`` has
    raised it before. Each call raises ``AgentUnavailable`` if the agent does not answer for the
    ``timeout`` of ``connect``, and ``Unavailable`` if the agent answers and the store does not. A
    call with a ``timeout`` of its own may end 2 s later than that if the agent does not answer.
    """

    def __init__(
        self, link: Link, uri: str, join: Optional[Mapping[str, Any]], timeout: float
    ) -> None:
        self._link = link
        self._timeout = timeout
        self._join = join
        self._saver = Saver(link, join, timeout)
        self._reader = Reader(link, uri)
        self._is_closed = False
        _open_runs.add(self)
        if join is not None:
            try:
                self._saver.joined()
            except BaseException:
                link.close()
                raise

    @property
    def uri(self) -> str:
        return self._reader.uri

    @property
    def attempt(self) -> Optional[str]:
        """The attempt that this writer belongs to. ``None``: the run was opened to read."""
        return None if self._join is None else str(self._join["attempt"])

    @overload
    def save(
        self,
        version: int,
        *,
        files: Optional[Mapping[str, FilePath]] = ...,
        buffers: Optional[Mapping[str, ReadableBuffer]] = ...,
        arrays: Optional[Mapping[str, Any]] = ...,
        arrays_name: str = ...,
        metrics: Optional[Mapping[str, float]] = ...,
        metadata: Optional[Mapping[str, str]] = ...,
        sealed: bool = ...,
        timeout: Optional[float] = ...,
        when_busy: Literal["wait", "raise"] = ...,
    ) -> Handle: ...

    @overload
    def save(
        self,
        version: int,
        *,
        files: Optional[Mapping[str, FilePath]] = ...,
        buffers: Optional[Mapping[str, ReadableBuffer]] = ...,
        arrays: Optional[Mapping[str, Any]] = ...,
        arrays_name: str = ...,
        metrics: Optional[Mapping[str, float]] = ...,
        metadata: Optional[Mapping[str, str]] = ...,
        sealed: bool = ...,
        timeout: Optional[float] = ...,
        when_busy: Literal["skip"],
    ) -> Optional[Handle]: ...

    def save(
        self,
        version: int,
        *,
        files: Optional[Mapping[str, FilePath]] = None,
        buffers: Optional[Mapping[str, ReadableBuffer]] = None,
        arrays: Optional[Mapping[str, Any]] = None,
        arrays_name: str = DEFAULT_ARRAYS_NAME,
        metrics: Optional[Mapping[str, float]] = None,
        metadata: Optional[Mapping[str, str]] = None,
        sealed: bool = True,
        timeout: Optional[float] = None,
        when_busy: WhenBusy = "wait",
    ) -> Optional[Handle]:
        """Begins to save this writer's part of a version, and returns when it is ``staged``.

        ``version``: 0 to 2**63 - 1, above those that this life has saved. ``files``: paths by the
        names of the files in the checkpoint. The agent has opened them when this returns. Do not
        change them until the save is ``delivered``. ``buffers``: bytes by names. ``arrays``: arrays
        by names, for one safetensors file ``arrays_name``. Buffers and arrays are copied once. They
        may be changed when this returns.

        ``metrics``: finite numbers. ``metadata``: strings by names. ``sealed``: false if
        ``Handle.seal`` adds more; until then the save is not ``staged``.

        ``timeout``: seconds from now until the checkpoint must be committed; ``None``: as the
        agent is configured. ``when_busy``: what to do if two earlier saves still use both segments:
        ``wait`` for one, ``skip`` this save and return ``None``, or ``raise`` ``Unavailable``.

        ``InvalidArgument``, ``Unsupported``: an argument. ``NoStagingSpace``: no memory for the
        copy. ``Fenced``: another process has taken over this writer. ``Conflict``: the version is
        decided with other content. ``TimedOut``: no segment became free. ``AgentUnavailable``: there
        was no answer. The agent may still begin this save later: with the present content, or not
        at all if that no longer exists.
        """
        end = _end_of(timeout)
        self._begin(end)
        number = check_version(version)
        check_choice("when_busy", when_busy, ("wait", "skip", "raise"))
        check_flag("sealed", sealed)
        payload = Payload(files, buffers, arrays, arrays_name)
        body = {"version": str(number), "sealed": sealed, **extras(metrics, metadata)}
        begun = self._saver.save(payload, body, end, when_busy)
        return None if begun is None else Handle(self._saver, *begun)

    def latest(self) -> Optional[Checkpoint]:
        """The newest committed checkpoint. ``None``: nothing was ever committed.

        ``Corrupt``: checkpoints were committed, and none of them can be loaded.
        """
        return self._reader.latest(self._begin())

    def versions(self, limit: Optional[int] = None) -> list[Checkpoint]:
        """Committed checkpoints, newest first, also those that cannot be loaded any more: a retired,
        quarantined or left behind one has ``is_loadable`` false. ``NotFound``: there is no run at the URI.
        """
        return self._reader.versions(limit, self._begin())

    def files(self, version: Optional[Which] = None) -> list[File]:
        """The files of a version, by default of the latest. ``NotFound``: there is none."""
        return self._reader.details(version, self._begin())[1]

    def restore(
        self,
        to: FilePath,
        version: Optional[Which] = None,
        *,
        only: Optional[list[str]] = None,
        on_corrupt: Optional[Literal["fail", "fallback"]] = None,
        replace: bool = False,
        mtimes: bool = False,
        timeout: Optional[float] = None,
    ) -> Restored:
        """Has the agent write a version, by default the latest, into the directory ``to``.

        ``only``: names of files, or globs such as ``*.pt``, at least one. ``on_corrupt``: ``fallback`` restores an earlier version if this
        one is damaged. ``replace``: replaces what an earlier restore has written. ``mtimes``: files
        get the times of their sources. ``timeout`` in seconds; the restore is stopped then.

        ``NotFound``: there is no such version, no match of ``only``, or no file of one of its
        names. ``TargetExists``, ``Corrupt``, ``TimedOut``.
        """
        timeout = check_timeout(timeout)
        self._begin()
        if on_corrupt is not None:
            check_choice("on_corrupt", on_corrupt, ("fail", "fallback"))
        check_flag("replace", replace)
        check_flag("mtimes", mtimes)
        options = {
            "only": None if only is None else check_globs("only", only),
            "onCorrupt": on_corrupt,
            "replace": replace or None,
            "mtimes": mtimes or None,
        }
        return self._reader.restore(to, version, options, timeout, self._timeout)

    def read(self, name: str, version: Optional[Which] = None) -> bytes:
        """All bytes of a file, verified. ``NotFound``, ``Corrupt``."""
        found, file = self._reader.find(version, name, self._begin())
        data = bytearray(file.size_bytes)
        with memoryview(data) as view:
            self._reader.read_ranges(found, name, 0, [view], self._timeout)
        return bytes(data)

    def read_into(
        self,
        buffer: WriteableBuffer,
        name: str,
        version: Optional[Which] = None,
        offset: int = 0,
    ) -> None:
        """Fills ``buffer`` with verified bytes of a file, from byte ``offset`` on.

        ``InvalidArgument``: the file ends earlier, or the buffer is not writable or holds Python
        objects. ``NotFound``, ``Corrupt``. After an error, the contents of the buffer are undefined.
        """
        deadline = self._begin()
        target = writable_bytes(buffer)
        check_text("name", name, "the name of a file")
        offset = check_integer("offset", offset, 0, VERSION_MAX)
        found = self._reader.version(version, deadline)
        self._reader.read_ranges(found, name, offset, [target], self._timeout)

    def open(self, name: str, version: Optional[Which] = None) -> io.BufferedReader:
        """A file as a seekable stream of verified bytes: ``torch.load(run.open("default"))``.

        Reads from the agent what is asked for, at least 1 MiB at a time. ``NotFound``. A read
        raises ``Corrupt``.
        """
        deadline = self._begin()
        from ._stream import open_stream

        return open_stream(self._reader, version, name, deadline, self._timeout)

    def load_arrays(
        self,
        version: Optional[Which] = None,
        name: str = DEFAULT_ARRAYS_NAME,
        into: Optional[Mapping[str, Any]] = None,
    ) -> dict[str, Any]:
        """The arrays of a safetensors file, by their names.

        ``into``: arrays to fill in place, of the same types and shapes. Then only these are read,
        straight into their memory, and returned. Otherwise returns NumPy arrays that share one
        buffer, or memoryviews if NumPy is not installed. bfloat16 and float8 need the package
        ``ml_dtypes``; without it they have a NumPy type of bare bytes.

        ``InvalidArgument``: an array of ``into`` does not fit. ``NotFound``: no such version, file
        or array. ``Corrupt``: damaged, or not a safetensors file.
        """
        deadline = self._begin()
        from ._loading import load_arrays

        return load_arrays(self._reader, version, name, into, deadline, self._timeout)

    def annotate(
        self,
        version: int,
        *,
        metrics: Optional[Mapping[str, float]] = None,
        metadata: Optional[Mapping[str, str]] = None,
    ) -> None:
        """Adds metrics and metadata to a committed version. A later value of a name replaces it.

        ``Fenced``: the run that this writer joined was removed, and another one is there.
        """
        deadline = self._begin()
        given = extras(metrics, metadata)
        self._reader.annotate(check_version(version), given, self._saver.run_id, deadline)

    def pin(self, version: int, name: str) -> None:
        """Keeps retention from retiring a version until the pin of this name is removed.

        ``Fenced``: as for ``annotate``.
        """
        deadline = self._begin()
        self._reader.pin(check_version(version), name, self._saver.run_id, deadline)

    def unpin(self, version: int, name: str) -> None:
        """Removes a pin. ``NotFound``: there is no such version. ``Fenced``: as for ``annotate``."""
        deadline = self._begin()
        self._reader.unpin(check_version(version), name, self._saver.run_id, deadline)

    def request_save_model(self, trainer_id: str, block_ms: int) -> bool:
        """Whether this trainer is elected to export the model. Answers at once.

        ``True``: no other trainer is elected for ``block_ms`` from this call. It may ask again,
        which restarts its time. An error never means yes. Being elected is a hint and no lock, so
        save under the trainer's id, as ``holdfast.paddle.saving`` does.

        ``trainer_id``: a directory name of 1 to 255 bytes, without a leading dot, that no other
        trainer has. ``block_ms``: 1 ms to 7 days; use twice the time that the export takes.

        ``TimedOut``: the answer came ``block_ms`` after the call or later. Ask again.
        """
        deadline = self._begin()
        began = time.monotonic()
        is_elected = self._reader.elect(trainer_id, block_ms, deadline)
        if is_elected and time.monotonic() - began >= block_ms / 1000:
            raise TimedOut(f"{block_ms} ms had passed before the answer arrived; ask again")
        return is_elected

    def close(self) -> None:
        """Leaves the run. Saves in progress continue in the agent. Repeatable.

        Raises the failure of an earlier save if no call has raised it, after it has closed all.
        """
        if self._is_closed:
            return
        self._is_closed = True
        failure = self._saver.close()
        self._link.close()
        if failure is not None:
            raise failure

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            self.close()
        except HoldfastError:
            # The error of the block is the one to report.
            if kind is None:
                raise

    def __repr__(self) -> str:
        return f"<holdfast.Run {self.uri!r}{' closed' if self._is_closed else ''}>"

    def _stage(
        self, payload: Payload, timeout: Optional[float], room: int, when_busy: WhenBusy = "wait"
    ) -> Staged:
        """For plugins: the first half of a save, which copies. See ``Saver.stage``."""
        end = _end_of(timeout)
        self._begin(end)
        staged = self._saver.stage(payload, end, when_busy, room)
        assert staged is not None
        return staged

    def _save_tree(
        self,
        version: int,
        files: Mapping[str, FilePath],
        directories: list[str],
        *,
        buffers: Optional[Mapping[str, ReadableBuffer]] = None,
        metrics: Optional[Mapping[str, float]] = None,
        metadata: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
        in_order: bool = False,
    ) -> Handle:
        """For plugins: ``save`` with the names of empty directories.

        ``in_order``: it is committed after this writer's earlier saves have ended.
        """
        staged = self._stage(Payload(files, buffers), timeout, room=0)
        # An earlier agent refuses a field that it does not know.
        more: dict[str, Any] = {"directories": directories} if directories else {}
        if in_order:
            more["inOrder"] = True
        return self._post(staged, version, {**more, **extras(metrics, metadata)})

    def _post(self, staged: Staged, version: int, more: Mapping[str, Any]) -> Handle:
        """For plugins: the second half, which begins the save in the agent."""
        body = {"version": str(check_version(version)), "sealed": True, **more}
        return Handle(self._saver, *self._saver.post(staged, body))

    def _find(self, version: Optional[int]) -> tuple[Version, list[File]]:
        """For plugins: a version, by default the latest, and its files. ``NotFound``."""
        found, files = self._reader.details(version, self._begin())
        return version_of(found), files

    def _read_row(
        self, targets: list[memoryview], name: str, found: Version, offset: int
    ) -> None:
        """For plugins: reads bytes that follow each other, straight into ``targets``."""
        self._begin()
        self._reader.read_ranges(found, name, offset, targets, self._timeout)

    def _begin(self, end: Optional[float] = None) -> float:
        """Begins a call: raises the failure of an earlier save. Returns the call's deadline."""
        if self._is_closed:
            raise InvalidArgument("the run is closed")
        deadline = self._saver.deadline(end)
        self._saver.raise_failure(deadline)
        return deadline


def _end_of(timeout: Optional[float]) -> Optional[float]:
    timeout = check_timeout(timeout)
    return None if timeout is None else time.monotonic() + timeout


def _after_fork_in_child() -> None:
    # Otherwise the agent would take a writer for alive as long as any child of it lives.
    for run in list(_open_runs):
        run._saver.forget()


os.register_at_fork(after_in_child=_after_fork_in_child)
