"""What the classes that save directories of a job share."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Mapping, Optional, TypeVar

from ._directory_saver import DirectorySaver
from ._nodes import find_nodes

_Self = TypeVar("_Self", bound="SavesDirectories")


class SavesDirectories:
    """Joins the run at its first save. Each rank makes one, and all ranks call its methods."""

    def __init__(
        self,
        uri: str,
        *,
        remove_local: bool,
        save_timeout: Optional[float],
        options: Mapping[str, Any],
    ) -> None:
        self._uri = uri
        self._remove_local = remove_local
        self._save_timeout = save_timeout
        self._options = options
        self._saver: Optional[DirectorySaver] = None

    def finish(self, timeout: Optional[float] = None) -> None:
        """Waits until all versions are committed. ``TimedOut``: some are still in progress."""
        if self._saver is not None:
            self._saver.finish(timeout)

    def close(self) -> None:
        """Leaves the run. Saves that are staged continue in the agent."""
        saver, self._saver = self._saver, None
        if saver is not None:
            saver.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self.close()

    def _joined(self) -> DirectorySaver:
        """Joins before the trainer writes, so that a job that may not save ends at once."""
        if self._saver is None:
            self._saver = DirectorySaver(
                self._uri, find_nodes(), remove_local=self._remove_local, options=self._options
            )
        return self._saver

    def _save_directory(
        self, directory: str, version: int, metrics: Mapping[str, float] = {}
    ) -> None:
        self._joined().save(directory, version, metrics, timeout=self._save_timeout)
