"""Items in object stores: read as local files are, watched by their ETag, and every trouble named with its URL."""

from __future__ import annotations

import gzip
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from objects import BUCKET, Bucket, cloud_storage, s3
from stage_inputs import column, config, fields, row, staged

from runner.dataset import input_signature
from runner.dataset import remote_files as remote
from runner.errors import ConfigError, InputError, ItemError

EVALUATIONS = Path(__file__).resolve().parents[2] / "evaluations"


@pytest.fixture(scope="module")
def store() -> Iterator[Bucket]:
    with s3() as bucket:
        yield bucket


@pytest.fixture
def bucket(store: Bucket, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    return store


def parquet(rows: list[dict[str, Any]], folder: Path) -> bytes:
    path = folder / "made.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path.read_bytes()


def test_every_format_is_read_from_s3(bucket: Bucket, tmp_path: Path) -> None:
    urls = [
        bucket.put_rows("formats/a.jsonl", [row(1)]),
        bucket.put("formats/b.jsonl.gz", gzip.compress(json.dumps(row(2)).encode())),
        bucket.put("formats/c.json", json.dumps([row(3)]).encode()),
        bucket.put("formats/d.csv", b"id,question,reference,response\ni4,q4,r,a4\n"),
        bucket.put("formats/e.parquet", parquet([row(5)], tmp_path)),
    ]
    result = staged(tmp_path, path=urls)
    assert fields(result) == [row(number) for number in range(1, 6)]
    log = bucket.put("formats/f.eval", (EVALUATIONS / "capitals.eval").read_bytes())
    assert fields(staged(tmp_path, path=log)) == fields(staged(tmp_path, path=str(EVALUATIONS / "capitals.eval")))


def test_a_glob_takes_the_objects_of_its_folder_or_of_all_below(bucket: Bucket, tmp_path: Path) -> None:
    names = ["b.jsonl", "a.jsonl", ".hidden.jsonl", "a.txt", "deep/c.jsonl", "deep/deeper/d.jsonl", "x y/[e].jsonl"]
    for number, name in enumerate(names):
        bucket.put_rows(f"globs/{name}", [row(number)])
    base = f"s3://{BUCKET}/globs"
    assert column(staged(tmp_path, path=f"{base}/*.jsonl"), "id") == ["i1", "i0"]
    assert column(staged(tmp_path, path=f"{base}/*/*.jsonl"), "id") == ["i4", "i6"]
    assert column(staged(tmp_path, path=f"{base}/**/*.jsonl"), "id") == ["i1", "i0", "i4", "i5", "i6"]
    assert column(staged(tmp_path, path=f"{base}/x y/[e].jsonl"), "id") == ["i6"]
    assert column(staged(tmp_path, path=[f"{base}/b.jsonl", f"{base}/[ab].jsonl"]), "id") == ["i0", "i1"]


def test_systems_and_the_joined_reference_may_be_objects(bucket: Bucket, tmp_path: Path) -> None:
    answers = [{"key": f"k{number}", "response": f"a{number}"} for number in range(3)]
    questions = [{"key": f"k{number}", "question": f"q{number}", "reference": "r"} for number in range(3)]
    result = staged(
        tmp_path,
        systems={"x": bucket.put_rows("join/x.jsonl", answers), "y": bucket.put_rows("join/y.jsonl", answers[:2])},
        join={"path": bucket.put_rows("join/questions.jsonl", questions), "on": "key"},
        fields={"id": "key"},
    )
    assert column(result, "system") == ["x"] * 3 + ["y"] * 2
    assert result.coverage == {"x": (3, 3), "y": (2, 3)}


def test_the_signature_sees_a_new_content_of_the_same_length_at_once(bucket: Bucket, tmp_path: Path) -> None:
    keys = [f"watched/{number}.jsonl" for number in range(20)]
    for key in keys:
        bucket.put_rows(key, [row(1)])
    watched = config(path=f"s3://{BUCKET}/watched/*.jsonl")
    before = input_signature(watched, tmp_path)
    assert input_signature(watched, tmp_path) == before
    assert [sorted(file) for file in before["files"]] == [["ETag", "path", "size"]] * 20
    bucket.put_rows(keys[7], [row(1, response="b1")])
    after = input_signature(watched, tmp_path)
    changed = [old["path"] for old, new in zip(before["files"], after["files"], strict=True) if old != new]
    assert changed == [f"s3://{BUCKET}/{keys[7]}"]
    assert before["files"][7]["size"] == after["files"][7]["size"]


def test_many_blocks_are_read_once_each_and_in_order(bucket: Bucket, tmp_path: Path) -> None:
    rows = [row(number, response=f"{number} " + "x" * 20_000) for number in range(1_000)]
    assert sum(len(entry["response"]) for entry in rows) > 2 * remote._BLOCK
    assert fields(staged(tmp_path, path=bucket.put_rows("long.jsonl", rows))) == rows


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ({"path": f"s3://{BUCKET}/none.jsonl"}, "items.path: there is no object s3://answers/none.jsonl at http://127"),
        ({"path": f"s3://{BUCKET}/none/*.jsonl"}, "items.path: no object matches s3://answers/none/"),
        ({"path": f"s3://{BUCKET}/tree"}, "s3://answers/tree is a directory; name its objects, as in s3://answers/t"),
        ({"path": "s3://nobody/*.jsonl"}, "items.path: s3://nobody/.*: there is no such bucket"),
        ({"path": f"s3://{BUCKET}"}, "must name a bucket and an object"),
        ({"path": "s3://*/a.jsonl"}, "bucket's name cannot be a pattern"),
        ({"path": "s3://key:secret@bucket/a.jsonl"}, "must not hold credentials"),
        ({"path": "s3://AKIA:secret/with/slashes@bucket/a.jsonl"}, "must not hold credentials"),
        ({"path": "s3://AKIA:secret"}, "must not hold credentials"),
        ({"path": "gs://:secret@bucket"}, "must not hold credentials"),
        ({"path": "https://me:secret@host/a.jsonl"}, "items.path: 'https://…@host/a.jsonl' cannot be read"),
        ({"path": "https://me:sec/secret@host/a.jsonl"}, "items.path: 'https://…@host/a.jsonl' cannot be read"),
        ({"path": "abfss://c@host/a.jsonl?sig=secret"}, "'abfss://…@host/a.jsonl.…' cannot be read"),
        ({"path": "S3://key:secret@bucket/a.jsonl"}, "'S3://…@bucket/a.jsonl' cannot be read"),
        ({"systems": {"x": f"s3://{BUCKET}/none.jsonl"}}, "items.systems.x: there is no object"),
        ({"path": f"s3://{BUCKET}/tree/a.txt"}, "the ending of s3://answers/tree/a.txt tells no format"),
    ],
)
def test_wrong_urls_are_told_with_their_key(
    bucket: Bucket, tmp_path: Path, items: dict[str, Any], problem: str
) -> None:
    bucket.put("tree/a.txt", b"")
    with pytest.raises(ConfigError, match=problem) as caught:
        staged(tmp_path, **items)
    assert "secret" not in caught.value.message


def test_an_object_may_have_an_at_sign_and_a_colon_in_its_name(bucket: Bucket, tmp_path: Path) -> None:
    url = bucket.put_rows("10:30/a@b.jsonl", [row(1)])
    assert fields(staged(tmp_path, path=url)) == [row(1)]


def test_an_endpoint_is_told_without_its_credentials(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://me:secret@127.0.0.1:9")
    with pytest.raises(ConfigError) as caught:
        staged(tmp_path, path=f"s3://{BUCKET}/a.jsonl")
    assert "secret" not in caught.value.message


class _Forbidding(BaseHTTPRequestHandler):
    """S3 that lets nobody in."""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET


class _Failing(_Forbidding):
    """S3 with one object, of which it gives only so many parts."""

    content = b""
    answers = 0

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()

    def do_GET(self) -> None:
        type(self).answers -= 1
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        part = self.content[first : last + 1] if self.answers >= 0 else b""
        self.send_response(206 if self.answers >= 0 else 500)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(self.content)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_bucket_that_may_not_be_read_is_told(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(_Forbidding) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)  # wins over AWS_ENDPOINT_URL
        with pytest.raises(ConfigError, match=f"items.path: s3://answers/a.jsonl: no permission at {url}"):
            staged(tmp_path, path=f"s3://{BUCKET}/a.jsonl")


def test_a_service_that_is_not_there_is_told_in_bounded_time(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    started = time.monotonic()
    with pytest.raises(ConfigError, match=r"s3://answers/a.jsonl: the service cannot be reached at http://127.0.0.1:9"):
        staged(tmp_path, path=f"s3://{BUCKET}/a.jsonl")
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.parquet", "a.eval"])
def test_a_service_that_fails_midway_ends_the_command_also_when_bad_rows_are_skipped(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rows = [row(number, response=f"{number * 7919 % 10007} " * 100) for number in range(2_000)]
    contents = {
        "a.jsonl": "\n".join(map(json.dumps, rows)).encode(),
        "a.jsonl.gz": gzip.compress("\n".join(map(json.dumps, rows)).encode()),
        "a.parquet": parquet(rows, tmp_path),
        "a.eval": (EVALUATIONS / "capitals.eval").read_bytes(),
    }
    monkeypatch.setattr(remote, "_BLOCK", 4096)
    with serving(type("Failing", (_Failing,), {"content": contents[name], "answers": 3})) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        with pytest.raises(InputError, match=rf"items.path: s3://answers/{name}: cannot be read at {url}"):
            staged(tmp_path, path=f"s3://{BUCKET}/{name}", on_bad="skip")
    assert not (tmp_path / "run" / "items").exists()


def test_objects_of_google_cloud_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "store"
    (folder / "in").mkdir(parents=True)
    for number in (1, 2):
        (folder / "in" / f"{number}.jsonl").write_text(json.dumps(row(number)), encoding="utf-8")
    (folder / "in" / "3.parquet").write_bytes(parquet([row(3)], tmp_path))
    with cloud_storage(folder) as url:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        items = {"path": [f"gs://{BUCKET}/in/*.jsonl", f"gs://{BUCKET}/in/3.parquet"]}
        assert column(staged(tmp_path, **items), "id") == ["i1", "i2", "i3"]
        before = input_signature(config(**items), tmp_path)
        assert input_signature(config(**items), tmp_path) == before
        (folder / "in" / "2.jsonl").write_text(json.dumps(row(4)), encoding="utf-8")
        assert input_signature(config(**items), tmp_path) != before
        with pytest.raises(ConfigError, match=f"items.path: there is no object gs://{BUCKET}/none.jsonl at {url}"):
            staged(tmp_path, path=f"gs://{BUCKET}/none.jsonl")
    with pytest.raises(ConfigError, match=r"must name a bucket and an object, as in gs://bucket/"):
        staged(tmp_path, path="gs://bucket")


def test_a_damaged_object_is_a_bad_row_as_a_damaged_file_is(bucket: Bucket, tmp_path: Path) -> None:
    whole = gzip.compress("\n".join(json.dumps(row(number)) for number in range(500)).encode())
    url = bucket.put("cut.jsonl.gz", whole[: len(whole) // 2])
    with pytest.raises(ItemError, match=r"s3://answers/cut.jsonl.gz:\d+: damaged file"):
        staged(tmp_path, path=url)


def test_a_profile_is_read_by_boto3_and_without_it_the_error_names_the_extra(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = bucket.put_rows("profile.jsonl", [row(1)])
    credentials = tmp_path / "credentials"
    credentials.write_text("[judge]\naws_access_key_id = tested\naws_secret_access_key = tested\n", encoding="utf-8")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    monkeypatch.setenv("AWS_PROFILE", "judge")
    assert fields(staged(tmp_path, path=url)) == [row(1)]
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ConfigError, match=r"items.path: s3://answers/profile.jsonl: .*nobody"):
        staged(tmp_path, path=url)
    monkeypatch.setitem(sys.modules, "obstore.auth.boto3", None)
    for profile, named in (("judge", "judge"), (None, str(credentials))):
        monkeypatch.setenv("AWS_PROFILE", profile) if profile else monkeypatch.delenv("AWS_PROFILE")
        with pytest.raises(ConfigError, match=rf"profile \({named}\) .* pip install 'jurybox\[s3\]'"):
            staged(tmp_path, path=url)


def test_a_public_object_is_read_without_credentials(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = bucket.put_rows("public.jsonl", [row(1)], public=True)
    private = bucket.put_rows("private.jsonl", [row(1)])
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert fields(staged(tmp_path, path=url)) == [row(1)]
    with pytest.raises(ConfigError, match="no permission"):
        staged(tmp_path, path=private)
