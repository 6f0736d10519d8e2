"""Places to publish to: a file is there whole or not at all, and the first of a name stays."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from objects import BUCKET, Bucket, cloud_storage, s3

from runner import object_storage
from runner.config import parse_config
from runner.errors import ConfigError
from runner.publishing.destination import Destination, DestinationError, open_destination

RUN = Path("elsewhere")
"""The directory of the run that is published."""


@pytest.fixture(scope="module")
def store() -> Iterator[Bucket]:
    with s3() as bucket:
        yield bucket


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cloud_storage(tmp_path_factory.mktemp("cloud")) as url:
        yield url


@pytest.fixture(params=["directory", "s3", "gs"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Destination:
    folder = f"mirror/{tmp_path.name}"
    if request.param == "directory":
        return open_destination(folder, tmp_path, "größe.1", RUN)
    if request.param == "gs":
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", request.getfixturevalue("cloud"))
        return open_destination(f"gs://{BUCKET}/{folder}", tmp_path, "run", RUN)
    for name, value in request.getfixturevalue("store").environment.items():
        monkeypatch.setenv(name, value)
    return open_destination(f"s3://{BUCKET}/{folder}/", tmp_path, "größe.1", RUN)


def test_the_first_file_of_a_name_stays(place: Destination) -> None:
    assert place.read("log/1.json") is None
    assert place.names("log") == []
    assert place.create("log/1.json", b"one")
    assert not place.create("log/1.json", b"two")
    assert place.read("log/1.json") == b"one"
    assert place.create("_complete", b"")
    assert place.read("_complete") == b""
    for name in ("log/10.json", "log/2.json", "logs/3.json"):
        assert place.create(name, b"x")
    assert place.names("log") == ["log/1.json", "log/10.json", "log/2.json"]
    place.replace("manifest.json", b"{}")
    place.replace("manifest.json", b"{1}")
    assert place.read("manifest.json") == b"{1}"


def test_of_many_writers_one_puts_the_file(place: Destination) -> None:
    created: list[bytes] = []

    def put(content: bytes) -> None:
        while True:
            try:
                if place.create("fence", content):
                    created.append(content)
                return
            except DestinationError:
                # In a directory one takes the other for dead, and its temporary file away.
                continue

    writers = [threading.Thread(target=put, args=(bytes([65 + number]) * 50_000,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [place.read("fence")] == created


def test_a_file_that_comes_while_another_is_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = open_destination("mirror", tmp_path, "run", RUN)
    sync = os.fsync

    def late(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", sync)
        (tmp_path / "mirror/run/fence").write_bytes(b"another's")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", late)
    (tmp_path / "mirror/run").mkdir(parents=True)
    assert not place.create("fence", b"mine")
    assert place.read("fence") == b"another's"


def test_a_directory_holds_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = open_destination("mirror", tmp_path, "run", RUN)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DestinationError, match="No space left"):
            place.create("a/1", b"content")
    folder = tmp_path / "mirror/run/a"
    assert list(folder.iterdir()) == []
    # What a killed process left of the same name goes; a file system without hard links will do.
    (folder / ".1.0123456789ab").write_bytes(b"cont")

    def no_links(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    assert place.create("a/1", b"content")
    assert not place.create("a/1", b"other")
    assert [path.name for path in folder.iterdir()] == ["1"]
    assert (folder / "1").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("url", "environment", "words"),
    [
        (
            "s3://answers/x",
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
            "the service cannot be reached at http://127.0.0.1:9",
        ),
        ("s3://elsewhere/x", {}, "there is no such bucket"),
        ("gs://elsewhere/x", {}, "there is no such bucket"),
    ],
)
def test_trouble_is_told_with_the_place(
    store: Bucket, cloud: str, url: str, environment: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_storage, "RETRIES", 0)
    for name, value in {**store.environment, "STORAGE_EMULATOR_HOST": cloud, **environment}.items():
        monkeypatch.setenv(name, value)
    place = open_destination(url, Path(), "run", RUN)
    tries: list[Callable[[], object]] = [lambda: place.create("a", b"1"), lambda: place.replace("a", b"1")]
    for attempt in tries:
        with pytest.raises(DestinationError) as told:
            attempt()
        assert str(told.value).startswith(f"{url}/run: ")
        assert words in str(told.value)
        assert "tested" not in str(told.value)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("publish", "words"),
    [
        ("", "must be a directory"),
        ("ftp://host/x", "a URL of s3:// or gs://"),
        ("s3://", "must name a bucket"),
        ("s3://bucket/x?token=1", "must name a bucket"),
        ("s3://id:secret@bucket/x", "must not hold credentials"),
    ],
)
def test_a_place_that_is_none_is_an_error_of_the_config(publish: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as told:
        parse_config({"name": "x", "items": {"path": "a"}, "judges": ["j"], "models": ["m"], "publish": publish})
    assert "publish" in str(told.value)
    assert "secret@" not in str(told.value)


def test_a_place_inside_the_run_directory_would_be_lost_with_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="would be lost together with it"):
        open_destination("run/mirror", tmp_path, "x", tmp_path / "run")
    open_destination("mirror", tmp_path, "x", tmp_path / "run")
