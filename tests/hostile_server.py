"""An endpoint that fails in every way there is, and repeats in each failure whatever secret it was sent.

A request's item says which failure comes first; asked again, it answers. Models of some names fail for good. Hides
threads and sockets; no other code of ours is in it.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WAYS = (
    "429", "500", "502", "503", "529", "408", "reset", "late", "cut", "malformed", "not-json", "error-in-200", "empty",
    "echo", "refusal", "400-once",
)  # fmt: skip
FOR_GOOD = {"unauthorized": 401, "forbidden": 403, "paid-up": 402, "absent": 404, "moved": 307}
"""Part of a model's name → the status that it always gets."""
LATE_S = 3.0
_ITEM = re.compile(r"Answer ([0-9]+) of")


class Hostile(ThreadingHTTPServer):
    """The server; `seen` counts the ways in which it has failed."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.secrets_sent: set[str] = set()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no news."""


@contextmanager
def hostile() -> Iterator[Hostile]:
    """Serve while the block lasts."""
    server = Hostile()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hostile

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        heard = f"{self.headers['authorization']} | {self.headers['x-search-token']} | {self.path} | {json.dumps(body)}"
        asked = body["messages"][-1]["content"]
        item = _ITEM.search(asked)
        way = next((name for name in FOR_GOOD if name in body["model"]), "")
        with self.server.lock:
            self.server.secrets_sent |= set(re.findall(r"canary-[\w-]+", heard))
            self.server.asked[asked] += 1
            if not way and item is not None and self.server.asked[asked] == 1:
                way = WAYS[int(item[1]) % len(WAYS)]
            self.server.seen[way or "answered"] += 1
        # Slow enough that there is something in flight to be killed.
        time.sleep(0.15)
        self._fail(way, heard) if way else self._answer("yes")

    def _fail(self, way: str, heard: str) -> None:
        error = json.dumps({"error": {"message": f"you sent {heard}", "type": heard, "code": heard, "param": heard}})
        match way:
            case "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True
                self.connection.close()
            case "late":
                time.sleep(LATE_S)
                self._send(200, error)
            case "cut":
                self._send(200, error, length=len(error.encode()) + 100)
                self.close_connection = True
            case "malformed":
                self._answer("Well, who can say.")
            case "not-json":
                self._send(200, f'{{"choices": [{{"message": "{heard}')
            case "error-in-200":
                self._send(200, error)
            case "empty":
                self._send(200, "", header=heard)
            case "echo":
                self._answer(f"I was asked with {heard}")
            case "refusal":
                self._answer(None, refusal=f"I will not, with {heard}")
            case "400-once":
                # As if a parameter were wrong: the client looks for one in the words.
                self._send(400, json.dumps({"error": {"message": f"Unsupported parameter: 'seed' {heard}"}}))
            case "429":
                self._send(429, error, retry_after="0.1")
            case "502":
                self._send(502, f"<html>Bad gateway: {heard}</html>", kind="text/html")
            case _ if way.isdecimal():
                self._send(int(way), error)
            case _:
                status = FOR_GOOD[way]
                self._send(status, "" if status == 307 else error, location=f"http://127.0.0.1:1/?{heard}")

    def _answer(self, content: str | None, refusal: str | None = None) -> None:
        message = {"role": "assistant", "content": content, "refusal": refusal}
        usage = {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self._send(200, json.dumps({"id": "1", "model": "hostile", "choices": [choice], "usage": usage}))

    def _send(
        self,
        status: int,
        text: str,
        *,
        length: int | None = None,
        kind: str = "application/json",
        location: str | None = None,
        retry_after: str | None = None,
        header: str = "",
    ) -> None:
        body = text.encode()
        self.send_response(status, "Odd")
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body) if length is None else length))
        self.send_header("x-request-id", (header or "1").replace("\n", " "))
        for name, value in (("location", location), ("retry-after", retry_after)):
            if value is not None:
                self.send_header(name, value.replace("\n", " "))
        self.end_headers()
        self.wfile.write(body)
