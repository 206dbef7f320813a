"""The ``CheckpointIO`` of Lightning."""

from __future__ import annotations

import io
from typing import Any, Optional

import torch
import torch.distributed
from lightning.fabric.plugins.io.checkpoint_io import CheckpointIO as LightningIO

from .._handles import Handles
from .._run_pool import Options, runs
from ..checkpoint import Checkpoint, Which
from ..errors import HoldfastError, InvalidArgument, NotFound, Unsupported
from ._places import Target, target_of


class CheckpointIO(LightningIO):
    """Saves Lightning's checkpoints to the run that their path names: ``holdfast://RUN/…``.

    A save returns when the agent has its bytes. The agent uploads and commits them while the training
    continues. If that fails, the next save raises the error, and saves nothing. The end of ``fit``
    waits for all commits, and raises the first failure. ``waits``: each save waits for its commit.

    Lightning's rotation removes nothing, because it could remove the checkpoint that the job resumed
    from. The retention of the run removes versions. Do not wrap this in ``AsyncCheckpointIO``: it
    copies all tensors once more.

    ``timeout``: seconds until a save has to be committed. ``attempt``: as for ``holdfast.connect``. The
    agent is that of the environment (``HOLDFAST_AGENT``).
    """

    def __init__(
        self,
        *,
        waits: bool = False,
        timeout: Optional[float] = None,
        attempt: Optional[str] = None,
    ) -> None:
        self._waits = waits
        self._timeout = timeout
        self._options = Options(attempt=attempt)
        self._handles = Handles()

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Optional[Any] = None
    ) -> None:
        """``Conflict``: the version is committed. ``InvalidArgument``: the path has no version."""
        if storage_options is not None:
            raise InvalidArgument("storage_options: expected None; CheckpointIO takes the options")
        target = target_of(path)
        if target.version is None:
            raise InvalidArgument(f"{path}: 'latest' can only be loaded; name a version")
        run = runs.writer(target.run, self._options)
        data = io.BytesIO()
        torch.save(checkpoint, data)
        handle = run.save(
            target.version,
            # No `getbuffer()`: it crashes Python 3.12.1 where a traceback is collected.
            buffers={target.name: data.getvalue()},
            metadata={"framework": "lightning"},
            timeout=self._timeout,
        )
        if self._waits:
            handle.wait("committed")
        else:
            self._handles.add(handle)

    def load_checkpoint(
        self, path: Any, map_location: Optional[Any] = None, weights_only: Optional[bool] = None
    ) -> dict[str, Any]:
        """``latest`` in place of a version is resolved once for all ranks, which all have to call this.

        ``FileNotFoundError``: there is no such version. ``Unsupported``: another program saved it.
        """
        target = target_of(path)
        wanted = _wanted(target, self._options)
        run = runs.reader(target.run, self._options)
        try:
            found, files = run._reader.details(wanted, run._begin())
        except NotFound as error:
            raise FileNotFoundError(f"{path}: {error.message}") from error
        names = [file.name for file in files]
        if target.name not in names:
            raise Unsupported(
                f"{path}: version {found.version} is no checkpoint of Lightning: it has no file "
                f"{target.name!r}, and {len(names)} others ({', '.join(names[:5])})",
                {"version": found.version},
            )
        with run.open(target.name, found) as file:
            loaded: dict[str, Any] = torch.load(
                file, map_location=map_location, weights_only=weights_only
            )
        return loaded

    def remove_checkpoint(self, path: Any) -> None:
        """Removes nothing: the retention of the run does."""
        target_of(path)

    def teardown(self) -> None:
        """Waits for the commits of all saves. Raises the first failure."""
        self._handles.wait()


def _wanted(target: Target, options: Options) -> Which:
    """All ranks load the same latest, also if a commit or a rollback comes between."""
    if target.version is not None:
        return target.version
    found: list[Any] = [None, None]
    is_group = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not is_group or torch.distributed.get_rank() == 0:
        try:
            found[0] = runs.reader(target.run, options).latest()
        except HoldfastError as error:
            # The other ranks wait for an answer.
            found[1] = error
    if is_group:
        torch.distributed.broadcast_object_list(found)
    if found[1] is not None:
        raise found[1]
    if found[0] is None:
        raise FileNotFoundError(f"{target.run}: nothing was committed")
    latest: Checkpoint = found[0]
    return latest
