"""The callback of Lightning that decides when to save."""

from __future__ import annotations

from typing import Any, Optional

from lightning.pytorch.callbacks import ModelCheckpoint as LightningModelCheckpoint
from lightning.pytorch.strategies import FSDPStrategy
from lightning.pytorch.strategies import ModelParallelStrategy as LightningModelParallel

from .._framework_ids import LATEST, SCHEME, place_of, url
from ..errors import InvalidArgument, Unsupported
from ..fsspec import HoldfastFileSystem
from ._io import CheckpointIO
from ._places import FILE
from ._sharded import ModelParallelStrategy


class ModelCheckpoint(LightningModelCheckpoint):
    """Lightning's ``ModelCheckpoint`` for a run.

    ``run``: its URI, an alias of the agent, or a URL ``holdfast://RUN``. ``filename``: has to give a
    version, as ``{epoch}-{step}`` does; by default a file in ``step-{step}``. ``options``: the others of
    Lightning's, except ``dirpath`` and ``save_last``.

    ``ckpt_path="last"`` is the latest version of the run, by whichever process it was saved. It begins
    anew if there is none.
    """

    def __init__(self, run: str, filename: Optional[str] = None, **options: Any) -> None:
        if not isinstance(run, str):
            raise InvalidArgument(f"run: expected str, got {type(run).__name__}")
        place = place_of(run) if run.startswith(f"{SCHEME}:") else place_of(url(run))
        if place.version is not None or not place.run:
            raise InvalidArgument(
                f"run: {run!r} is not a run; expected as in s3://bucket/run or {SCHEME}://ALIAS"
            )
        for name in ("dirpath", "save_last"):
            if options.get(name):
                raise InvalidArgument(
                    f"{name}: expected none: the run is the directory, and its latest version is the last"
                )
        if filename is None:
            filename = f"step-{{step}}/{FILE.removesuffix(self.FILE_EXTENSION)}"
            options.setdefault("auto_insert_metric_name", False)
        # A version that exists is an error of the save, and no reason to find another name.
        options.setdefault("enable_version_counter", False)
        super().__init__(dirpath=url(place.run), filename=filename, **options)

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """``Unsupported``: the trainer would save elsewhere than by Holdfast."""
        _check_trainer(trainer)
        super().setup(trainer, pl_module, stage)

    def _find_last_checkpoints(self, trainer: Any) -> set[str]:
        latest = f"{self.dirpath}/{LATEST}"
        return {latest} if HoldfastFileSystem().exists(latest) else set()


def _check_trainer(trainer: Any) -> None:
    strategy = trainer.strategy
    is_sharded = isinstance(strategy, (FSDPStrategy, LightningModelParallel))
    if is_sharded and not isinstance(strategy, ModelParallelStrategy):
        # They make a local directory of the URL.
        raise Unsupported(
            f"{type(strategy).__name__} saves only to directories; pass "
            "Trainer(strategy=holdfast.lightning.ModelParallelStrategy(…)), or save by holdfast.torch"
        )
    found = strategy.checkpoint_io
    if not is_sharded and not isinstance(found, CheckpointIO):
        raise Unsupported(
            f"checkpoints would be saved by {type(found).__name__}; pass "
            "Trainer(plugins=[holdfast.lightning.CheckpointIO()])"
        )
