"""Addresses of clusters: how they are written, and what is told at once where no cluster can be."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runner.errors import InputError
from runner.scheduling.cluster_address import check_reachable, parse_address, unused_environment

SETTINGS = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00"
"""The first frame of an HTTP/2 server."""


@contextmanager
def answering(words: bytes) -> Iterator[str]:
    """Something that says these words to whoever has spoken, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(words)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("10.0.0.7:6379", ("10.0.0.7", 6379)),
        ("head.example:1", ("head.example", 1)),
        ("[fe80::1]:6379", ("fe80::1", 6379)),
    ],
)
def test_host_and_port(text: str, parts: tuple[str, int]) -> None:
    assert parse_address(text) == parts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("head", "must be HOST:PORT"),
        ("head:", "must be HOST:PORT"),
        ("head:0", "must be HOST:PORT"),
        ("head:65536", "must be HOST:PORT"),
        ("fe80::1:6379", "must be HOST:PORT"),
        ("http://head:6379", "must be HOST:PORT"),
        ("", "must be HOST:PORT"),
        ("ray://head:10001", "on one of its nodes"),
        ("auto", "HOST:PORT"),
        ("local", "leave the option out"),
    ],
)
def test_what_is_no_address(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        parse_address(text)
    assert caught.value.message.startswith(f"address {text}: ")


def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(InputError, match=r"no Ray cluster is there: Connection refused; is `ray start --head` running"):
        check_reachable(f"127.0.0.1:{port}")


@pytest.mark.parametrize("words", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", SETTINGS[:5]])
def test_something_else_listens(words: bytes) -> None:
    with (
        answering(words) as address,
        pytest.raises(InputError, match="no Ray cluster is there: something else answers"),
    ):
        check_reachable(address)


def test_what_may_be_a_cluster() -> None:
    with answering(SETTINGS) as address:
        check_reachable(address)


def test_an_address_in_the_environment_is_told_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unused_environment() is None
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.7:6379")
    told = unused_environment()
    assert told is not None
    assert "RAY_ADDRESS is not used" in told
    assert "--address 10.0.0.7:6379" in told
