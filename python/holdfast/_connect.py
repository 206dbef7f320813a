"""Opens a run."""

from __future__ import annotations

import json
import os
import secrets
from typing import Any, Mapping, Optional

from ._arguments import FilePath, check_flag, check_path, check_text, check_timeout, items_of, shown
from ._link import Link, Starter
from ._place import AgentPlace, find_place
from ._version import __version__
from .errors import InvalidArgument, InvalidConfig
from .run import Run

_TOKEN_BYTES_MAX = 4096
# The largest integer that JSON numbers hold exactly.
_WRITERS_MAX = (1 << 53) - 1


def connect(
    uri: str,
    *,
    attempt: Optional[str] = None,
    writer: Optional[tuple[int, int]] = (0, 1),
    agent: Optional[FilePath] = None,
    start: Optional[bool] = None,
    stage: Optional[FilePath] = None,
    retention: Optional[Mapping[str, Any]] = None,
    timeout: float = 30.0,
) -> Run:
    """Joins a run by the agent of this node. Use it as a context manager, or call ``close``.

    ``uri``: the run, or an alias of the agent's configuration. ``attempt``: the same for all
    writers of one incarnation of the job, and for no other; see ``holdfast.attempt``. Default:
    ``HOLDFAST_ATTEMPT``, else a drawn one if there is one writer. ``writer``: index and count, as
    ``(rank, size)``. From here on no earlier attempt or life of this writer can commit. ``None``:
    only reads, and disturbs no writer.

    ``agent``: the path of the socket. Default: ``HOLDFAST_AGENT``, else ``agent.sock`` in
    ``$XDG_RUNTIME_DIR/holdfast`` or ``/tmp/holdfast-UID``. ``start``: starts the agent if none
    runs; default ``HOLDFAST_AGENT_START``. ``stage``: its directory for segments, if it is started.
    ``retention``: which checkpoints the run keeps.

    ``timeout``: seconds until an agent that does not answer is ``AgentUnavailable``, also for the
    calls of the run. ``InvalidConfig``: other users could be behind the socket. ``Fenced``: a newer
    attempt owns the run. ``WorldSizeMismatch``: writers of this attempt disagree on the count.
    """
    check_text("uri", uri, "the URI of a run")
    timeout_seconds = check_timeout(timeout)
    if not timeout_seconds:
        raise InvalidArgument(f"timeout: expected seconds above 0, got {timeout!r}")
    if start is not None:
        check_flag("start", start)
    place = find_place(None if agent is None else check_path("agent", agent))
    is_started = os.environ.get("HOLDFAST_AGENT_START", "") in ("1", "true") if start is None else start
    starter = _starter(place, None if stage is None else check_path("stage", stage)) if is_started else None
    join: Optional[dict[str, Any]] = None
    if writer is not None:
        index, count = _checked_writer(writer)
        join = {
            "uri": uri,
            "attempt": _checked_attempt(attempt, count),
            "index": index,
            "count": count,
            "clientVersion": __version__,
        }
        if retention is not None:
            join["retention"] = _checked_retention(retention)
    elif attempt is not None or retention is not None:
        raise InvalidArgument("attempt and retention are of a writer, and writer is None")
    return Run(Link(place, _token(), starter), uri, join, timeout_seconds)


def _starter(place: AgentPlace, stage: Optional[str]) -> Starter:
    def start(deadline: float) -> None:
        from ._start import start_agent

        start_agent(place, None if stage is None else os.path.abspath(stage), deadline)

    return start


def _checked_writer(writer: tuple[int, int]) -> tuple[int, int]:
    try:
        index, count = (int(number.__index__()) for number in writer)
    except (TypeError, ValueError, AttributeError):
        raise InvalidArgument(f"writer: expected (index, count), got {shown(writer)}") from None
    if not 0 <= index < count <= _WRITERS_MAX:
        raise InvalidArgument(f"writer: expected an index below the count, got {shown(writer)}")
    return index, count


def _checked_attempt(attempt: Optional[str], count: int) -> str:
    given = attempt if attempt is not None else os.environ.get("HOLDFAST_ATTEMPT") or None
    if given is None:
        if count > 1:
            raise InvalidArgument(
                f"{count} writers need the same attempt: connect(…, attempt=holdfast.attempt(…)), "
                "or set HOLDFAST_ATTEMPT"
            )
        return secrets.token_hex(16)
    if not isinstance(given, str) or not given.strip() or len(given) > 256:
        raise InvalidArgument(f"attempt: expected 1 to 256 characters, got {shown(given)}")
    return check_text("attempt", given)


def _checked_retention(retention: Mapping[str, Any]) -> dict[str, Any]:
    """The agent checks the rules. Only their form must be one that a request can hold."""
    rules = dict(items_of("retention", retention))
    try:
        json.dumps(rules, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"retention: expected numbers, text, lists and dicts: {error}") from None
    return rules


def _token() -> Optional[str]:
    """The bearer token in the file that ``HOLDFAST_AGENT_TOKEN_FILE`` names."""
    path = os.environ.get("HOLDFAST_AGENT_TOKEN_FILE")
    if not path:
        return None
    try:
        with open(path, encoding="ascii") as file:
            token = file.read(_TOKEN_BYTES_MAX + 1).strip()
    except OSError as error:
        raise InvalidConfig(f"HOLDFAST_AGENT_TOKEN_FILE: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        token = ""
    if not token or len(token) > _TOKEN_BYTES_MAX or not token.isprintable() or " " in token:
        raise InvalidConfig(f"HOLDFAST_AGENT_TOKEN_FILE: {path} does not hold a token")
    return token
