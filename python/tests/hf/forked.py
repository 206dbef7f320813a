"""Modules as programs, in processes that share one import of the frameworks."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
import warnings
from typing import Optional

from ..support import PYTHON_ROOT

_PRELOADED = ["tests.hf.sharded"]
#: They are read when the frameworks are imported.
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error", "PYTHONPATH": PYTHON_ROOT}


class Forked:
    """Runs ``python -m MODULE WORDS…``. The calls are those of ``subprocess.Popen`` with text."""

    def __init__(self, module: str, words: list[str], environment: dict[str, str]) -> None:
        os.environ.update(_ENVIRONMENT)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_PRELOADED)
        self._files = [tempfile.NamedTemporaryFile("r", prefix="hf-said-") for _ in range(2)]
        names = [file.name for file in self._files]
        self._process = context.Process(target=_run, args=(module, words, environment, names))
        self._process.start()

    @property
    def returncode(self) -> Optional[int]:
        return self._process.exitcode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it has printed, as output and as errors, when it has ended."""
        self._process.join(timeout)
        if self._process.is_alive():
            raise TimeoutError(f"{self._process.name} did not end within {timeout} s")
        output, errors = [file.read() for file in self._files]
        return output, errors

    def kill(self) -> None:
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        for file in self._files:
            file.close()


def _run(module: str, words: list[str], environment: dict[str, str], outputs: list[str]) -> None:
    for number, path in enumerate(outputs, start=1):
        file = os.open(path, os.O_WRONLY)
        os.dup2(file, number)
        os.close(file)
    os.environ.update(environment)
    warnings.simplefilter("ignore")
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
