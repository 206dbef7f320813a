"""The ``ObjectStore`` of Composer, to load checkpoints by their URLs."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Callable, NoReturn, Optional
from urllib.parse import unquote

from composer.utils import ObjectStore as ComposerStore
from composer.utils.file_helpers import BACKEND_TO_OBJECT_STORE_FACTORY

from .._framework_ids import SCHEME, url
from .._run_pool import Options, runs
from ..errors import NotFound, Unsupported
from ..run import Run
from ._objects import as_composer_errors, download, link_of, object_name, object_of


class ObjectStore(ComposerStore):
    """The committed checkpoints of a run, for ``Trainer(load_object_store=…)``.

    ``load_path="holdfast://RUN/step-100/FILE"`` uses one by itself, because this module registers
    the scheme. ``run``: its URI, or an alias of the agent. ``options``: ``agent``, ``start`` and
    ``timeout`` of ``holdfast.connect``.

    Objects have names as ``step-100/ep1-ba100-rank0.pt``. A name as ``latest-rank0.pt.symlink``
    is a link to the latest. It only reads: ``CheckpointDestination`` saves.
    """

    def __init__(self, run: str, **options: Any) -> None:
        self._name = run
        self._options = Options(**options)

    def get_uri(self, object_name: str) -> str:
        return f"{url(self._name)}/{object_name}"

    def upload_object(
        self,
        object_name: str,
        filename: Any,
        callback: Optional[Callable[[int, int], None]] = None,
        **kwargs: Any,
    ) -> NoReturn:
        raise Unsupported(
            f"{object_name}: nothing would say when the checkpoint is complete; pass "
            "Trainer(loggers=[holdfast.composer.CheckpointDestination(RUN)], save_folder=DIRECTORY)"
        )

    def get_object_size(self, object_name: str) -> int:
        """``FileNotFoundError``: there is no such object."""
        run = self._run()
        with as_composer_errors(object_name):
            link = link_of(run, object_name)
            if link is not None:
                return len(link)
            wanted = object_of(object_name)
            for file in run.files(wanted.version):
                if file.name == wanted.name:
                    return file.size_bytes
        raise FileNotFoundError(f"{object_name}: there is no such file in the version")

    def download_object(
        self,
        object_name: str,
        filename: Any,
        overwrite: bool = False,
        callback: Optional[Callable[[int, int], None]] = None,
    ) -> None:
        """``FileNotFoundError``, ``FileExistsError``. ``Corrupt``: it is damaged in the store."""
        download(self._run(), object_name, str(filename), overwrite)

    def list_objects(self, prefix: Optional[str]) -> list[str]:
        """All files of all committed versions, oldest version first."""
        run = self._run()
        found: list[str] = []
        with as_composer_errors(prefix or ""):
            try:
                versions = run.versions()
            except NotFound:
                return []
            for one in reversed([one for one in versions if one.is_loadable]):
                # Retention may have removed it since.
                with suppress(NotFound):
                    found += (object_name(one.version, file.name) for file in run.files(one))
        return [name for name in found if name.startswith(prefix or "")]

    def _run(self) -> Run:
        return runs.reader(self._name, self._options)


BACKEND_TO_OBJECT_STORE_FACTORY[SCHEME] = lambda run, path: ObjectStore(unquote(run))
