"""The strategy of Lightning for models that are sharded over ranks."""

from __future__ import annotations

import io
from concurrent.futures import Future
from typing import Any, Optional

import torch
from lightning.pytorch.strategies import ModelParallelStrategy as LightningModelParallel
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

from .. import torch as holdfast_torch
from .._framework_ids import LATEST, version_name
from ..errors import InvalidArgument, Unsupported
from ..torch._writer import check_timeout
from ._places import target_of

# What Lightning keeps besides tensors, as `torch.save` writes it.
_REST = "lightning"
_MODEL = "state_dict"


class ModelParallelStrategy(LightningModelParallel):
    """Lightning's ``ModelParallelStrategy``, with checkpoints in the run that their path names.

    Each rank saves and loads its shards by ``holdfast.torch``, also with another number of ranks. A
    save waits for the commit of the one before it, and raises its error on all ranks if it failed. It
    returns when all ranks have copied their tensors. The end of ``fit`` waits for the last commit, and
    raises what failed. Lightning's own strategy makes a local directory of a URL.

    ``save_timeout``: seconds until a save has to be committed; then ``Incomplete`` names the ranks that are
    missing. ``options``: those of Lightning's, except ``save_distributed_checkpoint``. For FSDP use this with
    ``fully_shard`` in ``configure_model``. The agent is that of the environment (``HOLDFAST_AGENT``).
    """

    def __init__(self, *args: Any, save_timeout: Optional[float] = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._save_timeout = check_timeout(save_timeout)
        if not self._save_distributed_checkpoint:
            raise InvalidArgument(
                "save_distributed_checkpoint: expected True; False assembles the model on rank 0"
            )
        #: The last save. It may be in progress.
        self._save: Optional[Future[Any]] = None

    def save_checkpoint(
        self, checkpoint: dict[str, Any], filepath: Any, storage_options: Optional[Any] = None
    ) -> None:
        """Called on all ranks. ``InvalidArgument``: the path has no version."""
        if storage_options is not None:
            raise InvalidArgument("storage_options: expected None")
        target = target_of(self.broadcast(filepath))
        if target.version is None:
            raise InvalidArgument(f"{filepath}: 'latest' can only be loaded; name a version")
        state: dict[str, Any] = {_MODEL: checkpoint.pop(_MODEL)}
        for index, optimizer in enumerate(checkpoint.pop("optimizer_states", [])):
            state[_optimizer(index)] = optimizer
        if self.global_rank == 0:
            rest = io.BytesIO()
            torch.save(checkpoint, rest)
            state[_REST] = rest.getvalue()
        name = f"{target.run}/{version_name(target.version)}"
        if self._save is not None:
            # If it failed, all ranks hear of it below.
            self._save.exception()
        self._save = None
        self._save = holdfast_torch.async_save(
            state,
            checkpoint_id=name,
            metadata={"framework": "lightning"},
            timeout=self._save_timeout,
        )

    def load_checkpoint(self, checkpoint_path: Any, weights_only: Optional[bool] = None) -> dict[str, Any]:
        """Called on all ranks. ``NotFound``, ``Unsupported``: another program saved it."""
        target = target_of(self.broadcast(checkpoint_path))
        assert self.lightning_module is not None and self.model is not None
        wanted = LATEST if target.version is None else version_name(target.version)
        optimizers = self.optimizers if self.lightning_module.trainer.training else []
        state: dict[str, Any] = {_MODEL: get_model_state_dict(self.model), _REST: b""}
        for index, optimizer in enumerate(optimizers):
            state[_optimizer(index)] = get_optimizer_state_dict(self.model, optimizer)
        # All by one call: after a commit or a rollback, a second one could load another checkpoint.
        version = holdfast_torch.load(state, checkpoint_id=f"{target.run}/{wanted}")
        loaded = torch.load(io.BytesIO(state[_REST]), weights_only=weights_only)
        if not isinstance(loaded, dict) or "pytorch-lightning_version" not in loaded:
            name = f"{target.run}/{version_name(version)}"
            raise Unsupported(f"{name} is no checkpoint of Lightning")
        self.model.load_state_dict(state[_MODEL], strict=self.lightning_module.strict_loading)
        for index, optimizer in enumerate(optimizers):
            set_optimizer_state_dict(
                self.model,
                optimizer,
                optim_state_dict=state[_optimizer(index)],
                options=StateDictOptions(cpu_offload=True),
            )
        return loaded

    def remove_checkpoint(self, filepath: Any) -> None:
        """Removes nothing: the retention of the run does."""
        target_of(filepath)

    def teardown(self) -> None:
        save, self._save = self._save, None
        error = None if save is None else save.exception()
        super().teardown()
        if error is not None:
            raise error


def _optimizer(index: int) -> str:
    return f"optimizer_{index}"
