"""Holdfast: training checkpoints on any object store, by the agent of this node.

    with holdfast.connect("s3://bucket/run") as run:
        handle = run.save(100, arrays=state, metrics={"loss": 0.3})
        handle.wait("committed")
        run.load_arrays(into=state)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import errors
from ._version import __version__
from .errors import *

if TYPE_CHECKING:
    from ._attempt import attempt
    from ._connect import connect
    from .checkpoint import Checkpoint, File, Restored
    from .handle import Handle
    from .run import Run

# Loaded when they are first used: HTTP alone takes longer to import than all the rest.
_PLACES = {
    "attempt": "_attempt",
    "connect": "_connect",
    "Checkpoint": "checkpoint",
    "File": "checkpoint",
    "Restored": "checkpoint",
    "Handle": "handle",
    "Run": "run",
}

__all__ = [
    "Checkpoint",
    "File",
    "Handle",
    "Restored",
    "Run",
    "__version__",
    "attempt",
    "connect",
    "errors",
]
__all__ += errors.__all__


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{place}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
