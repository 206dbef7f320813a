"""A callback of ``transformers.Trainer``."""

from __future__ import annotations

import math
import os
from typing import Any, Optional

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from .._directory_saver import DirectorySaver
from .._nodes import find_nodes


class CheckpointCallback(TrainerCallback):
    """Saves each checkpoint of a Trainer to a run, as the version of its step.

    The Trainer writes its directory ``checkpoint-N`` as always. Then all ranks wait for each other,
    and one process of each node hands the files to the agent. The agent opens them before the
    training continues, so ``save_total_limit`` may remove the directory at once. The files of all
    nodes are one checkpoint, which is committed when all nodes have delivered. The metrics of the
    step are saved with it.

    ``uri``: the run. ``remove_local``: removes a directory when its version is committed, except
    that of the best model, that of ``resume``, and one that has changed since it was saved.
    ``save_timeout``: seconds from a save to its commit; ``None``: as the agent is configured.
    Other ``options`` are those of ``holdfast.connect``.

    A save that fails is raised at the next save or at the end of the training, on all ranks. The
    end of the training waits until all versions are committed.
    """

    def __init__(
        self,
        uri: str,
        *,
        remove_local: bool = False,
        save_timeout: Optional[float] = None,
        **options: Any,
    ) -> None:
        self._uri = uri
        self._remove_local = remove_local
        self._save_timeout = save_timeout
        self._options = options
        self._saver: Optional[DirectorySaver] = None

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Joins the run: from here on no earlier start of the job can commit."""
        self._close()
        self._saver = DirectorySaver(
            self._uri, find_nodes(), remove_local=self._remove_local, options=self._options
        )

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        saver = self._saver
        if saver is None:
            return
        step = state.global_step
        directory = os.path.join(str(args.output_dir), f"checkpoint-{step}")
        saver.save(
            directory,
            step,
            metrics_of(state),
            timeout=self._save_timeout,
            keep=state.best_model_checkpoint,
        )

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        if self._saver is None:
            return
        try:
            self._saver.finish(keep=state.best_model_checkpoint)
        finally:
            self._close()

    def _close(self) -> None:
        saver, self._saver = self._saver, None
        if saver is not None:
            saver.close()


def metrics_of(state: TrainerState) -> dict[str, float]:
    """The finite numbers that were logged at this step, evaluations included."""
    found: dict[str, float] = {}
    for entry in state.log_history:
        if entry.get("step") != state.global_step:
            continue
        for name, value in entry.items():
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if name != "step" and is_number and math.isfinite(value):
                found[name] = float(value)
    return found
