"""One attempt id for all ranks of one incarnation of a job."""

from __future__ import annotations

import os
import secrets
import sys
import time
from typing import Any, Callable, Optional, Protocol, Union, runtime_checkable

from ._arguments import check_path, check_timeout, shown
from .errors import Conflict, InvalidArgument, ProtocolError, TimedOut

STORE_KEY = "holdfast/attempt"
_PAUSE_SECONDS = 0.05
# Variables with rank and size: of torchrun, Slurm, Open MPI, and MPICH and its derivatives.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


@runtime_checkable
class StoreLike(Protocol):
    """As ``torch.distributed.Store``: ``get`` waits until another rank has set the key."""

    def set(self, key: str, value: str) -> Any: ...

    def get(self, key: str) -> Any: ...


Carry = Union[Callable[[Optional[str]], Any], StoreLike, str, "os.PathLike[str]"]


def attempt(group: Any = None, *, carry: Optional[Carry] = None, timeout: float = 300.0) -> str:
    """An id that all ranks of this incarnation share, and no other incarnation has.

    Run ids and restart counts of launchers do not name an incarnation: torchrun counts the
    restarts of each node separately. So rank 0 draws the id and ``carry`` takes it to the others.
    ``HOLDFAST_ATTEMPT`` overrides all of this.

    ``group``: ``(rank, size)``, or a process group of ``torch.distributed``. Default: the default
    group of ``torch.distributed`` if it is initialized, else the variables of torchrun, Slurm or
    MPI, else one rank. ``carry`` is not needed for one rank, for ``torch.distributed``, and in a
    step of Slurm without torchrun, whose ids name the incarnation. Otherwise it is one of:

    - a function that every rank calls with the id, or ``None`` except on rank 0, and that returns
      rank 0's argument: ``mpi_comm.bcast``;
    - a store with ``set`` and ``get``, in which no earlier incarnation has set ``holdfast/attempt``;
    - a path in a directory that all ranks see, new for each incarnation. Rank 0 makes the file.

    ``timeout``: seconds to wait for the file. ``Conflict``: the file is of an earlier incarnation.
    ``TimedOut``: rank 0 has not made it. ``OSError``: it cannot be made or read.
    """
    given = os.environ.get("HOLDFAST_ATTEMPT")
    if given:
        return given
    if carry is None:
        torch = sys.modules.get("torch.distributed")
        if torch is not None and torch.is_available() and torch.is_initialized():
            if not isinstance(group, tuple):
                return _by_torch(torch, group)
        step = _slurm_step() if group is None else None
        if step is not None:
            return step
    rank, size = _rank_and_size(group)
    drawn = secrets.token_hex(16) if rank == 0 else None
    if carry is None:
        if size > 1:
            raise InvalidArgument(
                f"{size} ranks need a way to share an id: pass carry, or initialize "
                "torch.distributed first, or set HOLDFAST_ATTEMPT"
            )
        assert drawn is not None
        return drawn
    if isinstance(carry, (str, os.PathLike)):
        timeout_seconds = check_timeout(timeout)
        if timeout_seconds is None:
            raise InvalidArgument("timeout: expected seconds, got None")
        return _by_file(check_path("carry", carry), drawn, timeout_seconds)
    if isinstance(carry, StoreLike):
        return _by_store(carry, drawn)
    if callable(carry):
        return _checked(carry(drawn))
    raise InvalidArgument(
        f"carry: expected a function, a store with set and get, or a path, got {shown(carry)}"
    )


def _slurm_step() -> Optional[str]:
    """The id that the command ``holdfast`` uses too: each ``srun`` starts the program anew.

    torchrun restarts its workers within one step.
    """
    job, step = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_STEP_ID")
    is_task = "SLURM_PROCID" in os.environ and "RANK" not in os.environ
    if not job or not step or not is_task or os.environ.get("TORCHELASTIC_RUN_ID"):
        return None
    return f"slurm-{job}-{os.environ.get('SLURM_RESTART_COUNT') or '0'}-{step}"


def _rank_and_size(group: Any) -> tuple[int, int]:
    if group is not None:
        try:
            rank, size = (int(number.__index__()) for number in group)
        except (TypeError, ValueError, AttributeError):
            raise InvalidArgument(f"group: expected (rank, size), got {shown(group)}") from None
        return _checked_rank(rank, size, "group")
    for rank_name, size_name in _LAUNCHERS:
        texts = os.environ.get(rank_name), os.environ.get(size_name)
        if texts[0] is not None and texts[1] is not None:
            where = f"{rank_name} and {size_name}"
            try:
                return _checked_rank(int(texts[0]), int(texts[1]), where)
            except ValueError:
                raise InvalidArgument(f"{where}: expected numbers, got {texts!r}") from None
    return 0, 1


def _checked_rank(rank: int, size: int, where: str) -> tuple[int, int]:
    if not 0 <= rank < size:
        raise InvalidArgument(f"{where}: expected a rank below the size, got {rank} of {size}")
    return rank, size


def _checked(value: Any) -> str:
    """The id that the carrier returned, as text. Stores of torch return bytes."""
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else value
    if not isinstance(text, str) or len(text) != 32:
        raise ProtocolError(f"carry brought {value!r} instead of the id that rank 0 drew")
    return text


def _by_torch(torch: Any, group: Any) -> str:
    rank = torch.get_rank(group)
    if rank < 0:
        raise InvalidArgument("group: this process is not in it")
    box = [secrets.token_hex(16) if rank == 0 else None]
    source = 0 if group is None else torch.get_global_rank(group, 0)
    torch.broadcast_object_list(box, src=source, group=group)
    return _checked(box[0])


def _by_store(store: StoreLike, drawn: Optional[str]) -> str:
    if drawn is not None:
        store.set(STORE_KEY, drawn)
    return _checked(store.get(STORE_KEY))


def _by_file(path: str, drawn: Optional[str], timeout: float) -> str:
    if drawn is None:
        return _await_file(path, timeout)
    # A link appears with its content, on network file systems too.
    draft = f"{path}.{drawn}"
    fd = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, drawn.encode())
        os.fsync(fd)
        os.link(draft, path)
    except FileExistsError:
        raise Conflict(
            f"{path} is of an earlier incarnation; use a path that each start makes anew"
        ) from None
    finally:
        os.close(fd)
        os.unlink(draft)
    return drawn


def _await_file(path: str, timeout: float) -> str:
    end = time.monotonic() + timeout
    while True:
        try:
            with open(path, encoding="ascii") as file:
                return _checked(file.read())
        except FileNotFoundError:
            if time.monotonic() >= end:
                raise TimedOut(f"rank 0 has not made {path} within {timeout:g} s") from None
        time.sleep(_PAUSE_SECONDS)
