"""What the Python drivers share: the job on the command line, the files of a directory, and the line that says what the call cost."""

import json
import os
import resource
import sys
import time
from typing import Callable, NamedTuple, NoReturn

job = json.loads(sys.argv[1])
directory: str = job["directory"]
prefix: str = job["prefix"]


class LocalFile(NamedTuple):
    name: str
    path: str
    size: int


def local_files() -> list[LocalFile]:
    with os.scandir(directory) as entries:
        return [LocalFile(entry.name, entry.path, entry.stat().st_size) for entry in entries]


def local_path(key: str) -> str:
    """Where the object goes."""
    return os.path.join(directory, key.removeprefix(prefix))


def is_wanted(key: str) -> bool:
    """Whether a download fetches the object."""
    return job["only"] is None or key == prefix + job["only"]


def range_to_read() -> tuple[str, int, int]:
    """Key, first byte, and the byte after the last."""
    start, end = job["range"]
    return prefix + job["only"], start, end


def measure(upload: Callable[[], None], download: Callable[[], None], read_range: Callable[[], None]) -> None:
    """Runs what the job asks for. Importing the library has been paid for by then; making a client has not."""
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    {"upload": upload, "download": download, "range": read_range}[job["action"]]()
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"callMs": wall * 1000, "callCpuMs": cpu * 1000}))


def leave() -> NoReturn:
    """Ends the process without taking the interpreter down.

    Threads of Rust that still run then (obstore 0.12, OpenDAL 0.47, on Python 3.11) abort now and then.
    """
    sys.stdout.flush()
    os._exit(0)
