"""Refuses versions of other packages that the plugins were not made for."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from .errors import Unsupported

_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


def require(package: str, oldest: str, extra: str) -> None:
    """``Unsupported``: ``package`` is older than ``oldest``, or is not installed.

    ``extra``: the extra of Holdfast that installs it.
    """
    try:
        found = version(package)
    except PackageNotFoundError:
        raise Unsupported(
            f"{package} is not installed: pip install 'holdfast[{extra}]'", {"package": package}
        ) from None
    if _numbers(found) < _numbers(oldest):
        raise Unsupported(
            f"{package} {found} is installed, and holdfast needs {oldest} or newer: "
            f"pip install 'holdfast[{extra}]'",
            {"package": package, "found": found, "oldest": oldest},
        )


def _numbers(text: str) -> tuple[int, ...]:
    """``2.15.0+cpu`` is 2, 15, 0. A version without a number is older than all others."""
    found = _NUMBERS.match(text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()
