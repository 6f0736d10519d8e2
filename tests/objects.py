"""Object stores on this machine: S3 by moto, Google Cloud Storage by the few calls of it that are made.

Hides how they are started, and the variables that point clients to them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import polars

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

    def names(self, prefix: str) -> list[str]:
        """The keys of all objects that begin so."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def get(self, key: str) -> bytes:
        """An object's content."""
        content: bytes = self._client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return content

    def rows(self, key: str) -> list[dict[str, Any]]:
        """The rows of a Parquet object."""
        return polars.read_parquet(self.get(key)).rows(named=True)

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
    """The JSON interface, by which pyarrow reads, and the XML interface, by which obstore reads and writes."""

    protocol_version = "HTTP/1.1"
    folder = Path()
    writing = threading.Lock()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        bucket, _, name = unquote(urlsplit(self.path).path).removeprefix("/").partition("/")
        file = self.folder / name
        if bucket != BUCKET:
            self._send(404, b"<Error><Code>NoSuchBucket</Code></Error>")
            return
        with self.writing:
            if self.headers.get("x-goog-if-generation-match") == "0" and file.exists():
                self._send(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        self._send(200, b"")

    def _read_xml(self, name: str, query: dict[str, list[str]]) -> None:
        if name:
            file = self.folder / name
            self._send(200, file.read_bytes()) if file.is_file() else self._send(404, b"<Error/>")
            return
        prefix, after = (query.get(key, [""])[0] for key in ("prefix", "start-after"))
        names = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())
        found = "".join(
            f"<Contents><Key>{known}</Key><LastModified>2026-01-01T00:00:00Z</LastModified><ETag>x</ETag>"
            f"<Size>{(self.folder / known).stat().st_size}</Size></Contents>"
            for known in names
            if known.startswith(prefix) and known > after
        )
        self._send(200, f"<ListBucketResult>{found}</ListBucketResult>".encode())

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        bucket, _, key = unquote(url.path).removeprefix("/").partition("/")
        if bucket == BUCKET:
            self._read_xml(key, parse_qs(url.query))
            return
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
        self.send_header("ETag", "x")
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
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
