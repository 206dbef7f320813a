"""Not one byte goes to a socket behind which other users could be."""

from __future__ import annotations

import os
import socket
import struct
import threading
from typing import Any
from unittest import mock

import holdfast
from holdfast._place import find_place, make_directory, open_socket, runtime_directory

from .support import TestCase


class Finding(TestCase):
    def test_the_argument_comes_before_the_variable_and_that_before_the_directory(self) -> None:
        os.environ["XDG_RUNTIME_DIR"] = self.directory
        own = self.path("holdfast")
        self.assertEqual(find_place(None), (f"{own}/agent.sock", own, True))
        os.environ["HOLDFAST_AGENT"] = "/run/agents/a.sock"
        self.assertEqual(find_place(None), ("/run/agents/a.sock", "/run/agents", False))
        self.assertEqual(find_place(f"{own}/agent.sock").is_runtime, True)
        self.assertEqual(find_place("x.sock").socket, os.path.abspath("x.sock"))

    def test_without_a_runtime_directory_of_the_session_it_is_in_tmp(self) -> None:
        self.assertEqual(runtime_directory(), f"/tmp/holdfast-{os.geteuid()}")
        os.environ["XDG_RUNTIME_DIR"] = "relative"
        self.assertEqual(runtime_directory(), f"/tmp/holdfast-{os.geteuid()}")

    def test_a_path_that_no_socket_can_have_is_refused(self) -> None:
        with self.assertRaisesRegex(holdfast.InvalidArgument, "at most 107"):
            find_place("/" + "x" * 120)
        for path in ("", "/a\0b"):
            with self.assertRaisesRegex(holdfast.InvalidArgument, "expected the path of a socket"):
                find_place(path)


class Checks(TestCase):
    def setUp(self) -> None:
        super().setUp()
        os.environ["XDG_RUNTIME_DIR"] = self.directory
        self.own = self.path("holdfast")
        make_directory(self.own)
        self.socket = os.path.join(self.own, "agent.sock")
        self.server = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.server.close)
        self.server.bind(self.socket)
        self.server.listen()
        os.chmod(self.socket, 0o600)
        self.received = b"none"

    def refused(self, words: str, kind: type[Exception] = holdfast.InvalidConfig) -> None:
        with self.assertRaisesRegex(kind, words):
            open_socket(find_place(None), 5)
        with self.assertRaisesRegex(kind, words):
            holdfast.connect("file:///x", timeout=0.05)

    def stat_of(self, target: str, **facts: int) -> Any:
        """Makes the file system tell other facts about one path."""
        real = os.lstat

        def changed(path: Any, *args: Any, **options: Any) -> Any:
            found = real(path, *args, **options)
            if path != target:
                return found
            values = list(found)
            values[0] = facts.get("mode", found.st_mode)
            values[4] = facts.get("uid", found.st_uid)
            return os.stat_result(values)

        return mock.patch("os.lstat", changed), mock.patch("os.stat", changed)

    def test_an_own_socket_in_an_own_directory_is_connected(self) -> None:
        connection, pid = open_socket(find_place(None), 5)
        connection.close()
        self.assertEqual(pid, os.getpid())

    def test_a_directory_that_others_may_enter_is_refused(self) -> None:
        os.chmod(self.own, 0o750)
        self.refused("has the mode 0750; run: chmod 700")
        with self.assertRaisesRegex(holdfast.InvalidConfig, "0750"):
            make_directory(self.own)

    def test_a_directory_of_another_user_is_refused(self) -> None:
        for patch in self.stat_of(self.own, uid=12345):
            patch.start()
            self.addCleanup(mock.patch.stopall)
        self.refused("belongs to user 12345")

    def test_a_link_and_a_file_in_place_of_the_directory_are_refused(self) -> None:
        os.rename(self.own, self.path("real"))
        os.symlink(self.path("real"), self.own)
        self.refused("is not a directory")
        os.unlink(self.own)
        with open(self.own, "wb"):
            pass
        with self.assertRaisesRegex(holdfast.InvalidConfig, "is not a directory"):
            make_directory(self.own)

    def test_a_socket_that_others_may_use_is_refused(self) -> None:
        os.chmod(self.socket, 0o666)
        # Others cannot reach it here. An agent sets the mode a moment after it has made it.
        open_socket(find_place(None), 5)[0].close()
        os.environ["HOLDFAST_AGENT"] = self.socket
        os.environ["XDG_RUNTIME_DIR"] = "/elsewhere"
        os.chmod(self.own, 0o755)
        self.refused("any user may use the socket .*mode 0666.*chmod o=")

    def test_a_socket_for_the_group_is_accepted(self) -> None:
        os.chmod(self.socket, 0o660)
        open_socket(find_place(None), 5)[0].close()

    def test_a_socket_of_another_user_is_refused(self) -> None:
        for patch in self.stat_of(self.socket, uid=12345):
            patch.start()
            self.addCleanup(mock.patch.stopall)
        self.refused("the socket .* belongs to user 12345")

    def test_a_link_or_a_file_in_place_of_the_socket_is_refused(self) -> None:
        os.rename(self.socket, self.path("s"))
        os.symlink(self.path("s"), self.socket)
        self.refused("is not a socket")

    def test_a_given_socket_in_a_directory_that_others_may_write_is_refused(self) -> None:
        os.environ["HOLDFAST_AGENT"] = self.socket
        os.environ["XDG_RUNTIME_DIR"] = "/elsewhere"
        os.chmod(self.own, 0o777)
        self.refused("could replace the socket; run: chmod go-w")
        os.chmod(self.own, 0o1777)
        open_socket(find_place(None), 5)[0].close()
        for patch in self.stat_of(self.own, uid=12345):
            patch.start()
            self.addCleanup(mock.patch.stopall)
        self.refused("belongs to user 12345, who could replace the socket")

    def test_a_server_of_another_user_gets_no_byte(self) -> None:
        def serve() -> None:
            connection, _ = self.server.accept()
            connection.settimeout(10)
            self.received = connection.recv(1)
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        credentials = struct.pack("3i", 77, 12345, 12345)
        with mock.patch("holdfast._place.socket.socket.getsockopt", return_value=credentials):
            with self.assertRaisesRegex(holdfast.InvalidConfig, "user 12345 serves the socket"):
                open_socket(find_place(None), 5)
        thread.join()
        self.assertEqual(self.received, b"")

    def test_another_user_is_trusted_only_by_name(self) -> None:
        os.environ["HOLDFAST_AGENT_UID"] = "12345"
        credentials = struct.pack("3i", 77, 12345, 12345)
        with mock.patch("holdfast._place.socket.socket.getsockopt", return_value=credentials):
            open_socket(find_place(None), 5)[0].close()
        os.environ["HOLDFAST_AGENT_UID"] = "root"
        self.refused("HOLDFAST_AGENT_UID: expected a number")

    def test_no_socket_and_one_without_a_listener_are_an_agent_that_is_gone(self) -> None:
        self.server.close()
        with self.assertRaisesRegex(holdfast.AgentUnavailable, "Connection refused.*holdfast agent"):
            holdfast.connect("file:///x", timeout=0.05)
        os.unlink(self.socket)
        with self.assertRaisesRegex(holdfast.AgentUnavailable, "No such file") as caught:
            holdfast.connect("file:///x", timeout=0.05)
        self.assertTrue(caught.exception.retryable)
        os.rmdir(self.own)
        with self.assertRaises(holdfast.AgentUnavailable):
            holdfast.connect("file:///x", timeout=0.05)
