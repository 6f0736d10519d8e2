"""Object stores on this machine: S3 by moto, Google Cloud Storage by the few calls of it that are made.

Hides how they are started, and the variables that point clients to them.
"""

from __future__ import annotations

import json
import os
import re
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

    def put(self, key: str, content: bytes, public: bool = False) -> str:
        """Store an object; its URL."""
        self._client.put_object(Bucket=BUCKET, Key=key, Body=content, ACL="public-read" if public else "private")
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

    def put_rows(self, key: str, rows: Sequence[Mapping[str, Any]], public: bool = False) -> str:
        """Store rows, one a line."""
        return self.put(key, "".join(json.dumps(row) + "\n" for row in rows).encode(), public)


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
    """Google Cloud Storage with the files of a folder as objects of a bucket."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"folder": folder}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    """What obstore uses of the XML interface."""

    protocol_version = "HTTP/1.1"
    folder = Path()
    writing = threading.Lock()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        file, _ = self._target()
        if file is None:
            self._send(404, b"<Error><Code>NoSuchBucket</Code></Error>")
            return
        with self.writing:
            if self.headers.get("x-goog-if-generation-match") == "0" and file.exists():
                self._send(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        self._send(200, b"")

    def do_GET(self) -> None:
        file, query = self._target()
        if file is None:
            self._send(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        elif file == self.folder:
            self._list(*(query.get(key, [""])[0] for key in ("prefix", "start-after")))
        elif not file.is_file():
            self._send(404, b"<Error/>")
        else:
            content = file.read_bytes()
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            first, last = (int(wanted[1]), int(wanted[2])) if wanted else (0, len(content) - 1)
            part = f"bytes {first}-{min(last, len(content) - 1)}/{len(content)}" if wanted else ""
            self._send(206 if wanted else 200, content[first : last + 1], part, str(file.stat().st_mtime_ns))

    do_HEAD = do_GET

    def _target(self) -> tuple[Path | None, dict[str, list[str]]]:
        """The file of an object, or the folder for the bucket itself; and the query."""
        url = urlsplit(self.path)
        bucket, _, name = unquote(url.path).removeprefix("/").partition("/")
        return self.folder / name if bucket == BUCKET else None, parse_qs(url.query)

    def _list(self, prefix: str, after: str) -> None:
        names = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())
        found = "".join(
            f"<Contents><Key>{known}</Key><LastModified>2026-01-01T00:00:00Z</LastModified><ETag>x</ETag>"
            f"<Size>{(self.folder / known).stat().st_size}</Size></Contents>"
            for known in names
            if known.startswith(prefix) and known > after
        )
        self._send(200, f"<ListBucketResult>{found}</ListBucketResult>".encode())

    def _send(self, status: int, body: bytes, part: str = "", etag: str = "x") -> None:
        self.send_response(status)
        self.send_header("ETag", etag)
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        if part:
            self.send_header("Content-Range", part)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
