"""Loads and saves the state of a train loop."""

from __future__ import annotations

import errno
import logging
from typing import Any, Callable, Optional

from ..errors import Conflict, Corrupt, HoldfastError, NotFound, OutcomeUnknown
from .checkpoint._contract import STATE_KEY
from .coordinator import NonRetryableException, StopException, is_kind

log = logging.getLogger("holdfast")


def load_newest(manager: Any, state: Any, reset: Callable[[], None]) -> None:
    """Loads the newest checkpoint that is whole. Does nothing if there is none at all.

    One that is damaged, or that ``State.load`` cannot read, is skipped with a warning. ``reset``
    is called before an older one is tried. If none is whole, raises the error of the newest:
    training from the beginning would silently lose all that was trained.
    """
    latest = manager.get_latest_checkpoint()
    if latest is None:
        if manager.list_checkpoints():
            raise Corrupt("there are checkpoints, and none of them can be loaded")
        return
    failure = _try_loading(latest, state)
    if failure is None:
        return
    newest = getattr(latest, "sequence_id", None)
    for older in manager.list_checkpoints() if newest is not None else ():
        if older.sequence_id >= newest:
            continue
        reset()
        if _try_loading(older, state) is None:
            log.warning(
                "checkpoint %s cannot be used (%s): training continues from checkpoint %s",
                *(newest, failure, older.sequence_id),
            )
            return
    if isinstance(failure, HoldfastError):
        raise failure
    raise Corrupt(f"checkpoint {newest} could not be loaded: {failure!r}") from failure


def _try_loading(checkpoint: Any, state: Any) -> Optional[Exception]:
    """Why the checkpoint cannot be used. Errors that say nothing about its bytes are raised."""
    try:
        with checkpoint.open_input_stream(STATE_KEY) as stream:
            state.load(stream)
    except Exception as error:
        if not _is_about_bytes(error):
            raise
        return error
    return None


def _is_about_bytes(error: Exception) -> bool:
    if isinstance(error, HoldfastError):
        return isinstance(error, (Corrupt, NotFound))
    if isinstance(error, OSError):
        return error.errno == errno.ENOENT
    is_of_loop = is_kind(error, StopException) or is_kind(error, NonRetryableException)
    return not is_of_loop and not isinstance(error, MemoryError)


def save(manager: Any, state: Any) -> None:
    """Saves the state as the next checkpoint. A failed one is discarded."""
    checkpoint = manager.create_checkpoint()
    try:
        with checkpoint.open_output_stream(STATE_KEY) as stream:
            state.save(stream)
        checkpoint.commit()
    except BaseException:
        try:
            checkpoint.discard()
        except Exception as error:
            # The failure of the save is the one to report.
            log.warning("a checkpoint that failed could not be discarded: %s", error)
        raise


def may_pass(error: Exception) -> bool:
    """Whether a later save may succeed. If so, the training continues without this checkpoint."""
    if isinstance(error, HoldfastError):
        return error.retryable or isinstance(error, (OutcomeUnknown, Conflict))
    return isinstance(error, RuntimeError)
