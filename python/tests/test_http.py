"""Answers of the agent: read whole, with a limit, and without memory for the limit."""

from __future__ import annotations

import http.client
import io
import socket
import time
import unittest
from typing import Any
from unittest import mock

import holdfast
from holdfast import _http


class _Socket:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def answer(head: str, body: bytes) -> http.client.HTTPResponse:
    data = f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + body
    fake: Any = _Socket(data)
    response = http.client.HTTPResponse(fake)
    response.begin()
    return response


class Answers(unittest.TestCase):
    def test_an_answer_of_a_known_length_is_read_without_a_limit(self) -> None:
        response = answer("Content-Length: 8\r\n", b'{"a": 1}and more')
        with mock.patch.object(response, "read", wraps=response.read) as read:
            self.assertEqual(_http.read_json(response, "GET /"), {"a": 1})
        # Python 3.9 clears as much memory as the limit says, at each call.
        read.assert_called_once_with()

    def test_an_answer_whose_length_is_not_known_ends_with_the_connection(self) -> None:
        self.assertEqual(_http.read_json(answer("", b'{"a": 1}'), "GET /"), {"a": 1})
        chunks = b'4\r\n{"a"\r\n4\r\n: 1}\r\n0\r\n\r\n'
        chunked = answer("Transfer-Encoding: chunked\r\n", chunks)
        self.assertEqual(_http.read_json(chunked, "GET /"), {"a": 1})

    def test_an_answer_that_is_cut_is_not_taken_for_whole(self) -> None:
        with self.assertRaises(http.client.IncompleteRead):
            _http.read_json(answer("Content-Length: 9\r\n", b'{"a": 1}'), "GET /")

    def test_an_answer_beyond_the_limit_is_refused_and_not_read(self) -> None:
        with mock.patch.object(_http, "_ANSWER_BYTES_MAX", 7):
            for head in ("Content-Length: 8\r\n", "", "Transfer-Encoding: chunked\r\n"):
                body = b'8\r\n{"a": 1}\r\n0\r\n\r\n' if "chunked" in head else b'{"a": 1}'
                with self.assertRaisesRegex(holdfast.ProtocolError, "longer than 7 bytes"):
                    _http.read_json(answer(head, body), "GET /")
        huge = answer(f"Content-Length: {_http._ANSWER_BYTES_MAX + 1}\r\n", b"")
        with self.assertRaisesRegex(holdfast.ProtocolError, "longer than"):
            _http.read_json(huge, "GET /")


class Requests(unittest.TestCase):
    def test_the_agent_is_told_how_long_the_caller_waits(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            place: Any = None
            connection = _http.Connection(place, None)
            connection.sock = ours
            with mock.patch.object(time, "monotonic", lambda: 100.0):
                connection.ask_json("GET", "/", None, 102.5)
            self.assertIn(b"\r\nHoldfast-Timeout-Ms: 2500\r\n", theirs.recv(4096))


if __name__ == "__main__":
    unittest.main()
