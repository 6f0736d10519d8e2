"""The client against real HTTP servers on the loopback, each of which does one thing that endpoints do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import pickle
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from runner.config import Model
from runner.endpoint.client import REPLY_BYTES, Client
from runner.endpoint.credentials import check_key
from runner.endpoint.response import Completion, EndpointError
from runner.endpoint.retry_policy import ErrorKind
from runner.errors import ConfigError
from runner.usage import Usage

KEY = "sk-canary-0123456789abcdef"
BODY = {"model": "m", "messages": [{"role": "user", "content": "Is {} </think> \x00 é 😀 right?"}], "temperature": 0}
GOOD: dict[str, Any] = {
    "model": "m-2026",
    "system_fingerprint": "fp_1",
    "choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "prompt_tokens_details": {"cached_tokens": 400},
        "completion_tokens_details": {"reasoning_tokens": 60},
    },
}

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """A bare HTTP/1.1 server: keeps what arrived, answers as told."""

    answer: Answer
    url: str = ""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    connections: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """A client has closed its connection."""
    serving: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {
                    name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.requests.append((head[0], headers, body))
                await self.answer(writer)
        self.gone.set()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[Server]:
    server = Server(answer)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listener.close()
        for task in server.serving:
            task.cancel()
        await asyncio.gather(*server.serving, return_exceptions=True)


def reply(status: int = 200, body: Any = GOOD, **headers: str) -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
        await writer.drain()

    return answer


def model(url: str, **more: Any) -> Model:
    return Model(name="m", model="m", base_url=url, api_key_env="CANARY_KEY", **more)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_KEY", KEY)


@asynccontextmanager
async def asking(answer: Answer, **more: Any) -> AsyncIterator[tuple[Client, Server]]:
    async with serving(answer) as server:
        client = Client(model(server.url, **more))
        try:
            yield client, server
        finally:
            await client.aclose()


async def completion(answer: Answer, **more: Any) -> Completion:
    async with asking(answer, **more) as (client, _):
        return await client.complete(BODY)


async def failure(answer: Answer, **more: Any) -> EndpointError:
    async with asking(answer, **more) as (client, _):
        with pytest.raises(EndpointError) as caught:
            await client.complete(BODY)
    error = caught.value
    again = pickle.loads(pickle.dumps(error))
    assert (again.kind, again.message, again.status, again.retry_after_s, str(again)) == (
        error.kind,
        error.message,
        error.status,
        error.retry_after_s,
        str(error),
    )
    assert error.__context__ is None
    assert KEY not in repr(error)
    return error


def saying(message: dict[str, Any], **choice: Any) -> Answer:
    return reply(body={"choices": [{"message": message, "finish_reason": "stop", **choice}]})


# ---- what is sent ------------------------------------------------------------------------------------------------


async def test_a_good_reply_and_what_it_cost() -> None:
    got = await completion(reply(), price={"input": 2.0, "cached_input": 0.5, "output": 10.0})
    cost = (600 * 2.0 + 400 * 0.5 + 100 * 10.0) / 1e6
    assert (got.text, got.reasoning, got.refusal, got.finish_reason) == ("yes", None, None, "stop")
    assert (got.served_model, got.system_fingerprint) == ("m-2026", "fp_1")
    assert got.usage == Usage(1000, 400, 100, 60, got.usage.cost_usd)
    assert got.usage.cost_usd == pytest.approx(cost)
    assert 0 < got.latency_s < 10


async def test_cached_tokens_cost_what_others_do_unless_priced() -> None:
    got = await completion(reply(), price={"input": 2.0, "output": 0.0})
    assert got.usage.cost_usd == pytest.approx(0.002)


async def test_the_body_arrives_byte_for_byte_with_key_and_extras() -> None:
    extra = {"headers": {"X-Team": "eval"}, "query": {"api-version": "7"}, "body": {"reasoning_effort": "low"}}
    async with asking(reply(), extra=extra) as (client, server):
        await client.complete(BODY)
        await client.complete(BODY)
        await client.complete({**BODY, "max_tokens": 10})
    *alike, (line, headers, body) = server.requests
    # The package builds the first request; later ones are made like it.
    assert alike[0] == alike[1]
    assert (line, {**headers, "content-length": ""}) == (alike[0][0], {**alike[0][1], "content-length": ""})
    assert json.loads(body) == {**BODY, "max_tokens": 10, "reasoning_effort": "low"}
    for line, headers, body in alike:
        assert line == "POST /v1/chat/completions?api-version=7 HTTP/1.1"
        assert headers["authorization"] == f"Bearer {KEY}"
        assert headers["content-type"] == "application/json"
        assert headers["x-team"] == "eval"
        assert json.loads(body) == {**BODY, "reasoning_effort": "low"}
    assert server.connections == 1


async def test_only_as_many_connections_as_may_be_in_flight() -> None:
    arrived = asyncio.Semaphore(0)
    go = asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        arrived.release()
        await go.wait()
        await reply()(writer)

    async with asking(slow, limits={"in_flight": 120}) as (client, server), asyncio.TaskGroup() as group:
        for _ in range(120):
            group.create_task(client.complete(BODY))
        for _ in range(120):
            await arrived.acquire()
        assert server.connections == 120
        go.set()


async def test_keys_of_the_environment_go_to_no_one_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "sk-not-for-you")
    async with serving(reply()) as server:
        client = Client(Model(name="m", model="m", base_url=server.url))
        await client.complete(BODY)
        await client.aclose()
    assert "sk-not-for-you" not in str(server.requests)


# ---- replies -----------------------------------------------------------------------------------------------------


async def test_what_a_message_may_hold() -> None:
    assert (await completion(saying({"content": None}))).text is None
    assert (await completion(saying({"content": ""}))).text == ""
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "output_text", "text": "b"}, "c"]
    assert (await completion(saying({"content": parts}))).text == "abc"
    thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "yes"}]
    got = await completion(saying({"content": thinking}))
    assert (got.text, got.reasoning) == ("yes", "hm")
    for name in ("reasoning_content", "reasoning"):
        got = await completion(saying({"content": "yes", name: "because"}))
        assert (got.text, got.reasoning) == ("yes", "because")
    got = await completion(saying({"content": None, "refusal": "I cannot"}))
    assert (got.text, got.refusal) == (None, "I cannot")
    assert (await completion(saying({"content": "ye"}, finish_reason="length"))).finish_reason == "length"
    assert (await completion(saying({"content": "yes"}))).usage == Usage()


async def test_odd_usage_counts_nothing_it_does_not_say() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": None, "prompt_tokens_details": {"cached_tokens": 99}}
    got = await completion(reply(body={**GOOD, "usage": usage}))
    assert got.usage == Usage(10, 10, 0, 0, 0)
    assert not got.counted, "what the reply took is not known"


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 0}, True),
        ({"input_tokens": "10", "output_tokens": 1.0}, True),
        (None, False),
        ({}, False),
        ([10, 1], False),
        ({"prompt_tokens": 10}, False),
        ({"prompt_tokens": 0, "completion_tokens": 1}, False),
        ({"prompt_tokens": -10, "completion_tokens": 1}, False),
        ({"prompt_tokens": 10, "completion_tokens": -1}, False),
        ({"prompt_tokens": 1e308, "completion_tokens": 1}, False),
        ({"prompt_tokens": True, "completion_tokens": {"a": 1}}, False),
    ],
)
async def test_usage_that_does_not_tell_all_settles_nothing(usage: Any, counted: bool) -> None:
    got = await completion(reply(body={**GOOD, "usage": usage}))
    assert got.counted is counted
    assert 0 <= got.usage.input_tokens <= 10


async def test_of_several_choices_the_one_of_index_0_is_read() -> None:
    said = [{"index": index, "message": {"content": text}} for index, text in ((1, "no"), (0, "yes"))]
    assert (await completion(reply(body={**GOOD, "choices": said}))).text == "yes"
    assert (await completion(reply(body={**GOOD, "choices": [{"message": said[1]["message"]}, said[0]]}))).text == "yes"


async def test_a_lone_surrogate_in_a_reply_can_be_stored() -> None:
    body = rb'{"choices": [{"message": {"content": "\ud83d\ude00 yes \ud800"}}]}'
    got = await completion(reply(body=body))
    assert got.text is not None
    assert got.text.startswith("😀 yes ")
    got.text.encode()


async def test_a_chunked_reply_without_length_is_read() -> None:
    async def chunked(writer: asyncio.StreamWriter) -> None:
        content = json.dumps(GOOD).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in (content[:50], content[50:]):
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    assert (await completion(chunked)).text == "yes"


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html>", b"\xff", b"[]", b"{}", b"[" * 100_000, b'{"error": "upstream broke"}'),
        *(b'{"choices": []}', b'{"choices": [{}]}', b'{"choices": [{"message": 1}]}'),
        b'{"choices": [{"message": {"content": 3}}]}',
    ],
)
async def test_a_reply_that_is_no_completion(body: bytes) -> None:
    error = await failure(reply(body=body))
    assert (error.kind, error.status) == (ErrorKind.BAD_REPLY, 200)


async def test_a_routers_failure_inside_a_200() -> None:
    error = await failure(reply(body={"error": {"code": 502, "message": "provider returned error"}}))
    assert (error.kind, error.message) == (ErrorKind.SERVER, "provider returned error")
    broken = {"message": {"content": ""}, "finish_reason": "error", "error": {"code": 429, "message": "busy"}}
    assert (await failure(reply(body={"choices": [broken]}))).kind is ErrorKind.THROTTLED


# ---- error statuses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, {"code": "context_length_exceeded"}, ErrorKind.BAD_REQUEST),
        (413, {}, ErrorKind.BAD_REQUEST),
        (422, {}, ErrorKind.BAD_REQUEST),
        (401, {}, ErrorKind.AUTH),
        (403, {}, ErrorKind.FORBIDDEN),
        (400, {"code": "invalid_api_key"}, ErrorKind.AUTH),
        (402, {}, ErrorKind.QUOTA),
        (429, {"code": "insufficient_quota"}, ErrorKind.QUOTA),
        (429, {"type": "insufficient_quota", "code": 429}, ErrorKind.QUOTA),
        (404, {}, ErrorKind.UNKNOWN_MODEL),
        (405, {}, ErrorKind.UNKNOWN_MODEL),
        (400, {"code": "model_not_found"}, ErrorKind.UNKNOWN_MODEL),
        (410, {}, ErrorKind.UNKNOWN_MODEL),
        (407, {}, ErrorKind.AUTH),
        (408, {}, ErrorKind.TIMEOUT),
        (409, {}, ErrorKind.SERVER),
        (423, {}, ErrorKind.SERVER),
        (424, {"code": "generation"}, ErrorKind.SERVER),
        (425, {}, ErrorKind.SERVER),
        (499, {"code": "CANCELLED"}, ErrorKind.SERVER),
        (498, {}, ErrorKind.THROTTLED),
        (429, {}, ErrorKind.THROTTLED),
        (529, {"type": "overloaded_error"}, ErrorKind.THROTTLED),
        (500, {}, ErrorKind.SERVER),
        (503, {"code": "model_not_found"}, ErrorKind.SERVER),
    ],
)
async def test_statuses(status: int, error: dict[str, Any], kind: ErrorKind) -> None:
    got = await failure(reply(status, {"error": {"message": "the provider's words", **error}}))
    assert (got.kind, got.status, got.message) == (kind, status, "the provider's words")
    assert str(got) == f"{kind.value}: the provider's words"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": "plain"}, "plain"),
        ({"message": "top\n  level"}, "top level"),
        ([{"error": {"code": 400, "message": "not valid", "status": "INVALID_ARGUMENT"}}], "not valid"),
        ({"detail": [{"loc": ["body"], "msg": "bad"}]}, '[{"loc": ["body"], "msg": "bad"}]'),
        (b"<html>Bad  gateway</html>", "<html>Bad gateway</html>"),
        (b"", "HTTP 502 Bad Gateway"),
        ({"error": {"message": "x" * 9999}}, "x" * 499 + "…"),
    ],
)
async def test_the_providers_words_in_whatever_form(body: Any, message: str) -> None:
    assert (await failure(reply(502, body))).message == message


async def test_a_content_filter_is_a_refusal() -> None:
    for status, error in (
        (400, {"code": "content_filter", "message": "filtered"}),
        (400, {"innererror": {"code": "ResponsibleAIPolicyViolation"}, "message": "filtered"}),
        (403, {"code": 403, "metadata": {"flagged_input": "…"}, "message": "filtered"}),
    ):
        got = await completion(reply(status, {"error": error}))
        assert (got.text, got.finish_reason, got.refusal) == (None, "content_filter", "filtered")


async def test_retry_after_in_all_its_forms() -> None:
    async def told(**headers: str) -> float | None:
        return (await failure(reply(429, {}, **headers))).retry_after_s

    now = datetime.now(UTC)
    assert await told() is None
    assert await told(retry_after="7") == 7.0
    assert await told(retry_after="0.5") == 0.5
    assert await told(retry_after="-1") == 0.0
    assert await told(retry_after="soon") is None
    assert await told(retry_after="inf") is None
    assert await told(retry_after="9", retry_after_ms="250") == 0.25
    in_a_minute = format_datetime(now + timedelta(minutes=1), usegmt=True)
    assert await told(retry_after=in_a_minute) == pytest.approx(60, abs=5)
    # The provider's clock is a day behind ours.
    theirs = format_datetime(now - timedelta(days=1), usegmt=True)
    assert await told(retry_after=format_datetime(now - timedelta(days=1, seconds=-30)), date=theirs) == 30.0
    assert await told(retry_after=theirs) == 0.0


async def test_a_redirect_is_not_followed_with_the_key() -> None:
    async with serving(reply()) as elsewhere:
        error = await failure(reply(307, b"", location=f"{elsewhere.url}/chat/completions"))
    assert elsewhere.requests == []
    assert error.kind is ErrorKind.UNKNOWN_MODEL
    assert elsewhere.url in error.message


# ---- connections -------------------------------------------------------------------------------------------------


async def test_a_refused_connection_is_unreachable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        client = Client(model(f"http://127.0.0.1:{free.getsockname()[1]}/v1"))
        with pytest.raises(EndpointError) as caught:
            await client.complete(BODY)
        await client.aclose()
    assert (caught.value.kind, caught.value.status) == (ErrorKind.UNREACHABLE, None)
    assert "127.0.0.1" in caught.value.message


async def test_a_reset_is_neither_a_timeout_nor_unreachable() -> None:
    async def reset(writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    assert (await failure(reset)).kind is ErrorKind.CONNECTION


async def test_a_connection_closed_without_a_reply() -> None:
    async def close(writer: asyncio.StreamWriter) -> None:
        writer.close()

    assert (await failure(close)).kind is ErrorKind.CONNECTION


async def test_a_body_cut_short() -> None:
    async def cut(writer: asyncio.StreamWriter) -> None:
        writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{"choices": [')
        await writer.drain()
        writer.close()

    assert (await failure(cut)).kind is ErrorKind.CONNECTION


async def test_no_http_at_all() -> None:
    async def noise(writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")
        await writer.drain()

    assert (await failure(noise)).kind is ErrorKind.BAD_REPLY


async def test_a_server_that_never_answers_meets_the_deadline() -> None:
    async def hang(writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    error = await failure(hang, timeout_s=0.2)
    assert (error.kind, error.message) == (ErrorKind.TIMEOUT, "no whole reply within 0.2 s")


async def test_a_server_that_drips_meets_the_deadline() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.01)

    assert (await failure(drip, timeout_s=0.3)).kind is ErrorKind.TIMEOUT


async def test_an_endless_reply_is_given_up() -> None:
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while sent < 4 * REPLY_BYTES:
            writer.write(b"100000\r\n" + b" " * 2**20 + b"\r\n")
            sent += 2**20
            await writer.drain()

    error = await failure(endless)
    assert (error.kind, error.status) == (ErrorKind.BAD_REPLY, 200)
    assert sent < 2 * REPLY_BYTES


async def test_a_reply_that_announces_too_much_is_not_read() -> None:
    async def announce(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {REPLY_BYTES + 1}\r\n\r\n".encode())
        await writer.drain()

    assert (await failure(announce)).kind is ErrorKind.BAD_REPLY


async def test_a_cancelled_request_closes_its_connection() -> None:
    arrived = asyncio.Event()

    async def hang(writer: asyncio.StreamWriter) -> None:
        arrived.set()

    async with asking(hang) as (client, server):
        task = asyncio.create_task(client.complete(BODY))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(10):
            await server.gone.wait()


async def test_a_request_that_cannot_be_written_is_never_sent() -> None:
    async with asking(reply()) as (client, server):
        with pytest.raises(EndpointError) as caught:
            await client.complete({"messages": [{"role": "user", "content": "\ud800"}]})
    assert caught.value.kind is ErrorKind.BAD_REQUEST
    assert server.requests == []


# ---- parameters that an endpoint does not take ----------------------------------------------------------------------


async def test_a_rejected_parameter_is_put_otherwise_from_then_on() -> None:
    """Whatever body comes: an endpoint that takes neither max_tokens nor temperature."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        sent = json.loads(server.requests[-1][2])
        taken = next((name for name in ("max_tokens", "temperature") if name in sent), None)
        words = {"message": f"Unsupported parameter: '{taken}'", "param": taken, "code": "unsupported_parameter"}
        await reply(400, {"error": words})(writer) if taken else await reply()(writer)

    body = BODY | {"max_tokens": 5}
    async with asking(answer) as (client, server):
        for name in ("max_tokens", "temperature"):
            with pytest.raises(EndpointError) as caught:
                await client.complete(body)
            assert caught.value.kind is ErrorKind.BAD_REQUEST
            assert caught.value.will_adapt, name
            assert pickle.loads(pickle.dumps(caught.value)).will_adapt
        completion = await client.complete(body)
        assert set(completion.notes) == {"sent:max_completion_tokens", "not_sent:temperature"}
        assert json.loads(server.requests[-1][2]) == {
            "model": "m",
            "messages": BODY["messages"],
            "max_completion_tokens": 5,
        }
        assert len(server.requests) == 3
        # What a request cannot go without is sent, and its rejection stands.
        with pytest.raises(EndpointError) as caught:
            await client.complete(body, keep=("temperature",))
        assert not caught.value.will_adapt


async def test_a_request_that_is_rejected_for_what_it_says_is_not_put_otherwise() -> None:
    error = await failure(reply(400, {"error": {"message": "temperature is too high", "param": "temperature"}}))
    assert not error.will_adapt


# ---- keys --------------------------------------------------------------------------------------------------------


async def test_a_key_in_the_providers_words_is_taken_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    padding = "x" * 480
    words = f"Incorrect key {KEY}, header Bearer {KEY}, perhaps sk-another1234567? {padding} {KEY}"
    error = await failure(reply(401, {"error": {"message": words}}))
    assert error.message.startswith("Incorrect key [redacted], header [redacted]")
    assert "sk-" not in error.message
    assert KEY not in caplog.text
    async with asking(reply(401, words.encode()), extra={"headers": {"X-Team": "x"}}) as (client, _):
        assert KEY not in repr(client)


async def test_a_key_that_a_reply_repeats_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    said = await completion(saying({"content": f"yes, Bearer {KEY}", "reasoning_content": KEY, "refusal": KEY}))
    assert (said.text, said.reasoning, said.refusal) == ("yes, Bearer [redacted]", "[redacted]", "[redacted]")
    # A short one may stand there by chance.
    monkeypatch.setenv("CANARY_KEY", "yes")
    assert (await completion(saying({"content": "yes"}))).text == "yes"


async def test_what_variables_hold_is_sent_and_taken_out_of_the_providers_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SEARCH_KEY", "hunter2hunter2")
    extra = {
        "headers": {"X-Api-Key": "${SEARCH_KEY}"},
        "query": {"team": "a-${SEARCH_KEY}"},
        "body": {"data_sources": [{"key": "${SEARCH_KEY}"}]},
    }
    words = reply(400, {"error": {"message": "the key hunter2hunter2 of the index is not valid"}})
    async with asking(words, extra=extra) as (client, server):
        with pytest.raises(EndpointError) as caught:
            await client.complete(BODY)
        assert "hunter2" not in repr(client)
    assert "the key [redacted] of the index" in caught.value.message
    [(line, headers, body)] = server.requests
    assert "?team=a-hunter2hunter2 " in line
    assert headers["x-api-key"] == "hunter2hunter2"
    assert json.loads(body)["data_sources"] == [{"key": "hunter2hunter2"}]
    monkeypatch.delenv("SEARCH_KEY")
    own = model(server.url, extra=extra)
    assert "model 'm': the environment variable SEARCH_KEY is not set" in (check_key(own) or "")
    assert b"hunter2" not in pickle.dumps(own), "what Ray carries to the workers"


def test_a_key_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    url = "http://127.0.0.1:1/v1"
    assert check_key(model(url)) is None
    monkeypatch.setenv("CANARY_KEY", " ")
    assert "the environment variable CANARY_KEY is not set" in (check_key(model(url)) or "")
    with pytest.raises(ConfigError, match="CANARY_KEY"):
        Client(model(url))
    monkeypatch.setenv("CANARY_KEY", f"{KEY} {KEY}")
    assert KEY not in (check_key(model(url)) or KEY)
    file = tmp_path / "key"
    of_file = Model(name="m", model="m", base_url=url, api_key_file=str(file))
    assert "cannot be read: No such file" in (check_key(of_file) or "")
    file.write_text("\n")
    assert "is empty" in (check_key(of_file) or "")
    file.write_text(f"{KEY}\n")
    assert check_key(of_file) is None
    assert check_key(Model(name="m", model="m", base_url=url)) is None
