"""One chat completion over HTTP: a dict in, a Completion out, or an EndpointError that says what went wrong.

Hides the OpenAI package. Of it only the low-level `post` is used, bytes in and the bare response out, since the typed
call costs nearly twice the CPU; its retries are off, retrying is the worker's, decided by policy.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from typing import Any

import aiohttp
import httpx2
import openai
import orjson

from runner.config import Model

from .credentials import read_extra, read_key, secrets_of
from .parameter_support import ParameterSupport
from .response import Completion, EndpointError, ErrorDetail, classify_error, read_completion, retry_after_s, shorten
from .retry_policy import ErrorKind

CONNECT_TIMEOUT_S = 15.0
KEEPALIVE_S = 15.0
REPLY_BYTES = 16 * 2**20
"""A longer reply is given up. A compressed one may have a 64th of it, for what it may unfold to."""
ECHO_CHARS = 8
"""A secret as long as this does not stand in a reply by chance."""
NO_KEY = "no-key"
"""Sent where the config names no key, so that the package takes none from the environment on its own."""
OPENAI_HOST = "api.openai.com"

# They log URLs, whose query may hold a token, and at debug level bodies.
for _name in ("openai", "httpx2", "httpcore2", "httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class Client:
    """One model's endpoint. Use and close it on one event loop; it is never pickled."""

    def __init__(self, model: Model) -> None:
        key = read_key(model)
        extra = read_extra(model)
        self._model = model
        self._own_fields = extra.body
        self._support = ParameterSupport()
        self._secrets = secrets_of(model, key, extra)
        # Not the short ones, which a reply may hold by chance.
        self._echoes = [orjson.dumps(secret)[1:-1] for secret in self._secrets if len(secret) >= ECHO_CHARS]
        self._http = openai.DefaultAioHttpClient(
            limits=httpx2.Limits(
                max_connections=model.limits.in_flight,
                max_keepalive_connections=model.limits.in_flight,
                keepalive_expiry=KEEPALIVE_S,
            ),
            # A redirect could carry the key to another host; a moved endpoint is for the user to write down.
            follow_redirects=False,
            event_hooks={"response": [_cap]},
        )
        self._sdk = openai.AsyncOpenAI(
            api_key=key or NO_KEY,
            base_url=model.base_url,
            max_retries=0,
            # Sending and reading are bounded by the deadline below: a server that drips resets a read timeout.
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
            default_headers={"Accept-Encoding": "identity", **extra.headers},
            default_query=extra.query,
            http_client=self._http,
        )
        if self._sdk.base_url.host != OPENAI_HOST:
            # The package fills these from OPENAI_ORG_ID and others, which are no one else's business.
            self._sdk.organization = self._sdk.project = self._sdk.admin_api_key = None
        self._as_built: dict[str, Any] | None = None
        """What a request that the package built is made of, but for its body."""

    async def complete(self, body: dict[str, Any], keep: Collection[str] = ()) -> Completion:
        """Send one request and read its reply. Raises EndpointError, and nothing of the libraries beneath.

        A parameter that the endpoint has rejected before is sent under its other name or left out; `keep` names those
        without which the request would not mean what it is to mean.
        """
        wanted = {**body, **self._own_fields}
        sent, notes = self._support.adapt(wanted, keep)
        started = time.monotonic()
        response = await self._exchange(sent)
        if isinstance(response, EndpointError):
            # Raised out here, since inside an except clause it would carry the package's error, and with it the key.
            raise response
        self._keep_as_built(response.request)
        outcome = self._read(response, time.monotonic() - started)
        if isinstance(outcome, Completion):
            return replace(outcome, notes=notes) if notes else outcome
        failure = self._failure(outcome, response.status_code, retry_after_s(response.headers))
        if outcome.kind is ErrorKind.BAD_REQUEST:
            own = {name: value for name, value in sent.items() if name not in keep}
            self._support = self._support.learn(own, outcome.message, outcome.param, outcome.codes)
            # Not whether something new was learnt: another request under way may have met the same before.
            failure.will_adapt = self._support.adapt(wanted, keep)[0] != sent
        raise failure

    async def _exchange(self, body: dict[str, Any]) -> httpx2.Response | EndpointError:
        """The bare response, whatever its status, or why there is none."""
        try:
            content = orjson.dumps(body)
            async with asyncio.timeout(self._model.timeout_s):
                return await self._post(content)
        except orjson.JSONEncodeError as error:
            return self._failure(ErrorDetail(ErrorKind.BAD_REQUEST, f"the request cannot be written as JSON: {error}"))
        except openai.APIStatusError as error:
            return error.response
        except _TooLarge as error:
            return self._failure(ErrorDetail(ErrorKind.BAD_REPLY, str(error)), error.status)
        except (openai.OpenAIError, httpx2.HTTPError, aiohttp.ClientError, OSError) as error:
            return self._failure(_classify_exception(error, self._model.timeout_s))

    def _read(self, response: httpx2.Response, latency_s: float) -> Completion | ErrorDetail:
        """What a response says, without the secrets that some gateways repeat: replies are kept."""
        if response.status_code == 200:
            content = response.content
            for secret in self._echoes:
                content = content.replace(secret, b"[redacted]")
            return read_completion(content, self._model.price, latency_s)
        words = response.content or response.headers.get("location", "").encode()
        outcome = classify_error(response.status_code, words)
        if isinstance(outcome, Completion) and outcome.refusal:
            return replace(outcome, refusal=shorten(outcome.refusal, self._secrets), latency_s=latency_s)
        return outcome

    async def _post(self, content: bytes) -> httpx2.Response:
        if self._as_built is None:
            return await self._sdk.post("/chat/completions", content=content, cast_to=httpx2.Response)
        # Building a request takes the package as much CPU as all the rest of a call, and they differ in bodies alone.
        return await self._http.send(httpx2.Request(**self._as_built, content=content))

    def _keep_as_built(self, request: httpx2.Request) -> None:
        if self._as_built is None:
            headers = request.headers.copy()
            del headers["content-length"]
            parts = {"method": request.method, "url": request.url, "extensions": request.extensions}
            self._as_built = {**parts, "headers": headers}

    async def aclose(self) -> None:
        """Close the connections."""
        await self._sdk.close()

    def _failure(self, why: ErrorDetail, status: int | None = None, retry_s: float | None = None) -> EndpointError:
        return EndpointError(why.kind, shorten(why.message, self._secrets), status, retry_s)


class _TooLarge(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"the reply is longer than {REPLY_BYTES} bytes")
        self.status = status


class _Capped(httpx2.AsyncByteStream):
    """A reply's body that ends with _TooLarge."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int, status: int) -> None:
        self._stream = stream
        self._limit = limit
        self._status = status

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._limit
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise _TooLarge(self._status)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _cap(response: httpx2.Response) -> None:
    limit = REPLY_BYTES // 64 if response.headers.get("content-encoding", "identity") != "identity" else REPLY_BYTES
    length = response.headers.get("content-length", "")
    if not length.isdecimal():
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Capped(response.stream, limit, response.status_code)
    elif int(length) > limit:
        raise _TooLarge(response.status_code)


def _classify_exception(error: BaseException, timeout_s: float) -> ErrorDetail:
    """What an exception without a response means.

    By its causes: over aiohttp the package gives a connection that was reset and a timeout the same type.
    """
    cause: BaseException | None = error
    while cause is not None:
        words = str(cause) or type(cause).__name__
        match cause:
            case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
                return ErrorDetail(ErrorKind.UNREACHABLE, words)
            case aiohttp.ClientHttpProxyError() | httpx2.UnsupportedProtocol():
                return ErrorDetail(ErrorKind.UNREACHABLE, words)
            case aiohttp.ClientResponseError() | httpx2.DecodingError():
                return ErrorDetail(ErrorKind.BAD_REPLY, f"not a whole HTTP reply: {words}")
            case TimeoutError():
                return ErrorDetail(ErrorKind.TIMEOUT, f"no whole reply within {timeout_s:g} s")
            case aiohttp.ClientError():
                return ErrorDetail(ErrorKind.CONNECTION, words)
        cause = cause.__cause__ or cause.__context__
    return ErrorDetail(ErrorKind.CONNECTION, str(error) or type(error).__name__)
