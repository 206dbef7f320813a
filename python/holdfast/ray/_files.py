"""The file system of pyarrow that Ray Train keeps a run in."""

from __future__ import annotations

import io
import re
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any, NamedTuple, NoReturn, Optional

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystemHandler, FileType, PyFileSystem

from .._framework_ids import url
from .._run_pool import Options, runs
from ..errors import InvalidArgument, NotFound, Unsupported
from ..fsspec import HoldfastFileSystem
from ..run import Run
from . import _snapshot

_MARKER = ".validate_storage_marker"
_SNAPSHOT = "checkpoint_manager_snapshot.json"
_CHECKPOINT = re.compile(r"^step-[0-9]+$")


def filesystem(run: str, *, attempt: Optional[str] = None) -> PyFileSystem:
    """A file system for ``RunConfig(storage_filesystem=…, storage_path="/")``.

    ``run``: its URI, or an alias of the agents. One experiment has one run; its name does not matter.
    Each node has an agent, as ``HOLDFAST_AGENT`` says there. ``attempt``: as for ``holdfast.connect``.

    Ray's own files are views of the run: its list of checkpoints holds all that are committed, with their
    numeric metrics. So no checkpoint is missing after a crash between a commit and Ray's report. Nothing is
    removed: the run's retention does that.
    """
    return PyFileSystem(RunHandler(run, Options(attempt=attempt)))


class _Path(NamedTuple):
    """``/EXPERIMENT/step-100/NAME`` in its parts."""

    experiment: str
    entry: str
    name: str


class RunHandler(FileSystemHandler):  # type: ignore[misc]
    """The file system that pyarrow calls. It can be pickled, because Ray sends it to all workers."""

    def __init__(self, run: str, options: Options) -> None:
        self.base = url(run)
        self.run = run
        self.options = options

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RunHandler):
            return (self.run, self.options) == (other.run, other.options)
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.run, self.options))

    def get_type_name(self) -> str:
        return "holdfast"

    def normalize_path(self, path: str) -> str:
        return path

    def reader(self) -> Run:
        return runs.reader(self.run, self.options)

    def get_file_info(self, paths: list[str]) -> list[FileInfo]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        path = _parsed(selector.base_dir)
        fs, base = self._fs(), self._url(path)
        if not path.entry and not fs.exists(base):
            return []
        if path.entry in (_MARKER, _SNAPSHOT) or not fs.isdir(base):
            if selector.allow_not_found and not fs.exists(base):
                return []
            raise FileNotFoundError(f"{selector.base_dir} is no directory")
        found = fs.find(base, maxdepth=None if selector.recursive else 1, withdirs=True, detail=True)
        prefix = fs._strip_protocol(base)
        inside = {name[len(prefix) :].strip("/"): info for name, info in found.items()}
        return [
            _file_info(f"{selector.base_dir.rstrip('/')}/{name}", info)
            for name, info in inside.items()
            if name
        ]

    def create_dir(self, path: str, recursive: bool) -> None:
        """Makes nothing: a directory begins with the first file in it."""
        _parsed(path)

    def delete_dir(self, path: str) -> None:
        """Removes nothing, so that Ray's ``num_to_keep`` does no harm: see ``filesystem``."""
        _parsed(path)

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> Any:
        parsed = _parsed(path)
        if parsed.entry == _SNAPSHOT:
            data = _snapshot.of_run(self.reader())
            if data is None:
                raise FileNotFoundError(f"{path}: nothing was committed")
            return pa.BufferReader(data)
        return pa.PythonFile(self._fs().open(self._url(parsed), "rb"), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        parsed = _parsed(path)
        if parsed.entry == _MARKER:
            # By this file Ray checks whether this node reaches the storage, so only that is done.
            self._reach()
            return pa.BufferOutputStream()
        if parsed.entry == _SNAPSHOT:
            return pa.PythonFile(_SnapshotFile(self), mode="w")
        raise Unsupported(
            f"{path}: nothing would say when the checkpoint is complete; call "
            'ray.train.report(…, checkpoint_dir_name=f"step-{step}", checkpoint_upload_fn=holdfast.ray.upload)'
        )

    def open_append_stream(self, path: str, metadata: Any) -> NoReturn:
        self._refuse(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> NoReturn:
        self._refuse(path)

    def delete_root_dir_contents(self) -> NoReturn:
        self._refuse("/")

    def delete_file(self, path: str) -> NoReturn:
        self._refuse(path)

    def move(self, src: str, dest: str) -> NoReturn:
        self._refuse(src)

    def copy_file(self, src: str, dest: str) -> NoReturn:
        self._refuse(src)

    def _refuse(self, path: str) -> NoReturn:
        raise Unsupported(f"{path}: committed checkpoints never change, and the run's retention removes them")

    def _info(self, path: str) -> FileInfo:
        parsed = _parsed(path)
        if parsed.entry == _MARKER:
            self._reach()
            return FileInfo(path, FileType.File, size=0)
        if parsed.entry == _SNAPSHOT:
            # Of unknown size: it grows with each commit.
            is_there = self.reader().latest() is not None
            return FileInfo(path, FileType.File if is_there else FileType.NotFound)
        try:
            return _file_info(path, self._fs().info(self._url(parsed)))
        except FileNotFoundError:
            # Ray has made the directory of its experiment, and the run begins with the first save.
            return FileInfo(path, FileType.NotFound if parsed.entry else FileType.Directory)

    def _reach(self) -> None:
        """Raises if this node does not reach the storage."""
        with suppress(NotFound):
            self.reader().versions(limit=1)

    def _fs(self) -> Any:
        return HoldfastFileSystem()

    def _url(self, path: _Path) -> str:
        """``NotFound`` is for the file system to say."""
        if path.entry and not _CHECKPOINT.match(path.entry):
            raise InvalidArgument(
                f"/{path.experiment}/{path.entry}: expected step-N; call "
                'ray.train.report(…, checkpoint_dir_name=f"step-{step}")'
            )
        return "/".join(part for part in (self.base, path.entry, path.name) if part)


class _SnapshotFile(io.BytesIO):
    """Receives Ray's list of checkpoints. Only its metrics are kept: the run has its own list."""

    def __init__(self, handler: RunHandler) -> None:
        super().__init__()
        self._handler = handler

    def close(self) -> None:
        data = None if self.closed else self.getvalue()
        super().close()
        if data:
            _snapshot.keep_metrics(self._handler.reader(), data)


def _parsed(path: str) -> _Path:
    parts = path.strip("/").split("/", 2)
    experiment, entry, name = (*parts, "", "")[:3]
    is_known = not entry or entry in (_MARKER, _SNAPSHOT) or entry.startswith(("step-", "checkpoint_"))
    if not is_known:
        raise InvalidArgument(f'{path}: expected /NAME/step-N; pass RunConfig(name=NAME, storage_path="/")')
    return _Path(experiment, entry, name)


def _file_info(path: str, info: dict[str, Any]) -> FileInfo:
    created = info.get("created")
    mtime = None if created is None else datetime.fromtimestamp(created, timezone.utc)
    if info["type"] == "directory":
        return FileInfo(path, FileType.Directory, mtime=mtime)
    return FileInfo(path, FileType.File, size=info["size"], mtime=mtime)
