"""Tests with the frameworks that the plugins are for. Only some environments have them."""

from __future__ import annotations

import os
import unittest
from importlib.util import find_spec
from typing import Optional

FRAMEWORKS = (
    *("torch", "fsspec", "lightning", "pyarrow", "ray", "pytest"),
    *("composer", "deepspeed", "megatron"),
)


def load_tests(
    loader: unittest.TestLoader, tests: unittest.TestSuite, pattern: Optional[str]
) -> unittest.TestSuite:
    """``discover`` finds these tests only if all frameworks are installed."""
    if pattern is not None and all(find_spec(name) for name in FRAMEWORKS):
        tests.addTests(loader.discover(os.path.dirname(__file__), pattern))
    return tests
