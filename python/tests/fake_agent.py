"""An agent that does on demand what a real one does rarely: vanish, forget, answer nonsense."""

from __future__ import annotations

import json
import os
import shutil
import socketserver
import tempfile
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any, Callable, Optional
from urllib.parse import parse_qs, urlsplit

FINAL = ("committed", "failed", "fenced", "incomplete", "outcomeUnknown", "cancelled")


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, code: str, message: str = "", **details: Any) -> None:
        super().__init__(message or code)
        self.status = status
        self.fields = {
            "code": code,
            "message": message or code,
            "details": details,
            "retryable": code in ("Unavailable", "Throttled"),
        }


class FakeAgent:
    """Keeps checkpoints in memory. ``directory`` holds its socket and its stage."""

    def __init__(self, directory: Optional[str] = None) -> None:
        self.directory = directory or tempfile.mkdtemp(prefix="holdfast-fake-")
        os.chmod(self.directory, 0o700)
        self.socket = os.path.join(self.directory, "agent.sock")
        self.stage_kind = "tmpfs"
        self.pid = os.getpid()
        #: States of saves stay until ``finish``.
        self.is_holding = False
        self.changed = threading.Condition()
        self.writers: dict[str, dict[str, Any]] = {}
        self.saves: dict[str, dict[str, Any]] = {}
        self.contents: dict[str, dict[str, bytes]] = {}
        self.committed: dict[int, dict[str, bytes]] = {}
        self.metrics: dict[int, dict[str, Any]] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self.tokens: list[Optional[str]] = []
        #: Called with method and path first. It may raise, or return an answer.
        self.before: Callable[[str, str], Optional[tuple[int, Any]]] = lambda method, path: None
        #: Of the checkpoints whose bytes it answers with.
        self.lineage = "l1"
        #: Bytes of a body after which an answer of `/v1/files` is cut, once for each number.
        self.cuts: list[int] = []
        self._server: Optional[_Server] = None
        self.start()

    def start(self) -> None:
        """Listens. Also after ``vanish``, and then it has forgotten writers and saves."""
        self._server = _Server(self.socket, _Handler)
        os.chmod(self.socket, 0o600)
        self._server.agent = self
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def vanish(self) -> None:
        """Closes everything, as a process that is killed."""
        server, self._server = self._server, None
        if server is None:
            return
        server.shutdown()
        server.server_close()
        with suppress(FileNotFoundError):
            os.unlink(self.socket)
        for connection in list(server.connections):
            try:
                connection.shutdown(2)
            except OSError:
                pass
        with self.changed:
            self.writers.clear()
            self.saves.clear()
            self.changed.notify_all()

    def close(self) -> None:
        self.vanish()
        shutil.rmtree(self.directory, ignore_errors=True)

    def finish(self, save_id: str, state: str, **fields: Any) -> None:
        """Ends a save and tells the writer."""
        with self.changed:
            save = self.saves[save_id]
            save.update(state=state, **fields)
            if state == "committed":
                save["durability"] = "committed"
                version = int(save["version"])
                self.committed.setdefault(version, {}).update(self.contents[save_id])
            self.changed.notify_all()
            for events in self.writers[save["writerId"]]["events"]:
                _send_line(events, {"type": "save", **save})

    def summary(self, version: int) -> dict[str, Any]:
        files = self.committed[version]
        return {
            "id": {"lineage": "l1", "epoch": "1", "version": str(version)},
            "version": str(version),
            "sizeBytes": sum(len(data) for data in files.values()),
            "fileCount": len(files),
            "metrics": self.metrics.get(version, {}),
            "state": "committed",
            "isLatest": version == max(self.committed),
            "pins": [],
            "committedAtMs": 1_700_000_000_000,
            "aFieldOfANewerAgent": True,
        }


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64
    agent: FakeAgent

    def __init__(self, *args: Any) -> None:
        self.connections: list[Any] = []
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


def _send_line(handler: "_Handler", fields: dict[str, Any]) -> None:
    line = json.dumps(fields).encode() + b"\n"
    try:
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        handler.wfile.flush()
    except OSError:
        pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def address_string(self) -> str:
        return "client"

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_DELETE = do_GET

    def _serve(self) -> None:
        agent = self.server.agent
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else {}
        agent.requests.append((self.command, url.path, body or query))
        agent.tokens.append(self.headers.get("Authorization"))
        try:
            answer = agent.before(self.command, url.path) or self._route(url.path, query, body)
        except Refusal as refusal:
            answer = refusal.status, refusal.fields
        if answer is not None:
            status, fields = answer
            data = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self._name_checkpoint(url.path)
            self.end_headers()
            self.wfile.write(data)

    def _route(self, path: str, query: dict[str, str], body: Any) -> Optional[tuple[int, Any]]:
        words = path.strip("/").split("/")
        agent = self.server.agent
        if path == "/healthz":
            return 200, {"status": "ok", "version": "0.1.0", "pid": agent.pid}
        if path == "/v1/writers":
            return self._join(body)
        if words[:2] == ["v1", "writers"]:
            return self._writer(words[2:], query, body)
        if path == "/v1/latest":
            if not agent.committed:
                raise Refusal(404, "NotFound")
            return 200, agent.summary(max(agent.committed))
        if path == "/v1/versions":
            newest = sorted(agent.committed, reverse=True)[: int(query.get("limit", 100))]
            return 200, {"versions": [agent.summary(version) for version in newest]}
        if words[:2] == ["v1", "versions"]:
            return 200, self._details(words[2])
        if path == "/v1/files":
            return self._file(query)
        raise Refusal(404, "InvalidArgument", f"no such path: {path}")

    def _join(self, body: Any) -> tuple[int, Any]:
        agent = self.server.agent
        writer_id = f"w-{body['life'][:8]}"
        with agent.changed:
            agent.writers.setdefault(writer_id, {"join": body, "events": [], "saves": []})
        stage = os.path.join(agent.directory, writer_id)
        os.makedirs(stage, 0o700, exist_ok=True)
        return 201, {
            "writerId": writer_id,
            "epoch": "1",
            "lineage": "l1",
            "tookOver": False,
            "latest": None,
            "stage": {
                "directory": stage,
                "kind": agent.stage_kind,
                "reason": "the test says so",
                "freeBytes": 1 << 30,
            },
            "limits": {"bodyBytesMax": 1 << 20, "filesMax": 1000, "waitMsMax": 2000},
        }

    def _writer(self, words: list[str], query: dict[str, str], body: Any) -> Optional[tuple[int, Any]]:
        agent = self.server.agent
        writer = agent.writers.get(words[0])
        if writer is None:
            raise Refusal(404, "NotFound", f"no writer {words[0]}")
        if words[1:] == ["events"]:
            self._events(writer)
            return None
        if words[1:] == []:
            if self.command == "DELETE":
                return 200, {}
            return 200, {"writerId": words[0], "saves": [agent.saves[one] for one in writer["saves"]]}
        if words[1:] == ["saves"]:
            return self._save(words[0], writer, body)
        save = agent.saves.get(words[2])
        if save is None:
            raise Refusal(404, "NotFound", f"no save {words[2]}")
        if words[3:] == ["seal"]:
            self._open(words[2], body.get("files", []))
            save.update(state="accepted", durability="staged")
            self._advance(words[2])
            return 202, save
        if self.command == "DELETE":
            agent.finish(words[2], "cancelled", durability="none")
            return 200, save
        return 200, self._awaited(save, query)

    def _events(self, writer: dict[str, Any]) -> None:
        agent = self.server.agent
        with agent.changed:
            # A save that ends while the stream opens is told to it as well: `finish` waits.
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            _send_line(self, {"type": "hello"})
            writer["events"].append(self)
        # The client sends nothing more. Its end, or ours, ends this.
        try:
            self.rfile.read(1)
        finally:
            with agent.changed:
                writer["events"].remove(self)
                agent.changed.notify_all()
            self.close_connection = True

    def _save(self, writer_id: str, writer: dict[str, Any], body: Any) -> tuple[int, Any]:
        agent = self.server.agent
        save_id = body["saveId"]
        if save_id in agent.saves:
            return 202, agent.saves[save_id]
        is_sealed = body.get("sealed", True)
        agent.contents[save_id] = {}
        agent.saves[save_id] = {
            "saveId": save_id,
            "writerId": writer_id,
            "version": str(body["version"]),
            "state": "accepted" if is_sealed else "open",
            "durability": "staged" if is_sealed else "none",
            "missingWriters": [],
            "error": None,
        }
        writer["saves"].append(save_id)
        self._open(save_id, body["files"])
        if is_sealed:
            self._advance(save_id)
        return 202, agent.saves[save_id]

    def _advance(self, save_id: str) -> None:
        if not self.server.agent.is_holding:
            self.server.agent.finish(save_id, "committed")

    def _open(self, save_id: str, files: Any) -> None:
        for file in files:
            source = file["source"]
            path = source.get("path") or f"/proc/{source['pid']}/fd/{source['fd']}"
            try:
                with open(path, "rb") as stream:
                    stream.seek(source.get("offset", 0))
                    data = stream.read(source.get("length", -1))
            except FileNotFoundError:
                raise Refusal(404, "NotFound", f"no file {path}") from None
            self.server.agent.contents[save_id][file["name"]] = data

    def _awaited(self, save: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
        agent = self.server.agent
        wait = query.get("wait")
        if wait:
            def is_there() -> bool:
                reached = wait == "staged" and save["durability"] == "staged"
                return save["state"] in FINAL or reached or agent._server is None

            with agent.changed:
                agent.changed.wait_for(is_there, int(query.get("timeoutMs", 1000)) / 1000)
        return save

    def _details(self, version: str) -> dict[str, Any]:
        agent = self.server.agent
        number = max(agent.committed, default=-1) if version == "latest" else int(version)
        if number not in agent.committed:
            what = f"no version {version}" if agent.committed else "nothing was committed"
            raise Refusal(404, "NotFound", what)
        files = [
            {"name": name, "sizeBytes": len(data), "crc32c": 1, "writer": 0, "mtimeMs": None, "key": name}
            for name, data in agent.committed[number].items()
        ]
        return {**agent.summary(number), "worldSize": 1, "files": files, "metadata": {}}

    def _name_checkpoint(self, path: str) -> None:
        if path == "/v1/files":
            self.send_header("holdfast-lineage", self.server.agent.lineage)
            self.send_header("holdfast-manifest-key", f"manifests/{self.server.agent.lineage}")

    def _file(self, query: dict[str, str]) -> Optional[tuple[int, Any]]:
        agent = self.server.agent
        data = agent.committed[int(query["version"])][query["name"]]
        offset, length = int(query.get("offset", 0)), int(query["length"])
        if offset + length > len(data):
            raise Refusal(400, "InvalidArgument", f"the file has {len(data)} bytes")
        piece = data[offset : offset + length]
        if not agent.cuts:
            return 200, piece
        self.send_response(200)
        self.send_header("Content-Length", str(len(piece)))
        self._name_checkpoint("/v1/files")
        self.end_headers()
        self.wfile.write(piece[: agent.cuts.pop(0)])
        self.close_connection = True
        return None
