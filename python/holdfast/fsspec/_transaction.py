"""The transaction of the file system."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Optional

from fsspec.transaction import Transaction

from .._framework_ids import SCHEME
from ..errors import Unsupported


class VersionsTransaction(Transaction):  # type: ignore[misc]
    """Commits each version that was written in the block. A version is complete at its end."""

    fs: Any

    def start(self) -> None:
        """``Unsupported``: a transaction of the file system is in progress. It continues."""
        fs = self.fs
        if not fs._one_transaction.acquire(blocking=False):
            raise Unsupported(
                "a transaction of this file system is in progress, in this thread or another: write "
                "all files within one block; another thread gets a file system of its own from "
                f"fsspec.filesystem({SCHEME!r})"
            )
        self.files.clear()
        fs._transaction = self
        fs._intrans = True

    def complete(self, commit: bool = True) -> None:
        fs = self.fs
        if fs._transaction is not self:
            return
        files = list(self.files)
        self.files.clear()
        fs._intrans = False
        fs._transaction = None
        fs._one_transaction.release()
        if commit:
            fs._commit_all(files)

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        # fsspec's own would also end the transaction that another thread has begun since.
        self.complete(commit=kind is None)
