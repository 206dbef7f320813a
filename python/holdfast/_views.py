"""Views of buffers that callers pass. A view of Python objects would show only their addresses."""

from __future__ import annotations

import re
import sys
from typing import Any

from .errors import InvalidArgument

# Names of fields, which are between colons.
_FIELD_NAMES = re.compile(r":[^:]*:")


def view_of(what: str, buffer: Any, otherwise: str) -> memoryview:
    """A view of the buffer. ``what``: its name in messages.

    ``InvalidArgument``: there is none, with ``otherwise`` as its message, or the buffer holds Python
    objects.
    """
    try:
        view = memoryview(buffer)
    except TypeError:
        raise InvalidArgument(otherwise) from None
    except (ValueError, BufferError) as error:
        # Such as an array of dates, or a view that was released.
        raise InvalidArgument(f"{what} gives no view of its bytes: {error}") from None
    if "O" in _FIELD_NAMES.sub("", view.format) or _is_ctype_of_objects(type(view.obj)):
        raise holds_objects(what)
    return view


def holds_objects(what: str) -> InvalidArgument:
    return InvalidArgument(
        f"{what} holds Python objects, of which it has only the addresses; pass numbers, or pickle "
        "it into a buffer"
    )


def _is_ctype_of_objects(kind: Any) -> bool:
    """The format of a union or a packed structure of ``ctypes`` does not name its members."""
    ctypes: Any = sys.modules.get("ctypes")
    if ctypes is None or not isinstance(kind, type):
        return False
    if issubclass(kind, ctypes.Array):
        return _is_ctype_of_objects(getattr(kind, "_type_", None))
    if issubclass(kind, (ctypes.Structure, ctypes.Union)):
        fields = [field for base in kind.__mro__ for field in base.__dict__.get("_fields_", ())]
        return any(_is_ctype_of_objects(field[1]) for field in fields)
    return issubclass(kind, ctypes.py_object)
