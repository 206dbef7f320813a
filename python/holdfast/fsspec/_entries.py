"""Entries of listings: runs, versions, directories and files."""

from __future__ import annotations

from typing import Any, Optional

from .._framework_ids import SCHEME, Place
from ..checkpoint import Checkpoint, File


def directory_entry(name: str, checkpoint: Optional[Checkpoint] = None) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "size": 0, "type": "directory"}
    if checkpoint is not None:
        entry["created"] = checkpoint.committed_at_ms / 1000
    return entry


def file_entry(name: str, file: File, checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "name": name,
        "size": file.size_bytes,
        "type": "file",
        "created": checkpoint.committed_at_ms / 1000,
        "crc32c": file.crc32c,
    }


def empty_directories(checkpoint: Checkpoint) -> list[str]:
    """Directories of a version without a file in them."""
    return [str(name) for name in checkpoint.fields.get("directories") or ()]


def entries_in(base: str, place: Place, checkpoint: Checkpoint, files: list[File]) -> list[dict[str, Any]]:
    """What is directly in a directory of a version, or the file itself."""
    inside = f"{place.name}/" if place.name else ""
    found: dict[str, dict[str, Any]] = {}
    is_there = False
    for file in files:
        if file.name == place.name:
            return [file_entry(base, file, checkpoint)]
        if file.name.startswith(inside):
            is_there = True
            name, slash, _ = file.name[len(inside) :].partition("/")
            full = f"{base}/{name}"
            found[name] = directory_entry(full, checkpoint) if slash else file_entry(full, file, checkpoint)
    for directory in empty_directories(checkpoint):
        # The slash makes the prefix match if the place itself is the empty directory.
        if f"{directory}/".startswith(inside):
            is_there = True
            name = f"{directory}/"[len(inside) :].partition("/")[0]
            if name:
                found.setdefault(name, directory_entry(f"{base}/{name}", checkpoint))
    if inside and not is_there:
        raise FileNotFoundError(f"{SCHEME}://{base}: version {place.version} has no such file")
    return list(found.values())
