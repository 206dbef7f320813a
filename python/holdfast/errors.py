"""The errors of Holdfast: one class for each code of ``docs/errors.md``.

Catch a class, or compare ``error.code``. The message is for people and may change.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional

__all__ = [
    "ERROR_CLASSES",
    "Aborted",
    "AgentUnavailable",
    "AlreadyExists",
    "BaseGone",
    "Conflict",
    "Corrupt",
    "Denied",
    "Fenced",
    "HoldfastError",
    "Incomplete",
    "InvalidArgument",
    "InvalidConfig",
    "NoStagingSpace",
    "NotFound",
    "OutcomeUnknown",
    "ProtocolError",
    "ReadOnly",
    "SourceChanged",
    "Stale",
    "StorageFull",
    "StoreRegressed",
    "TargetExists",
    "Throttled",
    "TimedOut",
    "Unavailable",
    "Unexpected",
    "Unsupported",
    "UnsupportedFormat",
    "WorldSizeMismatch",
]


class HoldfastError(Exception):
    """The base of all errors of this package.

    ``details`` says where the error happened (version, writer, file). It never holds a secret.
    ``retryable``: the same call may succeed if it is repeated.
    """

    code: str = "Unexpected"
    retryable: bool = False

    def __init__(
        self,
        message: str,
        details: Optional[Mapping[str, Any]] = None,
        *,
        code: Optional[str] = None,
        retryable: Optional[bool] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = dict(details or {})
        if code is not None:
            self.code = code
        if retryable is not None:
            self.retryable = retryable

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.message, self.__dict__)


def _restored(cls: type[HoldfastError], message: str, state: dict[str, Any]) -> HoldfastError:
    error = cls.__new__(cls, message)
    error.args = (message,)
    error.__dict__.update(state)
    return error


class InvalidArgument(HoldfastError):
    """An argument is not valid. The message names it and says what is accepted."""

    code = "InvalidArgument"


class InvalidConfig(HoldfastError):
    """A URI, setting, socket or environment variable is not valid."""

    code = "InvalidConfig"


class WorldSizeMismatch(HoldfastError):
    """Writers of one attempt disagree on the number of writers."""

    code = "WorldSizeMismatch"


class Unsupported(HoldfastError):
    """The store or this machine lacks a capability."""

    code = "Unsupported"


class Incomplete(HoldfastError):
    """The deadline passed and other writers have not delivered."""

    code = "Incomplete"


class BaseGone(HoldfastError):
    """The checkpoint refers to objects of another checkpoint, which was removed."""

    code = "BaseGone"


class Fenced(HoldfastError):
    """A newer attempt, a rollback or a newer life of this writer owns the run. Stop."""

    code = "Fenced"


class Corrupt(HoldfastError):
    """Bytes do not match their checksum, or an object of the checkpoint is missing."""

    code = "Corrupt"


class StoreRegressed(HoldfastError):
    """The store shows an older catalog than it did before."""

    code = "StoreRegressed"


class UnsupportedFormat(HoldfastError):
    """A newer Holdfast wrote this record."""

    code = "UnsupportedFormat"


class NotFound(HoldfastError):
    """There is no such run, version or file."""

    code = "NotFound"


class AlreadyExists(HoldfastError):
    """A store already holds an object with this key."""

    code = "AlreadyExists"


class Conflict(HoldfastError):
    """The version or the save id is already decided, with other content."""

    code = "Conflict"


class TargetExists(HoldfastError):
    """The destination of a restore exists and is not empty."""

    code = "TargetExists"


class Denied(HoldfastError):
    """The store refuses the credentials, or the agent refuses a path or token."""

    code = "Denied"


class ReadOnly(HoldfastError):
    """The store or file system cannot be written."""

    code = "ReadOnly"


class StorageFull(HoldfastError):
    """The disk, bucket or quota has no room left."""

    code = "StorageFull"


class SourceChanged(HoldfastError):
    """A file changed while it was read. The save was not committed."""

    code = "SourceChanged"


class Stale(HoldfastError):
    """Files that should have changed since the last checkpoint did not change."""

    code = "Stale"


class Throttled(HoldfastError):
    """The store asks to slow down."""

    code = "Throttled"
    retryable = True


class Unavailable(HoldfastError):
    """The store or the agent does not answer."""

    code = "Unavailable"
    retryable = True


class TimedOut(HoldfastError):
    """The time for this call is over. ``details`` says what was waited for."""

    code = "TimedOut"
    retryable = True


class OutcomeUnknown(HoldfastError):
    """The deciding request was sent, and its outcome is not known. ``details['token']``."""

    code = "OutcomeUnknown"


class Aborted(HoldfastError):
    """The call was stopped before it was decided."""

    code = "Aborted"


class Unexpected(HoldfastError):
    """A bug, or an answer that Holdfast does not know."""

    code = "Unexpected"


class AgentUnavailable(Unavailable):
    """The agent of this node cannot be reached or started, or did not answer in time.

    It may still carry out the call later: a save only with the content that it had.
    """


class NoStagingSpace(StorageFull):
    """There is no room for a segment. The call had no effect."""

    def __init__(
        self, message: str, bytes_needed: int, details: Optional[Mapping[str, Any]] = None
    ) -> None:
        super().__init__(message, {**(details or {}), "bytesNeeded": bytes_needed})
        #: Bytes that the save has to stage.
        self.bytes_needed = bytes_needed


class ProtocolError(Unexpected):
    """The program at the socket gave an answer that is not an agent's."""


#: The class of each code of ``docs/errors.md``.
ERROR_CLASSES: Mapping[str, type[HoldfastError]] = {
    cls.code: cls
    for cls in (
        InvalidArgument,
        InvalidConfig,
        WorldSizeMismatch,
        Unsupported,
        Incomplete,
        BaseGone,
        Fenced,
        Corrupt,
        StoreRegressed,
        UnsupportedFormat,
        NotFound,
        AlreadyExists,
        Conflict,
        TargetExists,
        Denied,
        ReadOnly,
        StorageFull,
        SourceChanged,
        Stale,
        Throttled,
        Unavailable,
        TimedOut,
        OutcomeUnknown,
        Aborted,
        Unexpected,
    )
}


def error_from(answer: Mapping[str, Any]) -> HoldfastError:
    """The error that an agent's answer describes.

    A code of a newer agent becomes ``HoldfastError`` with that code.
    """
    code = str(answer.get("code", "Unexpected"))
    details = answer.get("details")
    cls = ERROR_CLASSES.get(code, HoldfastError)
    return cls(
        str(answer.get("message", code)),
        details if isinstance(details, dict) else None,
        code=code,
        retryable=bool(answer.get("retryable", cls.retryable)),
    )
