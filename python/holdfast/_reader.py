"""Reading from a run: summaries, files, ranges, restores. Needs no writer."""

from __future__ import annotations

import http.client
import os
import re
import secrets
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, NamedTuple, Optional

from ._arguments import FilePath, check_integer, check_path, check_text, check_version
from ._link import GRACE_SECONDS, Link
from .checkpoint import (
    Checkpoint,
    File,
    Restored,
    Which,
    checkpoint_from,
    file_from,
    restored_from,
)
from .errors import (
    Aborted,
    AgentUnavailable,
    Corrupt,
    HoldfastError,
    InvalidArgument,
    NotFound,
    ProtocolError,
    TargetExists,
    TimedOut,
    Unexpected,
    error_from,
)
from ._views import view_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_POLL_MS = 20_000
_LIMIT_MAX = 999_999_999
_BLOCK_MS_MAX = 7 * 24 * 3600 * 1000
_A_FILE = "the name of a file"
# If a connection breaks within a slice, the bytes of the slice so far are read again.
_SLICE_BYTES = 8 << 20
# A URI, also one of whose two slashes a path library has removed one.
_LOOKS_LIKE_URI = re.compile(r"^[a-z][a-z0-9+.-]*:/")


class Version(NamedTuple):
    """A checkpoint, so that several reads mean the same one."""

    number: int
    lineage: Optional[str] = None
    #: Its manifest. A run that was removed and begun again has the same numbers.
    manifest_key: Optional[str] = None

    def query(self) -> dict[str, Any]:
        which = {"version": str(self.number), "lineage": self.lineage}
        return {**which, "manifestKey": self.manifest_key}


def version_of(checkpoint: Checkpoint) -> Version:
    key = checkpoint.fields.get("manifestKey")
    return Version(checkpoint.version, checkpoint.lineage, None if key is None else str(key))


def _wanted(version: Which) -> Version:
    return version_of(version) if isinstance(version, Checkpoint) else Version(check_version(version))


class Reader:
    """Calls of one run that read. ``deadline`` is of ``time.monotonic()``."""

    def __init__(self, link: Link, uri: str) -> None:
        self._link = link
        self.uri = uri

    def latest(self, deadline: float) -> Optional[Checkpoint]:
        try:
            answer = self._link.call(
                "GET", "/v1/latest", query={"uri": self.uri}, deadline=deadline
            )
        except NotFound:
            return None
        return checkpoint_from(answer)

    def versions(self, limit: Optional[int], deadline: float) -> list[Checkpoint]:
        if limit is not None:
            limit = check_integer("limit", limit, 1, _LIMIT_MAX)
        query = {"uri": self.uri, "limit": limit}
        answer = self._link.call("GET", "/v1/versions", query=query, deadline=deadline)
        return [checkpoint_from(fields) for fields in _list_of(answer, "versions")]

    def details(self, version: Optional[Which], deadline: float) -> tuple[Checkpoint, list[File]]:
        """The version, or the latest, and its files. ``NotFound``: there is none.

        From now on the agent holds it for the reads that follow.
        """
        wanted = None if version is None else _wanted(version)
        path = f"/v1/versions/{'latest' if wanted is None else wanted.number}"
        query = {"uri": self.uri, "lineage": None if wanted is None else wanted.lineage}
        answer = self._link.call("GET", path, query=query, deadline=deadline)
        found = checkpoint_from(answer)
        if wanted is not None and wanted.manifest_key not in (None, version_of(found).manifest_key):
            raise NotFound(
                f"version {wanted.number} is another checkpoint now", {"version": wanted.number}
            )
        return found, [file_from(one) for one in _list_of(answer, "files")]

    def version(self, version: Optional[Which], deadline: float) -> Version:
        """The version, which may not exist, or the latest. ``NotFound``: nothing was committed."""
        if version is not None:
            return _wanted(version)
        latest, _ = self.details(None, deadline)
        return version_of(latest)

    def find(self, version: Optional[Which], name: str, deadline: float) -> tuple[Version, File]:
        """A file of the version, or of the latest. ``NotFound``: there is no such file."""
        check_text("name", name, _A_FILE)
        checkpoint, files = self.details(version, deadline)
        for file in files:
            if file.name == name:
                return version_of(checkpoint), file
        raise NotFound(
            f"version {checkpoint.version} has no file {name!r}",
            {"version": checkpoint.version, "file": name},
        )

    def read_ranges(
        self,
        version: Version,
        name: str,
        offset: int,
        targets: Iterable[memoryview],
        timeout: float,
    ) -> None:
        """Reads bytes from ``offset`` on straight into ``targets``, one after the other.

        Bytes are verified by the agent. An answer that is cut is asked for again from there on, of
        the same checkpoint: meanwhile another one may have got its version.
        ``timeout``: seconds without any byte; then ``AgentUnavailable``. ``Corrupt``: they do not
        match their checksum.
        """
        left = [target for target in targets if target.nbytes > 0]
        # The process id of the agent that has cut the last answer, and the offset of the cut.
        cut: Optional[tuple[int, int]] = None
        while left:
            length = sum(target.nbytes for target in left)
            done, version = self._read_once(version, name, offset, left, length, timeout)
            if done == length:
                return
            offset += done
            left = _behind(left, done)
            again = self._agent_pid(time.monotonic() + timeout), offset
            if again == cut:
                raise Corrupt(
                    f"the agent ends the answer at byte {offset} of {name!r} of version "
                    f"{version.number} each time: these bytes cannot be verified",
                    {"version": version.number, "file": name, "offset": offset},
                )
            cut = again

    def _agent_pid(self, deadline: float) -> int:
        """Distinguishes an agent that cuts its answers from the successor of one that was killed."""
        return int(self._link.call("GET", "/healthz", deadline=deadline).get("pid", 0))

    def _read_once(
        self,
        version: Version,
        name: str,
        offset: int,
        targets: list[memoryview],
        length: int,
        timeout: float,
    ) -> tuple[int, Version]:
        """Sends one request.

        Returns the number of bytes that arrived before the answer was cut, and of which checkpoint.
        """
        query = {
            "uri": self.uri,
            **version.query(),
            "name": name,
            "offset": offset,
            "length": length,
        }
        done = 0
        with suppress(ConnectionError), self._link.get(
            "/v1/files", query, time.monotonic() + timeout
        ) as response:
            if response.length != length:
                raise ProtocolError(
                    f"the agent answers {response.length} bytes instead of {length} of {name!r}"
                )
            version = _answered(response, version)
            for target in targets:
                filled = 0
                while filled < target.nbytes:
                    try:
                        count = response.readinto(target[filled : filled + _SLICE_BYTES])
                    except socket.timeout:
                        raise AgentUnavailable(
                            f"no byte of {name!r} for {timeout:g} s: the agent, or the store of "
                            f"{self.uri}, does not answer"
                        ) from None
                    except (OSError, http.client.HTTPException):
                        return done, version
                    if not count:
                        return done, version
                    filled += count
                    done += count
            # Reads to the end of the body, so that the connection can be used again.
            response.read()
        return done, version

    def restore(
        self,
        to: FilePath,
        version: Optional[Which],
        options: Mapping[str, Any],
        timeout: Optional[float],
        control_timeout: float,
    ) -> Restored:
        """Has the agent restore into a directory. It is stopped if this call ends early."""
        end = None if timeout is None else time.monotonic() + timeout
        to = check_path("to", to)
        if not to or _LOOKS_LIKE_URI.match(to):
            what = f"the URI {to!r}" if to else "an empty one"
            raise InvalidArgument(f"to: expected the path of a directory, got {what}")
        wanted = None if version is None else _wanted(version)
        was_free = _is_free(to)
        agent = self._agent(control_timeout, end)
        try:
            return self._restore(to, wanted, options, (timeout, end), control_timeout)
        except TargetExists:
            if not was_free or options.get("replace") or self._agent(control_timeout, end) == agent:
                raise
            # The agent that died may have finished the restore. Files of other origin stay.
            again = {**options, "replace": True}
            return self._restore(to, wanted, again, (timeout, end), control_timeout)

    def _agent(self, timeout: float, end: Optional[float]) -> Any:
        """Identifies the agent: its successor has another value."""
        deadline = time.monotonic() + timeout
        deadline = deadline if end is None else min(deadline, end + GRACE_SECONDS)
        health = self._link.call("GET", "/healthz", deadline=deadline)
        return health.get("pid")

    def _restore(
        self,
        to: str,
        wanted: Optional[Version],
        options: Mapping[str, Any],
        limit: tuple[Optional[float], Optional[float]],
        control_timeout: float,
    ) -> Restored:
        timeout, end = limit
        identity = secrets.token_hex(16)
        body: dict[str, Any] = {
            "restoreId": identity,
            "uri": self.uri,
            "version": "latest" if wanted is None else str(wanted.number),
            "to": os.path.abspath(to),
            **_named(wanted),
            **{name: value for name, value in options.items() if value is not None},
        }

        def call(method: str, path: str, wait_ms: int = 0, **more: Any) -> dict[str, Any]:
            deadline = time.monotonic() + control_timeout + wait_ms / 1000
            if end is not None:
                deadline = min(deadline, end + GRACE_SECONDS)
            return self._link.call(method, path, deadline=deadline, **more)

        has_ended = False
        try:
            fields = call("POST", "/v1/restores", body=body)
            while fields.get("state") == "restoring":
                left = _POLL_MS if end is None else int((end - time.monotonic()) * 1000)
                if left <= 0:
                    raise TimedOut(f"the restore did not end within {timeout:g} s; it was stopped")
                fields = _poll(call, identity, body, min(left, _POLL_MS))
            has_ended = True
        except HoldfastError as error:
            has_ended = not isinstance(error, (TimedOut, AgentUnavailable))
            raise
        finally:
            if not has_ended:
                with suppress(HoldfastError):
                    deadline = time.monotonic() + min(control_timeout, GRACE_SECONDS)
                    if end is not None:
                        deadline = min(deadline, end + GRACE_SECONDS)
                    self._link.call("DELETE", f"/v1/restores/{identity}", deadline=deadline)
        return _ended(fields)

    # ``run_id``: of the run that the caller has joined. ``Fenced``: another one is at the URI.

    def annotate(
        self, version: int, given: Mapping[str, Any], run_id: Optional[str], deadline: float
    ) -> None:
        body = {**self._at(version, run_id), **given}
        self._link.call("POST", "/v1/annotations", body, deadline=deadline)

    def pin(self, version: int, name: str, run_id: Optional[str], deadline: float) -> None:
        body = {**self._at(version, run_id), "name": check_text("name", name)}
        self._link.call("POST", "/v1/pins", body, deadline=deadline)

    def unpin(self, version: int, name: str, run_id: Optional[str], deadline: float) -> None:
        query = {**self._at(version, run_id), "name": check_text("name", name)}
        self._link.call("DELETE", "/v1/pins", query=query, deadline=deadline)

    def _at(self, version: int, run_id: Optional[str]) -> dict[str, Any]:
        of_run = {} if run_id is None else {"runId": run_id}
        return {"uri": self.uri, "version": str(version), **of_run}

    def elect(self, trainer: str, block_ms: int, deadline: float) -> bool:
        check_text("trainer_id", trainer)
        block_ms = check_integer("block_ms", block_ms, 1, _BLOCK_MS_MAX)
        body = {"uri": self.uri, "trainer": trainer, "blockMs": block_ms}
        answer = self._link.call("POST", "/v1/elections", body, deadline=deadline)
        is_granted = answer.get("isGranted")
        if not isinstance(is_granted, bool):
            raise ProtocolError("the agent's answer is not an election: it has no isGranted")
        return is_granted


def writable_bytes(buffer: WriteableBuffer) -> memoryview:
    """A flat view. ``InvalidArgument``: it is not writable or not contiguous, or holds objects."""
    view = view_of(
        "buffer", buffer, f"buffer: expected a writable buffer, got {type(buffer).__name__}"
    )
    if view.readonly or not view.c_contiguous:
        raise InvalidArgument("buffer: expected a writable and contiguous buffer")
    return view.cast("B") if view.nbytes > 0 else memoryview(bytearray())


def _answered(response: http.client.HTTPResponse, asked: Version) -> Version:
    """The checkpoint whose bytes an answer brings."""
    lineage = response.getheader("holdfast-lineage")
    key = response.getheader("holdfast-manifest-key")
    if lineage is None or key is None:
        raise ProtocolError("the agent's answer does not say of which checkpoint its bytes are")
    if asked.manifest_key not in (None, key):
        raise ProtocolError("the agent answers with bytes of another checkpoint than was asked for")
    return Version(asked.number, lineage, key)


def _named(wanted: Optional[Version]) -> dict[str, Any]:
    """What tells the checkpoint from others of its number, as far as it is known."""
    if wanted is None:
        return {}
    fields = {"lineage": wanted.lineage, "manifestKey": wanted.manifest_key}
    return {name: value for name, value in fields.items() if value is not None}


def _is_free(path: str) -> bool:
    try:
        return not os.listdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _poll(
    call: Callable[..., dict[str, Any]], identity: str, body: Mapping[str, Any], wait_ms: int
) -> dict[str, Any]:
    query = {"wait": "restored", "timeoutMs": wait_ms}
    try:
        return call("GET", f"/v1/restores/{identity}", wait_ms, query=query)
    except NotFound:
        # A restarted agent does not know the restore.
        return call("POST", "/v1/restores", body=body)


def _ended(fields: Mapping[str, Any]) -> Restored:
    if fields.get("state") == "restored":
        return restored_from(fields)
    error = fields.get("error")
    if isinstance(error, dict):
        raise error_from(error)
    if fields.get("state") == "cancelled":
        raise Aborted("the restore was stopped")
    raise Unexpected(f"the restore ended as {fields.get('state')!r}")


def _behind(targets: list[memoryview], done: int) -> list[memoryview]:
    """The rest of the targets after their first ``done`` bytes."""
    left = []
    for target in targets:
        if done < target.nbytes:
            left.append(target[done:])
        done = max(0, done - target.nbytes)
    return left


def _list_of(answer: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = answer.get(name)
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ProtocolError(f"the agent's answer has no list {name!r}")
    return value
