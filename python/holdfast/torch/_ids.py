"""Ids of checkpoints, as programs that use DCP form them: the run, and in its last part the step."""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional, Union

from .._payload import check_version
from ..errors import InvalidArgument

CheckpointId = Union[str, int, "os.PathLike[str]"]

# A URI that a path library has normalized: `Path("s3://a/b")` prints as `s3:/a/b`.
_EATEN_SLASH = re.compile(r"^[a-z][a-z0-9+.-]*:/(?!/)")
_VERSION = re.compile(r"^(?:.*[^0-9])?([0-9]+)$")
_LATEST = "latest"


class ParsedId(NamedTuple):
    """A checkpoint id in its parts."""

    #: The run. ``None``: the id only says which version.
    uri: Optional[str]
    #: ``None``: the latest.
    version: Optional[int]


def parse_id(checkpoint_id: CheckpointId) -> ParsedId:
    """``s3://bucket/run/step-100``, ``step-100``, ``100``, or one that ends in ``latest``.

    The version is the number at the end of the last part. ``InvalidArgument``: there is none, or
    it is a path that was a URI.
    """
    if isinstance(checkpoint_id, int):
        return ParsedId(None, check_version(checkpoint_id))
    text = os.fspath(checkpoint_id)
    if not isinstance(text, str):
        raise InvalidArgument(f"checkpoint_id: expected str, got {type(checkpoint_id).__name__}")
    if _EATEN_SLASH.match(text):
        raise InvalidArgument(
            f"checkpoint_id: {text!r} was a URI before pathlib removed a slash; pass it as str"
        )
    uri, _, last = text.rstrip("/").rpartition("/")
    if last == _LATEST:
        return ParsedId(uri or None, None)
    found = _VERSION.match(last)
    if found is None:
        raise InvalidArgument(
            f"checkpoint_id: {text!r} has no version; its last part has to end in a number, "
            "as in s3://bucket/run/step-100"
        )
    if uri.endswith("/"):
        raise InvalidArgument(
            f"checkpoint_id: {text!r} names no run; expected as in s3://bucket/run/step-100"
        )
    return ParsedId(uri or None, check_version(int(found.group(1))))
