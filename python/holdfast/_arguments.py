"""Checks of arguments. Each raises ``InvalidArgument`` that names the argument and what it takes."""

from __future__ import annotations

import math
import os
from numbers import Real
from operator import index
from typing import Any, Mapping, Optional, Sequence, SupportsIndex, Union

from .errors import InvalidArgument

FilePath = Union[str, "os.PathLike[str]"]
VERSION_MAX = (1 << 63) - 1
#: Seconds: a week.
TIMEOUT_MAX = 7 * 24 * 3600
_SHOWN_MAX = 80


def shown(value: object) -> str:
    """A value as messages show it: short. Its own ``repr`` may fail, as that of a long integer does."""
    try:
        text = repr(value)
    except Exception:
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def check_integer(name: str, value: SupportsIndex, least: int, most: int) -> int:
    try:
        number = index(value)
    except TypeError:
        raise InvalidArgument(f"{name}: expected an integer, got {shown(value)}") from None
    if isinstance(value, bool):
        raise InvalidArgument(f"{name}: expected an integer, got {value!r}")
    if not least <= number <= most:
        raise InvalidArgument(f"{name}: expected {least} to {most}, got {shown(number)}")
    return number


def check_version(version: SupportsIndex) -> int:
    return check_integer("version", version, 0, VERSION_MAX)


def check_timeout(timeout: Optional[float]) -> Optional[float]:
    """``None``, or a number of seconds."""
    if timeout is None:
        return None
    seconds = check_seconds(timeout)
    if not 0 <= seconds <= TIMEOUT_MAX:
        raise InvalidArgument(
            f"timeout: expected seconds from 0 to {TIMEOUT_MAX}, got {shown(timeout)}"
        )
    return seconds


def check_seconds(timeout: object) -> float:
    """A number, also one of numpy, as a float."""
    if not isinstance(timeout, Real) or isinstance(timeout, bool):
        raise InvalidArgument(f"timeout: expected seconds as int or float, got {shown(timeout)}")
    try:
        return float(timeout)
    except OverflowError:
        return math.inf


def check_text(name: str, value: object, what: str = "text") -> str:
    """A string that is not empty, and that UTF-8 can hold."""
    if not isinstance(value, str) or not value:
        raise InvalidArgument(f"{name}: expected {what}, got {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{name}: {shown(value)} is not valid Unicode") from None
    return value


def check_choice(name: str, value: object, accepted: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in accepted:
        words = " or ".join(filter(None, (", ".join(accepted[:-1]), accepted[-1])))
        raise InvalidArgument(f"{name}: expected {words}, got {shown(value)}")


def check_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name}: expected True or False, got {shown(value)}")
    return value


def check_path(name: str, path: FilePath) -> str:
    """The path as text, as it was given."""
    try:
        text = os.fspath(path)
    except TypeError:
        raise InvalidArgument(f"{name}: expected a path, got {type(path).__name__}") from None
    if not isinstance(text, str):
        raise InvalidArgument(f"{name}: expected a path as str, got bytes")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{name}: its path is not valid UTF-8") from None
    if "\0" in text:
        raise InvalidArgument(f"{name}: its path contains a zero byte")
    return text


def check_globs(name: str, given: object) -> list[str]:
    """A list of names or globs, at least one."""
    if not isinstance(given, (list, tuple)) or not given:
        raise InvalidArgument(
            f"{name}: expected a list of names or globs, at least one, got {shown(given)}"
        )
    return [check_text(f"{name}[{number}]", one) for number, one in enumerate(given)]


def items_of(argument: str, given: Optional[Mapping[str, Any]]) -> list[tuple[str, Any]]:
    """Names and values of a mapping. ``None`` has none."""
    if given is None:
        return []
    if not hasattr(given, "items"):
        raise InvalidArgument(
            f"{argument}: expected a dict from names to values, got {type(given).__name__}"
        )
    items = list(given.items())
    for name, _ in items:
        if not isinstance(name, str) or not name:
            raise InvalidArgument(f"{argument}: expected names as strings, got {shown(name)}")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InvalidArgument(f"{argument}: the name {name!r} is not valid Unicode") from None
    return items


def check_metrics(metrics: Optional[Mapping[str, float]]) -> Optional[dict[str, float]]:
    """Finite numbers of any library, which become floats."""
    if metrics is None:
        return None
    checked: dict[str, float] = {}
    for name, value in items_of("metrics", metrics):
        try:
            number = float(value)
        except OverflowError:
            raise InvalidArgument(
                f"metric {name!r} is too large; expected a number that a float can hold"
            ) from None
        except Exception:
            # Each library has an error of its own for a value that is no number.
            raise InvalidArgument(
                f"metric {name!r}: expected a number, got {shown(value)}"
            ) from None
        if not math.isfinite(number):
            raise InvalidArgument(f"metric {name!r} is {number}; expected a finite number")
        checked[name] = number
    return checked


def check_metadata(metadata: Optional[Mapping[str, str]]) -> Optional[dict[str, str]]:
    """Strings by names."""
    if metadata is None:
        return None
    checked: dict[str, str] = {}
    for name, value in items_of("metadata", metadata):
        if not isinstance(value, str):
            raise InvalidArgument(f"metadata {name!r}: expected a string, got {shown(value)}")
        checked[name] = value
    return checked
