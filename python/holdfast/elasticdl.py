"""Checkpoints of ElasticDL's parameter servers, with its saver and its files.

    saver = CheckpointSaver("s3://bucket/run", 100, 3, writer=(ps_id, num_ps_pods), attempt=attempt)
    content = saver.restore()                       # of any number of servers; None: a first start
    if content is not None:
        adopt(elasticdl_pb2.Model.FromString(content))
    while training:
        update()
        if saver.need_to_checkpoint(version):
            saver.save(version, parameters.to_model_pb())
"""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence, TypeVar, Union

from ._connect import connect
from ._holds_run import HoldsRun
from ._arguments import FilePath, check_version
from .checkpoint import Checkpoint, Restored, Which
from .errors import Conflict, Incomplete, InvalidArgument, NotFound
from .handle import Handle
from .run import Run

__all__ = ["CheckpointSaver", "best_checkpoint", "export", "restore_shard"]

log = logging.getLogger("holdfast")

T = TypeVar("T")


class CheckpointSaver(HoldsRun):
    """A parameter server's part in the checkpoints of its job.

    Each server counts its own versions and does not wait for the others. A version appears when
    the slowest has delivered it. With AllReduce there is one writer, 0 of 1.
    """

    def __init__(
        self,
        checkpoint_dir: FilePath,
        checkpoint_steps: int,
        keep_checkpoint_max: int,
        *,
        writer: tuple[int, int] = (0, 1),
        attempt: Optional[str] = None,
        keep_best: Sequence[Mapping[str, Any]] = (),
        **options: Any,
    ) -> None:
        """Joins the run. What an earlier life of this server has delivered for versions that are
        not committed no longer counts.

        ``checkpoint_dir``: the URI of a run, an alias of the agent's configuration, or the path of
        a directory, with a slash.
        ``checkpoint_steps``: a checkpoint at each multiple; 0: never. ``keep_checkpoint_max``: the
        newest complete ones that stay; 0: all that the rules of the run keep. ``keep_best``:
        besides them the best by a metric, as ``{"metric": "auc", "mode": "max", "count": 1}``.
        ``writer``: index and number of this server. ``attempt``: see ``holdfast.attempt``.
        ``options``: ``agent``, ``start``, ``stage``, ``timeout`` of ``holdfast.connect``.
        """
        self._steps = _checked_count("checkpoint_steps", checkpoint_steps)
        kept = _checked_count("keep_checkpoint_max", keep_checkpoint_max)
        if keep_best and kept == 0:
            raise InvalidArgument("keep_best: needs a keep_checkpoint_max of at least 1")
        retention = {"keepLast": kept, "keepBest": [dict(one) for one in keep_best], "graceMs": 0}
        self._writer = writer
        self._newest = -1
        self._run = connect(
            _uri_of(checkpoint_dir),
            attempt=attempt,
            writer=writer,
            retention=retention if kept > 0 else None,
            **options,
        )

    @property
    def run(self) -> Run:
        return self._run

    def is_enabled(self) -> bool:
        return self._steps > 0

    def need_to_checkpoint(self, version: int) -> bool:
        """True at multiples of ``checkpoint_steps``."""
        return self.is_enabled() and version % self._steps == 0

    def save(
        self, version: int, model: Any, *, metrics: Optional[Mapping[str, float]] = None
    ) -> Handle:
        """Delivers the shard of this server, and returns when it is ``staged``.

        ``model``: ElasticDL's message ``Model``, or its bytes, of the same version. It may change
        when this returns. ``Conflict``, by ``Handle.wait`` or the next call: this version or a
        later one is committed, as after a start from an old checkpoint without a rollback.
        """
        number = check_version(version)
        own = getattr(model, "version", number)
        if own != number:
            raise InvalidArgument(f"model: expected one of version {number}, got version {own}")
        serialize = getattr(model, "SerializeToString", None)
        content = model if serialize is None else serialize()
        if not isinstance(content, (bytes, bytearray, memoryview)):
            raise InvalidArgument(
                f"model: expected a message with SerializeToString, or bytes, got {model!r}"
            )
        if len(content) == 0:
            raise InvalidArgument("model: expected a shard, got no bytes")
        index, count = self._writer
        files = {_file_of(index, count): content}
        handle = self._unless_overtaken(
            lambda: self._run.save(number, buffers=files, metrics=metrics)
        )
        self._newest = max(self._newest, number)
        return handle

    def restore(self, version: Optional[int] = None, *, form: str = "S7") -> Optional[bytes]:
        """This server's share of a version, by default of the latest. See ``restore_shard``."""
        index, count = self._writer
        return self._unless_overtaken(
            lambda: _restored_shard(self._run, index, count, version, form, None)
        )

    def annotate(self, version: int, metrics: Mapping[str, float]) -> None:
        """Adds the metrics of an evaluation that came after the save."""
        self._unless_overtaken(lambda: self._run.annotate(version, metrics=metrics))

    def _unless_overtaken(self, call: Callable[[], T]) -> T:
        """Drops the failures of versions before the newest that this server has saved.

        If another server has skipped a version, it is never committed, and that is no error here.
        Without this, the next call of the run would raise it.
        """
        while True:
            try:
                return call()
            except (Conflict, Incomplete) as error:
                version = error.details.get("version")
                if not str(version).isdigit() or int(str(version)) >= self._newest:
                    raise
                log.warning("version %s was not committed: %s", version, error.message)


def restore_shard(
    checkpoint_dir: FilePath,
    shard_index: int,
    shard_num: int,
    *,
    version: Optional[int] = None,
    form: str = "S7",
    directory: Optional[FilePath] = None,
    **options: Any,
) -> Optional[bytes]:
    """The share of one of ``shard_num`` servers, as the bytes of ElasticDL's message ``Model``.

    With a ``shard_num`` of 1: the whole model. The number of servers that have saved it does not
    matter. ``None``: nothing was ever committed. The agent writes the shard into ``directory``, by
    default the one for temporary files, and this removes it. ``form``: ``S7``, ElasticDL's last
    one, or ``S4``.

    ``NotFound``: there is no such version, or it holds no shards. ``Corrupt``: they are damaged.
    """
    with connect(_uri_of(checkpoint_dir), writer=None, **options) as run:
        return _restored_shard(run, shard_index, shard_num, version, form, directory)


def best_checkpoint(
    checkpoint_dir: FilePath, metric: str, mode: str = "max", **options: Any
) -> Optional[Checkpoint]:
    """The checkpoint with the best value of a metric, of a save or an annotation.

    ``mode``: ``max`` or ``min``. Of equal ones the newest. ``None``: there is no checkpoint.
    ``InvalidArgument``: there are checkpoints, and none has the metric.
    """
    with connect(_uri_of(checkpoint_dir), writer=None, **options) as run:
        return _best(run, metric, mode)


def export(
    checkpoint_dir: FilePath,
    path: FilePath,
    *,
    version: Optional[int] = None,
    best: Optional[tuple[str, str]] = None,
    replace: bool = False,
    **options: Any,
) -> Restored:
    """Writes a whole model as a safetensors file, and a JSON about its tables beside it.

    ``version``: default the latest. ``best``: instead the best by a metric, as ``("auc", "max")``.
    ``TargetExists``: a file is there, and ``replace`` is false. ``NotFound``: no checkpoint.
    """
    if best is not None and version is not None:
        raise InvalidArgument("export: takes either version or best, got both")
    with connect(_uri_of(checkpoint_dir), writer=None, **options) as run:
        number = version
        if best is not None:
            found = _best(run, *best)
            if found is None:
                raise NotFound(f"nothing was committed to {run.uri} yet", {"uri": run.uri})
            number = found.version
        asked = {"exportAs": "safetensors", "replace": replace or None}
        return _asked(run, path, number, asked)


def _best(run: Run, metric: str, mode: str) -> Optional[Checkpoint]:
    if mode not in ("min", "max"):
        raise InvalidArgument(f"mode: expected min or max, got {mode!r}")
    try:
        versions = run.versions()
    except NotFound:
        return None
    live = [one for one in versions if one.is_loadable]
    measured = [one for one in live if metric in one.metrics]
    if live and not measured:
        known = sorted({name for one in live for name in one.metrics})
        raise InvalidArgument(
            f"metric: no checkpoint has {metric!r}; they have {', '.join(known) or 'no metrics'}"
        )
    sign = 1 if mode == "max" else -1
    # The list is newest first, and `max` takes the first of equal ones.
    return max(measured, key=lambda one: sign * one.metrics[metric], default=None)


def _restored_shard(
    run: Run,
    index: int,
    count: int,
    version: Optional[int],
    form: str,
    directory: Optional[FilePath],
) -> Optional[bytes]:
    # Found first, because a newer checkpoint may be committed meanwhile.
    which = run.latest() if version is None else version
    if which is None:
        return None
    asked = {"shard": {"index": index, "count": count, "form": form}}
    with tempfile.TemporaryDirectory(prefix="holdfast-shard-", dir=directory) as place:
        target = os.path.join(place, "shard")
        _asked(run, target, which, asked)
        with open(os.path.join(target, _file_of(index, count)), "rb") as file:
            return file.read()


def _asked(run: Run, to: FilePath, version: Optional[Which], asked: Mapping[str, Any]) -> Restored:
    run._begin()
    restored = run._reader.restore(to, version, asked, None, run._timeout)
    for reason in restored.suspicions:
        log.warning("suspicious: %s", reason)
    return restored


def _uri_of(place: FilePath) -> str:
    text = os.fspath(place)
    is_uri = "://" in text or (isinstance(place, str) and "/" not in text and not text.startswith("."))
    return text if is_uri else Path(os.path.abspath(text)).as_uri()


def _file_of(index: int, count: int) -> str:
    return f"variables-{index}-of-{count}.ckpt"


def _checked_count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidArgument(f"{name}: expected a whole number of at least 0, got {value!r}")
    return value
