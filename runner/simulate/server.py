"""The endpoint over HTTP: a bare ASGI application, the uvicorn server that runs it, and that in a process of its own.

Hides uvicorn, and that the process never outlives whoever started it. One thing ASGI cannot say is needed here: drop
the connection without a reply; the connection class below hands the application its transport for that.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any, cast

import orjson
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from runner.errors import InputError

from .endpoint import Answer, Endpoint
from .options import Simulation
from .replay import Replay
from .request_log import RequestLog
from .throttle import Headers

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

READY = "serving "
"""What the line on stdout begins with that tells the base URL."""

TRANSPORT = "jurybox.transport"
# A client may keep an idle connection as long as it likes: closing one just as a request comes would be a fault nobody
# asked for.
KEEP_ALIVE_S = 24 * 3600


class _Connection(HttpToolsProtocol):
    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast(Scope, self.scope)[TRANSPORT] = self.transport


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Signals are the caller's: uvicorn would raise them again at the end, before the log is closed.
        yield


class Application:
    def __init__(self, simulation: Simulation) -> None:
        replay = Replay.read(simulation.replay) if simulation.replay is not None else None
        if replay is not None and (conflicts := replay.conflicts()):
            _complain(f"replay: {conflicts} pairs of question and response have rows with differing replies")
        self._endpoint = Endpoint(simulation, replay)
        self._record = RequestLog(simulation.log, bodies=simulation.log_bodies)

    def close(self) -> None:
        self._record.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].rstrip("/")
        if scope["method"] == "POST" and path.endswith("/chat/completions"):
            await self._chat(scope, receive, send)
        elif scope["method"] == "GET" and path.endswith("/stats"):
            self._record.flush()
            await _send(send, 200, self._stats())
        elif scope["method"] == "GET" and path.endswith("/models"):
            refused = self._endpoint.unauthorized(scope["headers"])
            await (_send(send, 401, refused.body) if refused else _send(send, 200, self._endpoint.models()))
        else:
            message = f"Unknown request: {scope['method']} {scope['path']}"
            error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
            await _send(send, 404, orjson.dumps({"error": error}))

    async def _chat(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrived = time.monotonic()
        number = self._record.begin()
        body = bytearray()
        answer = Answer(None)
        status: int | None = None
        transport: asyncio.Transport = scope[TRANSPORT]
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                body += message.get("body", b"")
                if not message.get("more_body"):
                    break
            answer = self._endpoint.unauthorized(scope["headers"]) or self._endpoint.answer(
                number, body, time.monotonic()
            )
            if answer.fault == "replay":
                _complain(answer.body.decode())
            if answer.delay_s:
                await asyncio.sleep(answer.delay_s)
            if answer.status is None:
                if answer.fault == "resets":
                    transport.abort()
                # A hanging client decides when the connection is gone.
                while (await receive())["type"] != "http.disconnect":
                    pass
            elif not transport.is_closing():
                headers = answer.headers or []
                headers.append((b"x-request-id", b"req-simulated-%d" % number))
                await _send(send, answer.status, answer.body, answer.content_type, headers)
                status = answer.status
        finally:
            if answer.gate is not None:
                answer.gate.leave()
            self._record.end(number, arrived, time.monotonic(), answer, status, body)

    def _stats(self) -> bytes:
        record, endpoint = self._record, self._endpoint
        return orjson.dumps(
            {
                "requests": record.requests,
                "open": record.open,
                "cpu_s": time.process_time(),
                "by_status": record.statuses,
                "by_fault": record.faults,
                "by_limit": record.limits,
                "max_in_flight": endpoint.most_in_flight(),
                "tokens": {"prompt": endpoint.prompt_tokens, "completion": endpoint.completion_tokens},
                "replay": {"not_recorded": endpoint.not_recorded, "ambiguous": endpoint.ambiguous},
            }
        )


async def _send(
    send: Send, status: int, body: bytes, content_type: bytes = b"application/json", headers: Headers | None = None
) -> None:
    head = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


def _complain(message: str) -> None:
    sys.stderr.write(f"jurybox simulate: {message}\n")
    sys.stderr.flush()


def base_url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


def _is_news(record: logging.LogRecord) -> bool:
    """Requests cut off at the end are none: hanging ones are there to be cut off."""
    cut_off = record.exc_info is not None and record.exc_info[0] is asyncio.CancelledError
    return not cut_off and not record.getMessage().startswith("Cancel ")


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(2048)
        except OSError as error:
            raise InputError(f"simulate: cannot listen on {host}:{port}: {error.strerror}") from None
        yield listener


def serve(simulation: Simulation, host: str = "127.0.0.1", port: int = 0, *, until_stdin_ends: bool = False) -> None:
    """Serve in this process until SIGINT or SIGTERM, or the end of stdin: a parent that holds its other end.

    One line on stdout tells the base URL once requests are accepted; port 0 takes a free one.
    """
    application = Application(simulation)
    config = uvicorn.Config(
        application, http=_Connection, ws="none", lifespan="off", access_log=False, log_config=None,
        log_level="warning", server_header=False, date_header=False, timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    # uvloop, where that is installed.
    with (
        contextlib.closing(application),
        _listening(host, port) as listener,
        asyncio.Runner(loop_factory=config.get_loop_factory()) as runner,
    ):
        runner.run(_serve(_Server(config), listener, base_url(host, listener.getsockname()[1]), until_stdin_ends))


async def _serve(server: uvicorn.Server, listener: socket.socket, url: str, until_stdin_ends: bool) -> None:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        server.should_exit = True
        if until_stdin_ends:
            loop.remove_reader(sys.stdin.fileno())

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    if until_stdin_ends:
        loop.add_reader(sys.stdin.fileno(), stop)
    # The socket listens already: a client may connect as soon as it is told the port.
    sys.stdout.write(f"{READY}{url}\n")
    sys.stdout.flush()
    await server.serve([listener])


@contextlib.contextmanager
def running(simulation: Simulation | None = None, *, before: tuple[str, ...] = ()) -> Iterator[str]:
    """Run an endpoint and yield its base URL. `before` is put before its command, such as `taskset -c 0`.

    The endpoint ends with the block. It also ends when this process dies: then the pipe to its stdin closes.
    """
    command = [*before, sys.executable, "-m", __package__ or "", (simulation or Simulation()).model_dump_json()]
    # The process imports this very source, installed or not.
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line.startswith(READY):
                raise InputError("simulate: the endpoint did not start; its words are above")
            yield line.removeprefix(READY).strip()
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
