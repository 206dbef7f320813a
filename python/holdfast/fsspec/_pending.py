"""Written files that belong to no committed version yet. They are in this process alone."""

from __future__ import annotations

import io
import os
import threading
from typing import Any, Callable, Mapping, NamedTuple, Optional

from .._run_pool import Options, runs
from ..errors import HoldfastError, InvalidArgument

# A failed save leaves its files. When a third save begins, the oldest was given up.
_VERSIONS_MAX = 2


class Key(NamedTuple):
    """A version that is being written."""

    run: str
    version: int
    #: Number of the file system. DCP makes one for each thread that saves.
    owner: int


class Pending:
    """The files that DCP has written for versions without metadata. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        #: In the order in which they began.
        self._versions: dict[Key, dict[str, bytes]] = {}
        os.register_at_fork(after_in_child=self._forget)

    def begin(self, key: Key) -> None:
        """Begins a version. Forgets the files of an earlier try to save it."""
        with self._lock:
            self._versions.pop(key, None)
            of_run = [one for one in self._versions if one.run == key.run]
            for one in of_run[: max(0, len(of_run) - _VERSIONS_MAX + 1)]:
                del self._versions[one]
            self._versions[key] = {}

    def put(self, key: Key, name: str, data: bytes) -> None:
        with self._lock:
            if key not in self._versions:
                raise InvalidArgument(
                    f"version {key.version}: makedirs has to be called before {name!r} is written; it begins "
                    "the save, unless a later one has begun since"
                )
            self._versions[key][name] = data

    def files(self, key: Key) -> Mapping[str, bytes]:
        with self._lock:
            return dict(self._versions.get(key, {}))

    def remove(self, key: Key, name: Optional[str] = None) -> bool:
        """Drops a file, or all files of the version. Returns whether there were any."""
        with self._lock:
            if name is None:
                return self._versions.pop(key, None) is not None
            return self._versions.get(key, {}).pop(name, None) is not None

    def _forget(self) -> None:
        # The parent commits its files itself.
        self._lock = threading.RLock()
        self._versions = {}


pending = Pending()


class PendingFile(io.BytesIO):
    """A file that is being written. It stays invisible when it is closed."""

    def __init__(self, key: Key, name: str, put: Optional[Callable[[Key, str, bytes], None]]) -> None:
        """``put``: takes the bytes when it is closed. ``None``: they stay here, for a transaction."""
        super().__init__()
        self.key = key
        self.file_name = name
        self.data: Optional[bytes] = None
        #: The file that fsspec has given to the caller, if it compresses into this one.
        self.outer: Optional[Any] = None
        self._put = put
        self._pid = os.getpid()

    def close(self) -> None:
        data = None if self.closed else self.getvalue()
        super().close()
        if data is None or self._pid != os.getpid():
            return
        if self._put is None:
            self.data = data
        else:
            self._put(self.key, self.file_name, data)

    def close_after_outer(self) -> None:
        """Closes it if the caller has closed what it got: most compressors leave that to others."""
        if self.outer is None or not self.outer.closed:
            return
        # An archive ends with its directory.
        archive = getattr(self.outer, "_zipfile", None)
        if archive is not None:
            archive.close()
        self.close()

    def readable(self) -> bool:
        return False

    def __del__(self) -> None:
        # A file that was never closed is not saved.
        super().close()


def commit(key: Key, files: Mapping[str, bytes], options: Options) -> None:
    """Saves the files of a version, and waits until it is committed."""
    run = runs.writer(key.run, options)
    try:
        run.save(key.version, buffers=files).wait("committed")
    except HoldfastError as error:
        error.details.setdefault("version", key.version)
        raise
