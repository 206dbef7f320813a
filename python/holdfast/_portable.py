"""Errors that go from one rank to the others."""

from __future__ import annotations

import pickle

from .errors import Unexpected


def portable(error: Exception) -> Exception:
    """An error that can be sent. One that cannot be pickled would leave the other ranks waiting."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return Unexpected(f"{type(error).__name__}: {error}")
    return error
