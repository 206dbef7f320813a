"""What the classes that work on a run of their own share."""

from __future__ import annotations

from types import TracebackType
from typing import Optional, TypeVar

from .run import Run

_Self = TypeVar("_Self", bound="HoldsRun")


class HoldsRun:
    """Closes its run at the end of a ``with`` block, as the run itself does."""

    _run: Run

    def close(self) -> None:
        """Saves in progress continue in the agent."""
        self._run.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._run.__exit__(kind, error, trace)
