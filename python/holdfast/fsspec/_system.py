"""The file system."""

from __future__ import annotations

import io
import itertools
import os
import re
import threading
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, Iterator, NoReturn, Optional

from fsspec import AbstractFileSystem
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.implementations.local import LocalFileSystem

from .._framework_ids import LATEST, SCHEME, Place, place_of, url, version_name, without_scheme
from .._run_pool import Options, runs
from .._tree import tree_of
from ..checkpoint import Checkpoint, File, Which
from ..errors import InvalidArgument, NotFound, Unsupported
from ..run import Run
from ._dcp import METADATA, METADATA_TMP, files_named_by, refuse_other_ranks
from ._entries import directory_entry, empty_directories, entries_in, file_entry
from ._pending import Key, PendingFile, commit, pending
from ._transaction import VersionsTransaction

_DCP_FILE = re.compile(r"^__\d+_\d+\.distcp$")
# Options that all its file systems take.
_OF_FSSPEC = {"asynchronous", "listings_expiry_time", "loop", "max_paths", "use_listings_cache"}
_owners = itertools.count()


class HoldfastFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Checkpoints of runs, by the agent of the node: ``holdfast://RUN/step-100/FILE``.

    ``RUN`` is an alias of the agent's configuration, or a URI as ``holdfast.fsspec.url`` encodes it.
    Only committed versions are visible, and their files never change.

    A version is committed as a whole, so a program has to say when it is complete. DCP does so when it
    renames ``.metadata.tmp``. Others write in ``with fs.transaction:``, whose end commits. Outside of
    one, ``open`` refuses files that are not DCP's (``Unsupported``). A file system has one transaction
    at a time: another one, nested or of another thread, is ``Unsupported``, and the first continues.
    Until the commit the files are in the memory of this process. One process writes a version; for several use ``holdfast.torch``.

    ``agent``, ``start``, ``attempt``, ``timeout``: as for ``holdfast.connect``.

    ``FileNotFoundError``: no such run, version or file. ``FileExistsError``: the version is committed.
    ``InvalidArgument``: the path has no version. Other errors are those of ``holdfast.Run``.
    """

    protocol = SCHEME
    cachable = True
    root_marker = ""
    transaction_type = VersionsTransaction

    def __init__(
        self,
        agent: Optional[str] = None,
        start: Optional[bool] = None,
        attempt: Optional[str] = None,
        timeout: float = 30.0,
        **more: Any,
    ) -> None:
        unknown = sorted(set(more) - _OF_FSSPEC)
        if unknown:
            raise InvalidArgument(f"{', '.join(unknown)}: expected agent, attempt, start, timeout")
        super().__init__(**more)
        self._options = Options(agent, start, attempt, timeout)
        self._owner = next(_owners)
        #: Held while a transaction is in progress.
        self._one_transaction = threading.Lock()
        #: While a thread copies a directory: the checkpoints that it has seen, by run and version.
        self._copying = threading.local()
        #: The file that `open` of this thread makes.
        self._opening = threading.local()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [without_scheme(one) for one in path]
        return without_scheme(path)

    @classmethod
    def _parent(cls, path: str) -> str:
        return without_scheme(path).rpartition("/")[0]

    @property
    def transaction(self) -> Any:
        """The transaction in progress, else a new one, which has not begun."""
        current = self._transaction
        return self.transaction_type(self) if current is None else current

    def start_transaction(self) -> Any:
        transaction = self.transaction
        transaction.start()
        return transaction

    def end_transaction(self) -> None:
        self.transaction.complete()

    @property
    def fsid(self) -> str:
        return SCHEME

    # Reading works on committed versions.

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        """The versions of a run, or what is in a version."""
        base, place = self._strip_protocol(path), place_of(path)
        if not place.run:
            raise InvalidArgument(f"{SCHEME}://: expected the run as well, as in {SCHEME}://ALIAS")
        if place.version is None:
            with _as_os_errors(path):
                found = [one for one in self._reader(place).versions() if one.is_loadable]
            entries = [directory_entry(f"{base}/{version_name(one.version)}", one) for one in found]
        else:
            entries = entries_in(base, place, *self._details(place))
        return entries if detail else sorted(entry["name"] for entry in entries)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        base = self._strip_protocol(path)
        run, slash, last = base.rpartition("/")
        # `latest` names the version itself. Two calls for files in it could see two versions.
        if slash and last == LATEST and place_of(run).version is None:
            with _as_os_errors(path):
                return directory_entry(base, self._newest(place_of(run)))
        place = place_of(path)
        if not place.run:
            return directory_entry("")
        if place.version is None:
            with _as_os_errors(path):
                self._reader(place).versions(limit=1)
            return directory_entry(base)
        checkpoint, files = self._details(place)
        if not place.name:
            return directory_entry(base, checkpoint)
        for file in files:
            if file.name == place.name:
                return file_entry(base, file, checkpoint)
        names = [*(file.name for file in files), *(f"{one}/" for one in empty_directories(checkpoint))]
        if any(name.startswith(f"{place.name}/") for name in names):
            return directory_entry(base, checkpoint)
        raise FileNotFoundError(f"{self.unstrip_protocol(base)}: version {place.version} has no such file")

    def exists(self, path: str, **_: Any) -> bool:
        """``False``: the file does not exist. An agent that does not answer is an error."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def isdir(self, path: str) -> bool:
        return self._type(path) == "directory"

    def isfile(self, path: str) -> bool:
        return self._type(path) == "file"

    def created(self, path: str) -> datetime:
        """When the version was committed, by the clock of the store."""
        found = self.info(path).get("created")
        if found is None:
            raise InvalidArgument(f"{path}: only a version and its files have a time")
        return datetime.fromtimestamp(found, timezone.utc)

    modified = created

    def open(self, path: str, mode: str = "rb", *given: Any, **more: Any) -> Any:
        self._opening.file = None
        opened = super().open(path, mode, *given, **more)
        file: Optional[PendingFile] = getattr(self._opening, "file", None)
        # In text mode this is called again for the bytes.
        if file is not None and opened is not file and file.outer is None:
            file.outer = opened
        self._opening.file = None
        return opened

    def _open(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        path: str,
        mode: str = "rb",
        block_size: Optional[int] = None,
        autocommit: bool = True,
        cache_options: Optional[dict[str, Any]] = None,
        **_: Any,
    ) -> io.IOBase:
        place = _file_place(path)
        if mode == "rb":
            with _as_os_errors(path):
                return self._reader(place).open(place.name, self._which(place))
        if mode not in ("wb", "xb"):
            raise Unsupported(
                f"{path}: mode {mode!r}: files are written once, with 'wb', and read with 'rb'"
            )
        refuse_other_ranks(place.name)
        is_of_dcp = _DCP_FILE.match(place.name) or place.name == METADATA_TMP
        if not self._intrans and not is_of_dcp:
            raise Unsupported(
                f"{path}: nothing would say when version {place.version} is complete; write all its files "
                "within `with fs.transaction:`"
            )
        self._refuse_committed(path, place)
        file = PendingFile(self._key(place), place.name, None if self._intrans else pending.put)
        self._opening.file = file
        return file

    # Writing works on versions that are not committed: see the class.

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """There are no empty directories. DCP begins each save of a version with this call."""
        place = place_of(path)
        if place.version is not None and not place.name and not self._intrans:
            pending.begin(self._key(place))

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        place_of(path)

    def mv(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, path1: str, path2: str, **_: Any
    ) -> None:
        """Only as DCP does it: ``.metadata.tmp`` becomes ``.metadata``, which commits the version."""
        source, target = _file_place(path1), _file_place(path2)
        refuse_other_ranks(target.name)
        if source[:2] != target[:2] or (source.name, target.name) != (METADATA_TMP, METADATA):
            raise Unsupported(
                f"{path1} cannot become {path2}: files keep their names, except for DCP's {METADATA_TMP}"
            )
        self._refuse_committed(path2, target)
        key = self._key(source)
        files = pending.files(key)
        pending.remove(key)
        if source.name not in files:
            raise FileNotFoundError(
                f"{path1} was not written, or another save of the version has begun since"
            )
        metadata = files[source.name]
        needed = {name: files[name] for name in sorted(files_named_by(metadata, files))}
        commit(key, {**needed, target.name: metadata}, self._options)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copies a committed file into a version that is being written."""
        if self.isdir(path1):
            return
        with self.open(path1, "rb") as source, self.open(path2, "wb") as target:
            while chunk := source.read(8 << 20):
                target.write(chunk)  # pyright: ignore[reportArgumentType]

    def get(self, *given: Any, **more: Any) -> Any:
        """Copies to local files. All files of a version are of the same checkpoint.

        ``FileNotFoundError``: it was removed meanwhile, or a rollback has given its number to another.
        """
        self._copying.seen = {}
        try:
            return super().get(*given, **more)
        finally:
            self._copying.seen = None

    def put(
        self,
        lpath: Any,
        rpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: Optional[int] = None,
        **more: Any,
    ) -> None:
        """Copies local files. ``recursive``: directories with all that is below them.

        ``InvalidArgument``, ``Denied``: fsspec would leave out what is below, without a word: a
        symbolic link to a directory, or a directory that cannot be read.
        """
        if recursive and maxdepth is None and not (isinstance(lpath, list) and isinstance(rpath, list)):
            for path in LocalFileSystem().expand_path(lpath):
                if os.path.isdir(path):
                    tree_of(path, follows_files=True)
        super().put(lpath, rpath, recursive, callback, maxdepth, **more)

    def rm(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        """Drops what is not committed yet. ``Unsupported``: retention removes committed versions."""
        for one in path if isinstance(path, list) else [path]:
            self._rm(one)

    def rm_file(self, path: str) -> None:
        self._rm(path)

    def rmdir(self, path: str) -> None:
        self._rm(path)

    def _rm(self, path: str) -> None:
        place = place_of(path)
        if place.version is not None:
            was_pending = pending.remove(self._key(place), place.name or None)
            if self._drop_from_transaction(place) or was_pending:
                return
        if not self.exists(path):
            raise FileNotFoundError(f"{path} does not exist")
        raise Unsupported(
            f"{path} is not removed: the retention of the run removes versions, for example by keepLast "
            "in the agent's configuration, and a file goes with its version"
        )

    def _drop_from_transaction(self, place: Place) -> bool:
        """Drops a file of the transaction. Returns whether there was one."""
        if not self._intrans:
            return False
        files, key = self.transaction.files, self._key(place)
        inside = f"{place.name}/" if place.name else ""
        dropped = [
            file
            for file in files
            if file.key == key and (file.file_name == place.name or file.file_name.startswith(inside))
        ]
        for file in dropped:
            files.remove(file)
        return bool(dropped)

    def _commit_all(self, files: list[PendingFile]) -> None:
        """``InvalidArgument``: a file is still open. Then nothing is committed."""
        versions: dict[Key, dict[str, bytes]] = {}
        for file in files:
            file.close_after_outer()
            if file.data is None:
                raise InvalidArgument(
                    f"{file.file_name!r} is still open at the end of the transaction"
                )
            versions.setdefault(file.key, {})[file.file_name] = file.data
        for key in sorted(versions):
            commit(key, versions[key], self._options)

    def _refuse_committed(self, path: str, place: Place) -> None:
        try:
            self._details(place)
        except FileNotFoundError:
            return
        raise FileExistsError(
            f"{SCHEME}://{self._strip_protocol(path)}: version {place.version} is committed, and its files "
            "never change; save another version"
        )

    def _details(self, place: Place) -> tuple[Checkpoint, list[File]]:
        where = url(place.run, place.version)
        with _as_os_errors(where):
            run = self._reader(place)
            found, files = run._reader.details(self._which(place), run._begin())
        if not found.is_loadable:
            raise FileNotFoundError(f"{where} is {found.state} and cannot be loaded")
        seen = getattr(self._copying, "seen", None)
        if seen is not None:
            seen[place.run, place.version] = found
        return found, files

    def _which(self, place: Place) -> Optional[Which]:
        seen = getattr(self._copying, "seen", None) or {}
        which: Optional[Which] = seen.get((place.run, place.version), place.version)
        return which

    def _type(self, path: str) -> Optional[str]:
        """Type of the entry. ``None``: it does not exist. Other errors are raised, as by ``exists``."""
        try:
            return str(self.info(path)["type"])
        except FileNotFoundError:
            return None

    def _newest(self, place: Place) -> Checkpoint:
        found = self._reader(place).latest()
        if found is None:
            raise NotFound("nothing was committed")
        return found

    def _reader(self, place: Place) -> Run:
        return runs.reader(place.run, self._options)

    def _key(self, place: Place) -> Key:
        assert place.version is not None
        return Key(place.run, place.version, self._owner)


def latest_url(run: str, **options: Any) -> Optional[str]:
    """The URL of the latest version of a run. ``None``: nothing was committed.

    Paths have no name for the latest: a program that opens several files would read of two versions
    if a commit came between. ``run``: a URI, an alias, or a URL of it.
    """
    place = place_of(run) if run.startswith(f"{SCHEME}:") else Place(run)
    latest = runs.reader(place.run, Options(**options)).latest()
    return None if latest is None else url(place.run, latest.version)


def _file_place(path: str) -> Place:
    place = place_of(path)
    if place.version is None or not place.name:
        # Lightning names a file that Holdfast takes for a version.
        hint = f"; Lightning's file is {path}/checkpoint.ckpt" if path.endswith(".ckpt") else ""
        raise InvalidArgument(
            f"{path} names no file of a version; expected as in {SCHEME}://ALIAS/step-100/FILE{hint}"
        )
    return place


@contextmanager
def _as_os_errors(path: str) -> Iterator[None]:
    """Converts ``NotFound``: fsspec and its users expect ``FileNotFoundError`` for missing files."""
    try:
        yield
    except NotFound as error:
        _missing(path, error)


def _missing(path: str, error: NotFound) -> NoReturn:
    raise FileNotFoundError(f"{path}: {error.message}") from error
