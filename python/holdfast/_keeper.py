"""A thread that hands staged saves to the next agent while the trainer makes no call."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from typing import Optional, Protocol

from ._events import Events
from .errors import Fenced, HoldfastError

log = logging.getLogger("holdfast")

# How long a run that the trainer has dropped without `close` stays joined.
_LOOK_SECONDS = 5.0
# Longest time for which the thread keeps calls of the trainer waiting.
_TURN_SECONDS = 1.0


class Kept(Protocol):
    """The part of a ``Writer`` that its thread uses."""

    events: Optional[Events]
    has_left: bool

    @property
    def has_unfinished(self) -> bool: ...

    def is_settled(self) -> bool: ...

    def ensure(self, deadline: float) -> int: ...


def keep(writer: Kept) -> threading.Thread:
    """Starts the thread of a writer. It sleeps until the agent ends the stream of events."""
    thread = threading.Thread(
        target=_watch, args=(weakref.ref(writer),), name="holdfast-keeper", daemon=True
    )
    thread.start()
    return thread


def _watch(reference: weakref.ref[Kept]) -> None:
    while True:
        writer: Optional[Kept] = reference()
        if writer is None or writer.has_left:
            return
        if writer.is_settled() or not writer.has_unfinished:
            events = writer.events
            del writer
            if events is None:
                time.sleep(_TURN_SECONDS)
            else:
                events.wait_for_end(_LOOK_SECONDS)
            continue
        try:
            writer.ensure(time.monotonic() + _TURN_SECONDS)
        except Fenced:
            # The next call of the trainer gets the same answer, and raises it.
            return
        except HoldfastError as error:
            log.debug("the agent is not back yet: %r", error)
            # The next turn, or a call of the trainer, finds an agent.
            del writer
            time.sleep(_TURN_SECONDS)
