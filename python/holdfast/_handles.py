"""Saves that a plugin has begun and not yet seen committed."""

from __future__ import annotations

from typing import Optional

from .errors import HoldfastError
from .handle import Handle


class Handles:
    """A failure stays until a call of the run or ``wait`` has raised it."""

    def __init__(self) -> None:
        #: The newest is the last.
        self.handles: list[Handle] = []

    def add(self, handle: Handle) -> None:
        self.handles = [one for one in self.handles if one.state != "committed"] + [handle]

    def wait(self) -> None:
        """Waits until all are committed. Raises the first failure, when all have ended."""
        handles, self.handles = self.handles, []
        failure: Optional[HoldfastError] = None
        for handle in handles:
            try:
                handle.wait("committed")
            except HoldfastError as error:
                failure = failure or error
        if failure is not None:
            raise failure
