"""A callback of ``transformers.Trainer``."""

from __future__ import annotations

import math
import os
from typing import Any, Optional

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from .._directory_saver import DirectorySaver
from .._nodes import Nodes, find_nodes
from ._resume import NAMING

#: Identity and time of ``trainer_state.json``, one of the last files of a checkpoint.
_Noted = Optional[tuple[int, int, int]]
#: Transformers' name of a file that is there while it writes a checkpoint at SIGTERM.
_INCOMPLETE = "checkpoint-is-incomplete.txt"


class CheckpointCallback(TrainerCallback):
    """Saves each checkpoint of a Trainer to a run, as the version of its step.

    The Trainer writes its directory ``checkpoint-N`` as always. Then all ranks wait for each other,
    and one process of each node hands the files to the agent. The agent opens them before the
    training continues, so ``save_total_limit`` may remove the directory at once. The files of all
    nodes are one checkpoint, which is committed when all nodes have delivered. The metrics of the
    step are saved with it. A checkpoint that the Trainer has written at SIGTERM
    (``enable_jit_checkpoint``) is saved at the end of the training.

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
        self._nodes = Nodes(0, 1, (0,))
        #: The last step that was handed over, and what the Trainer had noted when it began.
        self._saved_step = -1
        self._noted_before: set[_Noted] = set()

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Joins the run: from here on no earlier start of the job can commit."""
        self._close()
        self._nodes = find_nodes()
        self._saver = DirectorySaver(
            self._uri, self._nodes, remove_local=self._remove_local, options=self._options
        )
        self._saved_step = -1
        self._noted_before = {_noted(_directory(args, step)) for step in _steps_in(args)}

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        if self._saver is not None:
            self._save(self._saver, args, state, state.global_step)

    def _save(
        self, saver: DirectorySaver, args: TrainingArguments, state: TrainerState, step: int
    ) -> None:
        self._saved_step = step
        saver.save(
            _directory(args, step),
            step,
            metrics_of(state, step),
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
            # At SIGTERM the Trainer writes one without a word (`enable_jit_checkpoint`).
            step = max(self._nodes.gather(self._unsaved_step(args)))
            if step > self._saved_step:
                self._save(self._saver, args, state, step)
            self._saver.finish(keep=state.best_model_checkpoint)
        finally:
            self._close()

    def _unsaved_step(self, args: TrainingArguments) -> int:
        """The last whole checkpoint that the Trainer has written since it began. -1: none."""
        return max((step for step in _steps_in(args) if self._is_new(_directory(args, step))), default=-1)

    def _is_new(self, directory: str) -> bool:
        noted = _noted(directory)
        is_whole = noted is not None and not os.path.exists(os.path.join(directory, _INCOMPLETE))
        return is_whole and noted not in self._noted_before

    def _close(self) -> None:
        saver, self._saver = self._saver, None
        if saver is not None:
            saver.close()


def _directory(args: TrainingArguments, step: int) -> str:
    return os.path.join(str(args.output_dir), NAMING.of(step))


def _steps_in(args: TrainingArguments) -> list[int]:
    try:
        names = os.listdir(str(args.output_dir))
    except OSError:
        return []
    return [step for step in map(NAMING.version_in, names) if step is not None]


def _noted(directory: str) -> _Noted:
    try:
        facts = os.stat(os.path.join(directory, "trainer_state.json"))
    except OSError:
        return None
    return facts.st_dev, facts.st_ino, facts.st_mtime_ns


def metrics_of(state: TrainerState, step: int) -> dict[str, float]:
    """The finite numbers that were logged at this step, evaluations included."""
    found: dict[str, float] = {}
    for entry in state.log_history:
        if entry.get("step") != step:
            continue
        for name, value in entry.items():
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if name != "step" and is_number and math.isfinite(value):
                found[name] = float(value)
    return found
