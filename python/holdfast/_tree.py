"""Finds all files and empty directories below a directory, or names what cannot be saved."""

from __future__ import annotations

import os
from stat import S_ISREG
from typing import Mapping, NamedTuple, NoReturn

from .errors import Denied, HoldfastError, InvalidArgument, NotFound, Unexpected


class FileFacts(NamedTuple):
    size: int
    mtime_ns: int


class Tree(NamedTuple):
    """Names are paths below the directory, in order."""

    files: Mapping[str, FileFacts]
    #: Directories without any entry.
    empty_directories: list[str]


def tree_of(directory: str, *, follows_files: bool = False) -> Tree:
    """Looks at each entry. The directory itself may be a symbolic link.

    ``follows_files``: a symbolic link to a file counts as that file.

    ``InvalidArgument``: it is not a directory, or there is a symbolic link, a socket, a named pipe
    or a device below it, or a name that is not UTF-8. ``Denied``: a directory cannot be read.
    ``NotFound``: there is no such directory, or an entry was removed meanwhile.
    """
    files: dict[str, FileFacts] = {}
    empty: list[str] = []
    waiting = [""]
    while waiting:
        below = waiting.pop()
        place = os.path.join(directory, below) if below else directory
        entries = _entries(place)
        if below and not entries:
            empty.append(below)
        for entry in entries:
            name = f"{below}/{entry.name}" if below else entry.name
            try:
                _refuse_odd_name(entry)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name)
                else:
                    files[name] = _facts(entry, follows_files)
            except OSError as error:
                raise _named(error, entry.path) from error
    return Tree(dict(sorted(files.items())), sorted(empty))


def _entries(place: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(place) as found:
            return list(found)
    except OSError as error:
        raise _named(error, place) from error


def _facts(entry: os.DirEntry[str], follows_files: bool) -> FileFacts:
    if entry.is_symlink() and (not follows_files or entry.is_dir()):
        kind = "a symbolic link to a directory" if follows_files else "a symbolic link"
        _refuse(entry.path, f"is {kind}; replace it with what it leads to, or remove it")
    stats = entry.stat()
    if not S_ISREG(stats.st_mode):
        _refuse(
            entry.path,
            "is a socket, a named pipe or a device; only regular files and directories can be saved",
        )
    return FileFacts(stats.st_size, stats.st_mtime_ns)


def _refuse_odd_name(entry: os.DirEntry[str]) -> None:
    try:
        entry.name.encode()
    except UnicodeEncodeError:
        _refuse(os.fsencode(entry.path).decode(errors="replace"), "has a name that is not UTF-8; rename it")


def _refuse(path: str, what: str) -> NoReturn:
    raise InvalidArgument(f"{path} {what}", {"path": path})


def _named(error: OSError, path: str) -> HoldfastError:
    details = {"path": path}
    message = f"cannot read {path}: {error.strerror or error}"
    if isinstance(error, PermissionError):
        return Denied(message, details)
    if isinstance(error, FileNotFoundError):
        return NotFound(message, details)
    if isinstance(error, NotADirectoryError):
        return InvalidArgument(f"{path} is not a directory", details)
    return Unexpected(message, details)
