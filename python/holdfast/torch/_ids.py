"""Ids of checkpoints, as programs that use DCP form them: the run, and in its last part the step."""

from __future__ import annotations

import os
from typing import NamedTuple, Optional, Union

from .._framework_ids import EATEN_SLASH, LATEST, NUMBER_AT_END
from .._arguments import check_version
from ..errors import InvalidArgument

CheckpointId = Union[str, int, "os.PathLike[str]"]



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
    if not isinstance(checkpoint_id, (str, os.PathLike)):
        raise InvalidArgument(
            f"checkpoint_id: expected str or int, got {type(checkpoint_id).__name__}"
        )
    text = os.fspath(checkpoint_id)
    if not isinstance(text, str):
        raise InvalidArgument(f"checkpoint_id: expected str or int, got {type(text).__name__}")
    if EATEN_SLASH.match(text):
        raise InvalidArgument(
            f"checkpoint_id: {text!r} was a URI before pathlib removed a slash; pass it as str"
        )
    uri, _, last = text.rstrip("/").rpartition("/")
    if "?" in last or "#" in last:
        raise InvalidArgument(
            f"checkpoint_id: {_without_query(text)!r} has its version before the settings of the store; put "
            "it behind them, as in s3://bucket/run?region=eu-1/step-100"
        )
    if uri.startswith("/") or text.startswith("/"):
        raise InvalidArgument(
            f"checkpoint_id: {text!r} is a path, and a run has a URI; for a directory, pass "
            "file:///path/of/run/step-100"
        )
    if last == LATEST:
        return ParsedId(_run_of(uri, text), None)
    found = NUMBER_AT_END.match(last)
    if found is None:
        raise InvalidArgument(
            f"checkpoint_id: {_without_query(text)!r} has no version; its last part has to end in a "
            "number, as in s3://bucket/run/step-100"
        )
    return ParsedId(_run_of(uri, text), check_version(int(found.group(1))))


def _run_of(uri: str, text: str) -> Optional[str]:
    if uri.endswith("/"):
        raise InvalidArgument(
            f"checkpoint_id: {_without_query(text)!r} names no run; expected as in s3://bucket/run/step-100"
        )
    return uri or None


def _without_query(text: str) -> str:
    """Settings of a store may hold what does not belong into a log."""
    return text.partition("?")[0]
