"""fsspec's own tests of copying from a file system, for pytest.

Those of copying into one rewrite and remove single files, and Holdfast refuses both.
"""

from __future__ import annotations

import itertools
import os
from typing import Any, Callable

import holdfast.fsspec  # noqa: F401
import pytest
from fsspec.core import url_to_fs
from fsspec.tests.abstract import AbstractFixtures, AbstractGetTests

_versions = itertools.count(1)
_BASE = os.environ.get("HOLDFAST_TEST_URL", "")


class TestGet(AbstractFixtures, AbstractGetTests):  # type: ignore[misc]
    """Its scenarios are committed versions, and stay when a test has ended."""

    #: It writes single files, and nothing says when their version is complete.
    test_get_directory_recursive = None

    @pytest.fixture
    def fs(self) -> Any:
        return url_to_fs(_BASE)[0]

    @pytest.fixture
    def fs_path(self) -> str:
        return f"{_BASE}/step-{next(_versions)}"

    @pytest.fixture
    def fs_bulk_operations_scenario_0(self, fs: Any, fs_join: Any, fs_path: str) -> str:
        return _committed(fs, lambda: self._bulk_operations_scenario_0(fs, fs_join, fs_path))

    @pytest.fixture
    def fs_glob_edge_cases_files(self, fs: Any, fs_join: Any, fs_path: str) -> str:
        return _committed(fs, lambda: self._glob_edge_cases_files(fs, fs_join, fs_path))

    @pytest.fixture
    def fs_dir_and_file_with_same_name_prefix(self, fs: Any, fs_join: Any, fs_path: str) -> str:
        return _committed(fs, lambda: self._dir_and_file_with_same_name_prefix(fs, fs_join, fs_path))

    @pytest.fixture
    def fs_10_files_with_hashed_names(self, fs: Any, fs_join: Any, fs_path: str) -> str:
        return _committed(fs, lambda: self._10_files_with_hashed_names(fs, fs_join, fs_path))


def _committed(fs: Any, make: Callable[[], str]) -> str:
    with fs.transaction:
        return make()
