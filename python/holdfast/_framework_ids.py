"""Names of checkpoints, as frameworks form them, and URLs with the scheme ``holdfast``."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple, Optional
from urllib.parse import quote, unquote

from ._arguments import check_version
from .errors import InvalidArgument

SCHEME = "holdfast"
LATEST = "latest"
# A URL that a path library has normalized: `Path("s3://a/b")` prints as `s3:/a/b`.
EATEN_SLASH = re.compile(r"^[a-z][a-z0-9+.-]*:/(?!/)")
_RAW_URI = re.compile(r"^[a-z][a-z0-9+.-]*:(?://|$)")
# A number after "step" takes precedence, because Lightning appends `-v1` to a name that exists.
_STEP = re.compile(r"^(?:.*[^a-z])?(?:global_)?step[=_-]?([0-9]+)(?![0-9.])", re.IGNORECASE)
# A number after a point is the fraction of a decimal number, not a version.
NUMBER_AT_END = re.compile(r"^(?:.*[^0-9.])?([0-9]+)$")
_SUFFIX = re.compile(r"\.(?:ckpt|pt|pth)$")


class Place(NamedTuple):
    """A path in its parts."""

    #: The run's URI or alias. ``""``: above all runs.
    run: str
    #: ``None``: the run itself.
    version: Optional[int] = None
    #: Name of a file or directory in the version. ``""``: the version itself.
    name: str = ""


def url(run: str, version: Optional[int] = None, name: str = "") -> str:
    """The URL of a run, of a version, or of a file in it.

    ``run``: a URI or an alias of the agent. A URI is percent-encoded, so that programs which join or
    split paths see one part: ``url("s3://bucket/run", 100)`` is
    ``holdfast://s3%3A%2F%2Fbucket%2Frun/step-100``.
    """
    if not isinstance(run, str) or not run:
        raise InvalidArgument(f"run: expected the URI of a run or an alias, got {run!r}")
    parts = [quote(run, safe="")]
    if version is not None:
        parts.append(version_name(check_version(version)))
    if name:
        if version is None:
            raise InvalidArgument(f"name: {name!r} is in a version, and version is None")
        parts.append(name)
    return f"{SCHEME}://{'/'.join(parts)}"


def version_name(version: int) -> str:
    return f"step-{version}"


def version_in(name: str) -> Optional[int]:
    """``step-100``, ``100``, ``epoch=1-step=100.ckpt``: 100. ``None``: there is no version in it."""
    stem = _SUFFIX.sub("", name)
    found = _STEP.match(stem) or NUMBER_AT_END.match(stem)
    return None if found is None else check_version(int(found.group(1)))


def refuse_eaten_slash(path: str) -> None:
    """``InvalidArgument``: a path library has cut one of the two slashes of a URL.

    Code of frameworks would take it for a local directory.
    """
    if EATEN_SLASH.match(path):
        raise InvalidArgument(
            f"{path!r} was a URL before pathlib removed a slash; pass it as str"
        )


def without_scheme(path: Any) -> str:
    """The path in the form that fsspec keeps: ``RUN/VERSION/NAME``, without a slash at the end."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise InvalidArgument(f"path: expected str, got {type(path).__name__}")
    refuse_eaten_slash(text)
    text = text.removeprefix(f"{SCHEME}://")
    refuse_eaten_slash(text)
    if _RAW_URI.match(text):
        raise InvalidArgument(
            f"{SCHEME}://{text.partition('?')[0]}: the run has to be one part of the path: an alias of the "
            "agent's configuration, or its URI percent-encoded, as holdfast.fsspec.url(run, version) does"
        )
    return text.rstrip("/")


def place_of(path: Any) -> Place:
    """``InvalidArgument``: its second part has no version."""
    run, slash, rest = without_scheme(path).partition("/")
    if slash and not run:
        raise InvalidArgument(f"{path}: names no run; expected as in {SCHEME}://ALIAS/step-100")
    if not slash:
        return Place(unquote(run))
    name, _, file = rest.partition("/")
    version = version_in(name)
    if version is None:
        hint = " (holdfast.fsspec.latest_url finds the latest)" if name == LATEST else ""
        raise InvalidArgument(
            f"{SCHEME}://{run}/{rest}: {name!r} has no version; expected a name that ends in a "
            f"number, as in {SCHEME}://{run}/step-100{hint}"
        )
    return Place(unquote(run), version, file)
