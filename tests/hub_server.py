"""The Hugging Face Hub on this machine: the calls that finding a commit and streaming a dataset make.

Run as a program with a folder of commits: `<folder>/<commit>/<files>`, and `<folder>/main` that names one of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

DATASET = "example/answers"


@contextmanager
def hub(folder: Path) -> Iterator[dict[str, str]]:
    """Serve the commits of a folder; the variables that point the Hub's client there."""
    command = [sys.executable, __file__, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            url = f"http://127.0.0.1:{process.stdout.readline().strip()}"
            yield environment(folder.with_name("hub-cache")) | {"HF_ENDPOINT": url, "HF_HUB_OFFLINE": "0"}
        finally:
            process.terminate()


def environment(cache: Path) -> dict[str, str]:
    """Variables under which the Hub's client neither leaves this machine nor writes elsewhere."""
    return {
        "HF_HOME": str(cache),
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        "NO_PROXY": "127.0.0.1",
    }


class _Handler(BaseHTTPRequestHandler):
    folder = Path()
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        if os.environ.get("HUB_LOG"):
            sys.stderr.write(f"{self.command} {self.path} {args}\n")

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        api = re.fullmatch(rf"/api/datasets/{DATASET}(?:/(revision|tree|refs)(?:/([^/]+))?(?:/(.*))?)?", path)
        file = re.fullmatch(rf"/datasets/{DATASET}/resolve/([^/]+)/(.+)", path)
        if file:
            self._file(file[1], file[2])
        elif api and api[1] == "refs":
            branch = {"name": "main", "ref": "refs/heads/main", "targetCommit": self._commit("main")}
            self._json({"branches": [branch], "tags": [], "converts": []})
        elif not api:
            self._lacking("RepoNotFound")
        elif (commit := self._commit(api[2] or "main")) is None:
            self._lacking("RevisionNotFound")
        elif api[1] == "tree":
            self._tree(commit, api[3] or "")
        else:
            siblings = [{"rfilename": name} for name in self._names(commit)]
            self._json({"id": DATASET, "sha": commit, "private": False, "tags": [], "siblings": siblings})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        asked = json.loads(body) if body.startswith("{") else parse_qs(body)
        commit = self._commit(self.path.rpartition("/")[2])
        if commit is None:
            self._lacking("RevisionNotFound")
            return
        names = asked["paths"] if isinstance(asked["paths"], list) else [asked["paths"]]
        self._json([entry for name in names for entry in self._entries(commit) if entry["path"] == name])

    def _commit(self, revision: str) -> str | None:
        commit = (self.folder / "main").read_text(encoding="utf-8").strip() if revision == "main" else revision
        return commit if (self.folder / commit).is_dir() else None

    def _names(self, commit: str) -> list[str]:
        base = self.folder / commit
        return sorted(str(path.relative_to(base)) for path in base.rglob("*") if path.is_file())

    def _entries(self, commit: str) -> list[dict[str, Any]]:
        base = self.folder / commit
        paths = sorted(base.rglob("*"))
        return [
            {"type": "directory", "oid": "0" * 40, "size": 0, "path": str(path.relative_to(base))}
            if path.is_dir()
            else {"type": "file", "oid": _oid(path), "size": path.stat().st_size, "path": str(path.relative_to(base))}
            for path in paths
        ]

    def _tree(self, commit: str, below: str) -> None:
        deep = parse_qs(urlsplit(self.path).query).get("recursive", ["false"])[0].lower() == "true"
        prefix = f"{below}/" if below else ""
        entries = [entry for entry in self._entries(commit) if entry["path"].startswith(prefix)]
        self._json([entry for entry in entries if deep or "/" not in entry["path"].removeprefix(prefix)])

    def _file(self, revision: str, name: str) -> None:
        commit = self._commit(revision)
        if commit is None or name not in self._names(commit):
            self._lacking("EntryNotFound" if commit else "RevisionNotFound")
            return
        path = self.folder / commit / name
        content = path.read_bytes()
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        first, last = (int(wanted[1]), int(wanted[2] or len(content) - 1)) if wanted else (0, len(content) - 1)
        part = content[first : last + 1]
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.send_header("X-Repo-Commit", commit)
        self.send_header("ETag", f'"{_oid(path)}"')
        self.send_header("Accept-Ranges", "bytes")
        self._end(part)

    def _json(self, value: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self._end(json.dumps(value).encode())

    def _lacking(self, code: str) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", code)
        self._end(b"")

    def _end(self, body: bytes) -> None:
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _oid(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    _Handler.folder = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
