"""What is found below a directory, and what is refused."""

from __future__ import annotations

import errno
import os
import socket
from typing import Any, Callable
from unittest import mock

from holdfast._tree import Tree, tree_of
from holdfast.errors import Denied, HoldfastError, InvalidArgument, NotFound, Unexpected

from .support import TestCase


class Trees(TestCase):
    def file(self, name: str, data: bytes = b"x") -> str:
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def names(self, tree: Tree) -> tuple[list[str], list[str]]:
        return list(tree.files), tree.empty_directories

    def test_files_of_all_depths_and_directories_without_any_entry(self) -> None:
        self.file("b/c/d", b"123")
        self.file("a")
        os.makedirs(self.path("empty/er"))
        os.mkdir(self.path("b/none"))
        found = tree_of(self.directory)
        self.assertEqual(self.names(found), (["a", "b/c/d"], ["b/none", "empty/er"]))
        stats = os.stat(self.path("b/c/d"))
        self.assertEqual(found.files["b/c/d"], (3, stats.st_mtime_ns))

    def test_the_directory_itself_may_be_a_link_and_may_be_empty(self) -> None:
        self.file("real/a")
        os.mkdir(self.path("empty"))
        os.symlink("real", self.path("link"))
        self.assertEqual(self.names(tree_of(self.path("link"))), (["a"], []))
        self.assertEqual(self.names(tree_of(self.path("empty"))), ([], []))

    def assert_refused(self, kind: type[HoldfastError], name: str, message: str) -> None:
        with self.assertRaises(kind) as raised:
            tree_of(self.directory)
        self.assertIn(message, str(raised.exception))
        self.assertIn(self.path(name), str(raised.exception))
        self.assertEqual(raised.exception.details["path"], self.path(name))

    def test_links_of_all_kinds_are_refused_by_name(self) -> None:
        self.file("real/file")
        for target in ("real", "real/file", "missing", "."):
            with self.subTest(target):
                os.mkdir(self.path("sub"))
                os.symlink(self.path(target), self.path("sub/link"))
                self.assert_refused(InvalidArgument, "sub/link", "is a symbolic link; replace it")
                os.unlink(self.path("sub/link"))
                os.rmdir(self.path("sub"))

    def test_links_to_files_are_files_if_they_may_be(self) -> None:
        self.file("real/file", b"123")
        os.symlink("file", self.path("real/link"))
        self.assertEqual(tree_of(self.directory, follows_files=True).files["real/link"].size, 3)
        os.symlink("real", self.path("other"))
        with self.assertRaisesRegex(InvalidArgument, "other is a symbolic link to a directory; replace"):
            tree_of(self.directory, follows_files=True)
        os.unlink(self.path("other"))
        os.symlink("missing", self.path("other"))
        with self.assertRaisesRegex(NotFound, "cannot read .*other"):
            tree_of(self.directory, follows_files=True)

    def test_special_files_are_refused_by_name(self) -> None:
        def bind(path: str) -> None:
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(path)

        makers: dict[str, Callable[[str], Any]] = {"pipe": os.mkfifo, "socket": bind}
        for name, make in makers.items():
            with self.subTest(name):
                make(self.path(name))
                self.assert_refused(InvalidArgument, name, "only regular files and directories")
                os.unlink(self.path(name))

    def test_a_name_that_is_not_utf8_is_refused(self) -> None:
        for make in (os.mkdir, os.mkfifo):
            path = os.fsencode(self.directory) + b"/\xff"
            make(path)
            with self.assertRaisesRegex(InvalidArgument, "\ufffd has a name that is not UTF-8"):
                tree_of(self.directory)
            os.rmdir(path) if make is os.mkdir else os.unlink(path)

    def test_a_directory_that_cannot_be_read_is_an_error(self) -> None:
        """Also for root, to whom all directories are open."""
        self.file("inner/a")
        scandir = os.scandir
        failures: list[tuple[int, type[HoldfastError], str]] = [
            (errno.EACCES, Denied, "Permission denied"),
            (errno.ENOENT, NotFound, "No such file"),
            (errno.EIO, Unexpected, "Input/output error"),
            (errno.ENOTDIR, InvalidArgument, "is not a directory"),
        ]
        for number, kind, message in failures:

            def fail(path: str, number: int = number) -> Any:
                if path.endswith("inner"):
                    raise OSError(number, os.strerror(number), path)
                return scandir(path)

            with self.subTest(message), mock.patch("os.scandir", fail):
                self.assert_refused(kind, "inner", message)

    def test_no_directory(self) -> None:
        with self.assertRaisesRegex(NotFound, "cannot read .*/missing"):
            tree_of(self.path("missing"))
        with self.assertRaisesRegex(InvalidArgument, "file is not a directory"):
            tree_of(self.file("file"))
