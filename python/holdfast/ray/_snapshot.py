"""Ray's list of checkpoints, as a view of the run."""

from __future__ import annotations

import json
import math
from typing import Any, Optional

from .._framework_ids import version_in, version_name
from .._link import log
from ..errors import InvalidArgument, NotFound, Unsupported
from ..run import Run


def of_run(run: Run) -> Optional[bytes]:
    """The list, in the form of the installed Ray. ``None``: nothing was committed."""
    try:
        versions = [one for one in run.versions() if one.is_loadable]
    except NotFound:
        return None
    if not versions:
        return None
    try:
        from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import (
            _CheckpointManagerState,
            _TrainingResultState,
        )

        versions.sort(key=lambda one: one.version)
        results = [
            _TrainingResultState(
                checkpoint_dir_name=version_name(one.version), metrics=dict(one.metrics)
            )
            for one in versions
        ]
        state = _CheckpointManagerState(
            checkpoint_results=results,
            checkpoint_report_indices=list(range(len(results))),
            latest_checkpoint_result=results[-1],
            pending_training_results=[],
            pending_validation_specs=[],
            current_report_index=len(results),
            validated_checkpoint_dir_names=[],
            timed_out_validation_checkpoint_dir_names=[],
            failed_validation_checkpoint_dir_names=[],
        )
        # Its older name is deprecated in pydantic 2.
        dump: Any = getattr(state, "model_dump_json", None) or state.json
        return str(dump()).encode()
    except (ImportError, ValueError, TypeError) as error:
        raise Unsupported(f"this version of Ray keeps its list of checkpoints otherwise: {error}") from error


def keep_metrics(run: Run, data: bytes) -> None:
    """Adds the numeric metrics of the newest checkpoint in Ray's list to its version."""
    newest = json.loads(data).get("latest_checkpoint_result")
    if not newest:
        return
    version = version_in(newest["checkpoint_dir_name"])
    metrics = {name: float(value) for name, value in newest["metrics"].items() if _is_metric(value)}
    if version is None or not metrics:
        return
    known = {one.version: one.metrics for one in run.versions(limit=1)}
    if known.get(version) == metrics:
        return
    try:
        run.annotate(version, metrics=metrics)
    except NotFound:
        # Retention has removed the version meanwhile.
        pass
    except InvalidArgument as error:
        # Too many, or a name that is too long. The checkpoint itself is committed.
        log.warning("the metrics of version %d are not kept: %s", version, error)


def _is_metric(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
