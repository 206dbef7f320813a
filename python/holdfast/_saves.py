"""A save, as the agent describes it."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Iterator, Mapping, Optional

from ._segments import Segment, Stage
from .errors import (
    Aborted,
    Fenced,
    HoldfastError,
    Incomplete,
    OutcomeUnknown,
    Unexpected,
    error_from,
)

COMMITTED = "committed"
#: A save in one of these states never changes again.
FINAL_STATES: Mapping[str, type[HoldfastError]] = {
    COMMITTED: HoldfastError,
    "failed": Unexpected,
    "fenced": Fenced,
    "incomplete": Incomplete,
    "outcomeUnknown": OutcomeUnknown,
    "cancelled": Aborted,
}


class Save:
    """A save, as the agent last described it."""

    def __init__(self, body: Mapping[str, Any], segment: Optional[Segment]) -> None:
        self.id = str(body["saveId"])
        self.version = int(body["version"])
        self.body = body
        self.seals: Optional[Mapping[str, Any]] = None
        self.segments = [segment] if segment is not None else []
        self.fields: dict[str, Any] = {"state": "open", "durability": "none"}
        #: Whether the caller has learned of the failure, or has stopped the save.
        self.is_told = False
        self.failure: Optional[HoldfastError] = None
        #: Its writer has saved nothing else under this version.
        self.is_only = True
        #: The thread that is telling the agent of it.
        self.thread: Optional[int] = None

    @contextlib.contextmanager
    def told_by_this_thread(self) -> Iterator[None]:
        self.thread = threading.get_ident()
        try:
            yield
        finally:
            self.thread = None

    def repeated(self) -> Mapping[str, Any]:
        """The request for another agent, which asks the store if its sources are gone."""
        return {**self.body, "isRepeated": True} if self.is_only else self.body

    def bring_to(self, stage: Stage) -> None:
        """Moves its segments to the staging directory of another agent, which gets it again.

        ``NoStagingSpace``: there is no room for a copy.
        """
        for segment in self.segments:
            before = segment.path
            segment.bring_to(stage)
            if before is not None and segment.path is not None:
                self.body = _with_path(self.body, before, segment.path)
                self.seals = self.seals and _with_path(self.seals, before, segment.path)

    @property
    def state(self) -> str:
        return str(self.fields.get("state"))

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES

    def error(self) -> Optional[HoldfastError]:
        """Why the save was not committed. ``None``: it was committed, or is still in progress."""
        if not self.is_final or self.state == COMMITTED:
            return None
        told = self.fields.get("error")
        if isinstance(told, dict):
            error = error_from(told)
        else:
            missing = {"missingWriters": self.fields.get("missingWriters", [])}
            error = FINAL_STATES[self.state](f"the save ended as {self.state}", missing)
        error.details.setdefault("version", self.version)
        return error


def forgotten(save: Save) -> dict[str, Any]:
    """The final state of a save that the agent no longer knows: its outcome is unknown."""
    message = f"the agent no longer knows the save of version {save.version}"
    error = {"code": "OutcomeUnknown", "message": message, "retryable": False}
    return {**save.fields, "state": "outcomeUnknown", "error": error}


def refused(save: Save, error: HoldfastError) -> dict[str, Any]:
    """The final state of a save that a new agent refused when it was handed over again."""
    told = {
        "code": error.code,
        "message": error.message,
        "details": error.details,
        "retryable": error.retryable,
    }
    return {**save.fields, "state": "failed", "durability": "none", "error": told}


def _with_path(request: Mapping[str, Any], before: str, path: str) -> Mapping[str, Any]:
    def moved(file: Mapping[str, Any]) -> Mapping[str, Any]:
        source = file["source"]
        return {**file, "source": {**source, "path": path}} if source.get("path") == before else file

    return {**request, "files": [moved(file) for file in request.get("files", [])]}
