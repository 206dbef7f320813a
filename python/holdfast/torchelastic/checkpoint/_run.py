"""Checkpoints of the train loop in a run, through the agent."""

from __future__ import annotations

import io
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Mapping, Optional, Sequence, Union, cast

from ..._connect import connect
from ...checkpoint import Which
from ...errors import InvalidArgument, NotFound
from ...run import Run
from ._contract import Checkpoint, CheckpointManager, check_key
from ._directories import old_checkpoints

_OPEN, _COMMITTED, _DISCARDED = "open", "committed", "discarded"


class _Part(io.BytesIO):
    """The bytes of a key. They outlive the stream."""

    def __init__(self) -> None:
        super().__init__()
        #: ``None``: the stream is open, or has failed.
        self.content: Optional[bytes] = None
        self._has_failed = False

    def close(self) -> None:
        if not self.closed and not self._has_failed:
            # Shares the memory of the stream.
            self.content = self.getvalue()
        super().close()

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._has_failed = kind is not None
        self.close()


class RunCheckpoint(Checkpoint):
    """A version of the run. Its keys are files."""

    def __init__(self, run: Run, which: Which, state: str) -> None:
        self.sequence_id = which if isinstance(which, int) else which.version
        self._run = run
        #: All keys are read from the same one.
        self._which = which
        self._state = state
        self._parts: dict[str, _Part] = {}

    def open_output_stream(self, key: str) -> BinaryIO:
        """Holds what is written in memory until ``commit``."""
        check_key(key)
        if self._state != _OPEN:
            raise self._error(f"is already {self._state}")
        self._parts[key] = _Part()
        return self._parts[key]

    def open_input_stream(self, key: str) -> BinaryIO:
        """A seekable stream of verified bytes. ``NotFound``; a read raises ``Corrupt``."""
        check_key(key)
        if self._state != _COMMITTED:
            raise self._error("is not committed: there is nothing to read yet")
        return cast(BinaryIO, self._run.open(key, self._which))

    def commit(self) -> None:
        """Returns when the store has the commit. The errors are those of ``Handle.wait``."""
        if self._state == _COMMITTED:
            return
        if self._state == _DISCARDED:
            raise self._error("was discarded")
        contents = {key: part.content for key, part in self._parts.items()}
        left = [key for key, content in contents.items() if content is None]
        if left:
            raise self._error(
                f"has output streams that are open or have failed: {', '.join(left)}; write those "
                "keys again"
            )
        if not contents:
            raise self._error("has no file to commit")
        self._run.save(self.sequence_id, buffers=cast("dict[str, bytes]", contents)).wait()
        self._state = _COMMITTED
        self._parts.clear()

    def discard(self) -> None:
        if self._state == _OPEN:
            self._state = _DISCARDED
            self._parts.clear()

    def _error(self, what: str) -> InvalidArgument:
        return InvalidArgument(f"checkpoint {self.sequence_id} {what}", {"version": self.sequence_id})


class RunCheckpointManager(CheckpointManager):
    """Keeps the checkpoints of ``train`` as versions of a run.

    Nothing is opened before the first call. Reading disturbs no writer. ``join``, or the first
    ``create_checkpoint``, takes the run over from whichever worker was rank 0 before.
    """

    def __init__(
        self,
        uri: str,
        *,
        old_directory: Union[str, os.PathLike[str], None] = None,
        retention: Optional[Mapping[str, Any]] = None,
        agent: Union[str, os.PathLike[str], None] = None,
        start: Optional[bool] = None,
        stage: Union[str, os.PathLike[str], None] = None,
        timeout: float = 30.0,
    ) -> None:
        """``old_directory``: checkpoints that torchelastic has left there are read as well.

        The others are those of ``holdfast.connect``.
        """
        self.uri = uri
        self._old = None if old_directory is None else os.path.abspath(os.fspath(old_directory))
        self._options: dict[str, Any] = {
            "agent": agent,
            "start": start,
            "stage": stage,
            "timeout": timeout,
        }
        self._retention = retention
        self._reader: Optional[Run] = None
        self._writer: Optional[Run] = None
        self._next_id = 0

    def create_checkpoint(self) -> RunCheckpoint:
        """Its id is above all that are there, or 0 for the first."""
        run = self._joined()
        sequence_id, self._next_id = self._next_id, self._next_id + 1
        return RunCheckpoint(run, sequence_id, _OPEN)

    def get_checkpoint(self, sequence_id: int) -> Optional[Checkpoint]:
        return next((one for one in self._all() if one.sequence_id == sequence_id), None)

    def get_latest_checkpoint(self) -> Optional[Checkpoint]:
        """``Corrupt``: checkpoints were committed to the run, and none of them can be loaded."""
        latest = self._read().latest()
        old = old_checkpoints(self._old)
        if latest is None or (old and old[0].sequence_id > latest.version):
            return old[0] if old else None
        return RunCheckpoint(self._read(), latest, _COMMITTED)

    def list_checkpoints(self) -> Sequence[Checkpoint]:
        """Those that can be loaded, newest first. A rollback has left others behind."""
        return self._all()

    def join(self) -> None:
        """Takes the run over. Until ``leave``, this worker is its only writer."""
        self._joined()

    def leave(self) -> None:
        """The next ``join`` takes the run over again."""
        run, self._writer = self._writer, None
        if run is not None:
            run.close()

    def close(self) -> None:
        """Leaves, and ends all connections. A later call opens them again."""
        run, self._reader = self._reader, None
        if run is not None:
            run.close()
        self.leave()

    def _joined(self) -> Run:
        if self._writer is not None:
            return self._writer
        # The rendezvous has made this worker rank 0, whatever incarnation the job is of.
        attempt = secrets.token_hex(16)
        run = connect(self.uri, attempt=attempt, retention=self._retention, **self._options)
        try:
            versions = [one.version for one in self._versions()]
            versions += [one.sequence_id for one in old_checkpoints(self._old)]
        except BaseException:
            run.close()
            raise
        self._next_id = max([self._next_id, *(version + 1 for version in versions)])
        self._writer = run
        return run

    def _read(self) -> Run:
        if self._reader is None:
            self._reader = connect(self.uri, writer=None, **self._options)
        return self._reader

    def _versions(self) -> list[Any]:
        try:
            return self._read().versions()
        except NotFound:
            return []

    def _all(self) -> list[Any]:
        run = self._read()
        found: dict[int, Any] = {one.sequence_id: one for one in old_checkpoints(self._old)}
        for one in self._versions():
            if one.is_loadable:
                found[one.version] = RunCheckpoint(run, one, _COMMITTED)
        return [found[number] for number in sorted(found, reverse=True)]


class FileSystemCheckpointManager(RunCheckpointManager):
    """torchelastic's manager of a directory. Its old checkpoints are read.

    New ones are versions of the run ``checkpoint_dir/holdfast``: committed as a whole, verified
    when they are read, and fenced. torchelastic does not see them.
    """

    def __init__(self, checkpoint_dir: Union[str, os.PathLike[str]], **options: Any) -> None:
        """``options``: as for ``RunCheckpointManager``."""
        directory = os.path.abspath(os.fspath(checkpoint_dir))
        super().__init__(Path(directory, "holdfast").as_uri(), old_directory=directory, **options)
