"""Checkpoints, their files and restores, as the agent describes them."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Union

from .errors import ProtocolError


class Checkpoint(NamedTuple):
    """A committed checkpoint."""

    version: int
    #: Bytes of all files.
    size_bytes: int
    file_count: int
    #: Metrics of the commit and of later annotations.
    metrics: Mapping[str, float]
    #: ``live``, ``retiring`` (it can still be undeleted) or ``quarantined`` (it is damaged).
    state: str
    is_latest: bool
    pins: tuple[str, ...]
    #: When it was committed, by the store's clock, in milliseconds since 1970.
    committed_at_ms: int
    #: All that the agent tells. A newer agent may tell more.
    fields: Mapping[str, Any]

    def __repr__(self) -> str:
        state = "" if self.state == "live" else f", {self.state}"
        return (
            f"Checkpoint(version={self.version}, size_bytes={self.size_bytes}, "
            f"file_count={self.file_count}, metrics={dict(self.metrics)}{state})"
        )

    @property
    def lineage(self) -> Optional[str]:
        """The lineage that the version belongs to."""
        identity = self.fields.get("id")
        lineage = identity.get("lineage") if isinstance(identity, dict) else None
        return None if lineage is None else str(lineage)

    @property
    def is_loadable(self) -> bool:
        """Neither retired nor damaged, and no rollback has left it behind."""
        return self.state == "live" and not self.fields.get("isLeftBehind")


#: A number, or exactly this checkpoint. After a rollback, or in a run that was begun again, another
#: one may get its number; then it is ``NotFound``.
Which = Union[int, Checkpoint]


class File(NamedTuple):
    """A file of a checkpoint."""

    name: str
    size_bytes: int
    crc32c: int
    #: Index of the writer that saved it.
    writer: int
    #: When its source was last modified, in milliseconds since 1970, if that is known.
    mtime_ms: Optional[float]
    #: Key of its object in the store, relative to the run.
    key: str


class Restored(NamedTuple):
    """The outcome of a restore."""

    version: int
    file_count: int
    size_bytes: int
    #: What was not restored, in the agent's words.
    skipped: tuple[Any, ...]
    #: Signs that a shard of ElasticDL was cut off.
    suspicions: tuple[str, ...] = ()


def checkpoint_from(fields: Mapping[str, Any]) -> Checkpoint:
    """Reads a summary. ``ProtocolError``: it is not one."""
    try:
        return Checkpoint(
            version=int(fields["version"]),
            size_bytes=int(fields.get("sizeBytes", 0)),
            file_count=int(fields.get("fileCount", 0)),
            metrics=dict(fields.get("metrics") or {}),
            state=str(fields.get("state", "")),
            is_latest=bool(fields.get("isLatest", False)),
            pins=tuple(str(pin) for pin in fields.get("pins") or ()),
            committed_at_ms=int(fields.get("committedAtMs", 0)),
            fields=dict(fields),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"the agent's answer is not a checkpoint: {error!r}") from None


def file_from(fields: Mapping[str, Any]) -> File:
    """Reads a file of a checkpoint. ``ProtocolError``: it is not one."""
    try:
        mtime_ms = fields.get("mtimeMs")
        return File(
            name=str(fields["name"]),
            size_bytes=int(fields["sizeBytes"]),
            crc32c=int(fields.get("crc32c", 0)),
            writer=int(fields.get("writer", 0)),
            mtime_ms=None if mtime_ms is None else float(mtime_ms),
            key=str(fields.get("key", "")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"the agent's answer is not a file: {error!r}") from None


def restored_from(fields: Mapping[str, Any]) -> Restored:
    """Reads a restore that has ended. ``ProtocolError``: it is not one."""
    try:
        skipped = fields.get("skipped")
        return Restored(
            version=int(fields["version"]),
            file_count=int(fields.get("fileCount", 0)),
            size_bytes=int(fields.get("sizeBytes", 0)),
            skipped=tuple(skipped) if isinstance(skipped, (list, tuple)) else (),
            suspicions=tuple(str(reason) for reason in fields.get("suspicions") or ()),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"the agent's answer is not a restore: {error!r}") from None
