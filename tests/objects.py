"""Object stores on this machine: S3 by moto, Google Cloud Storage by the few calls of it that reading takes.

Hides how they are started, and the variables that point clients to them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

BUCKET = "answers"


class Bucket:
    """A bucket of S3, filled by Amazon's own client."""

    def __init__(self, url: str) -> None:
        import boto3

        self.url = url
        self.environment = {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "tested",
            "AWS_SECRET_ACCESS_KEY": "tested",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }
        session = boto3.Session("tested", "tested", region_name="us-east-1")
        self._client: Any = session.client("s3", endpoint_url=url)
        self._client.create_bucket(Bucket=BUCKET)

    def put(self, key: str, content: bytes) -> str:
        """Store an object; its URL."""
        self._client.put_object(Bucket=BUCKET, Key=key, Body=content)
        return f"s3://{BUCKET}/{key}"

    def put_rows(self, key: str, rows: Sequence[Mapping[str, Any]]) -> str:
        """Store rows, one a line."""
        return self.put(key, "".join(json.dumps(row) + "\n" for row in rows).encode())


@contextmanager
def s3() -> Iterator[Bucket]:
    """S3 on this machine, while the context lasts."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield Bucket(f"http://{host}:{port}")
    finally:
        server.stop()


@contextmanager
def cloud_storage(folder: Path) -> Iterator[str]:
    """Google Cloud Storage with the files of a folder as objects of a bucket; in a process of its own, since pyarrow's
    client holds the interpreter in some of its calls."""
    command = [sys.executable, __file__, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


class _Handler(BaseHTTPRequestHandler):
    folder = Path()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        place, _, name = url.path.partition(f"/storage/v1/b/{BUCKET}/o")[2].partition("/")
        names = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())
        name = unquote(name)
        if place or f"/b/{BUCKET}/o" not in url.path:
            self._send(404, b"{}")
        elif not name:
            prefix = query.get("prefix", [""])[0]
            found = [self._described(known) for known in names if known.startswith(prefix)]
            self._send(200, json.dumps({"kind": "storage#objects", "items": found}).encode())
        elif name not in names:
            self._send(404, json.dumps({"error": {"code": 404, "message": "no such object"}}).encode())
        elif query.get("alt") == ["media"]:
            content = (self.folder / name).read_bytes()
            wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            first, last = (int(wanted[1]), int(wanted[2] or len(content) - 1)) if wanted else (0, len(content) - 1)
            self._send(206 if wanted else 200, content[first : last + 1], f"bytes {first}-{last}/{len(content)}")
        else:
            self._send(200, json.dumps(self._described(name)).encode())

    def _described(self, name: str) -> dict[str, Any]:
        status = (self.folder / name).stat()
        fixed = {"timeCreated": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z", "metageneration": "1"}
        mark = str(status.st_mtime_ns)
        own = {"name": name, "size": str(status.st_size), "etag": mark, "generation": "1"}
        return {"kind": "storage#object", "bucket": BUCKET, **fixed, **own}

    def _send(self, status: int, body: bytes, part: str = "") -> None:
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", part)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    _Handler.folder = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
