"""One chat completion over HTTP: a dict in, a Completion out, or an EndpointError that says what went wrong.

Hides the OpenAI package. Of it only the low-level `post` is used, bytes in and the bare response out, since the typed
call costs nearly twice the CPU; its retries are off, retrying is the worker's, decided by policy. Keys are read here,
in the process that sends them, and leave it in the Authorization header alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import openai
import orjson

from runner.config import Extra, Model
from runner.env_secrets import expand_variables, read_variable, referenced_variables
from runner.errors import ConfigError

from .parameter_support import ParameterSupport
from .response import Completion, EndpointError, ErrorDetail, classify_error, read_completion, retry_after_s, shorten
from .retry_policy import ErrorKind

__all__ = ["Client", "Completion", "EndpointError", "ErrorKind", "check_key"]

CONNECT_TIMEOUT_S = 15.0
KEEPALIVE_S = 15.0
REPLY_BYTES = 16 * 2**20
"""A longer reply is given up. A compressed one may have a 64th of it, for what it may unfold to."""
ECHO_CHARS = 8
"""A secret as long as this does not stand in a reply by chance."""
NO_KEY = "no-key"
"""Sent where the config names no key, so that the package takes none from the environment on its own."""
OPENAI_HOST = "api.openai.com"
_SECRET = re.compile(r"(?i)key|token|secret|auth|password|cookie")

# They log URLs, whose query may hold a token, and at debug level bodies.
for _name in ("openai", "httpx2", "httpcore2", "httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


def check_key(model: Model) -> str | None:
    """What is wrong with the model's key on this machine; None if nothing is."""
    try:
        _read_key(model)
        _extra_of(model)
    except ConfigError as error:
        return error.message
    return None


class Client:
    """One model's endpoint. Use and close it on one event loop; it is never pickled."""

    def __init__(self, model: Model) -> None:
        key = _read_key(model)
        extra = _extra_of(model)
        self._model = model
        self._own_fields = extra.body
        self._dialect = ParameterSupport()
        # What comes from variables is secret, and what is named like a secret is hidden all the same.
        secrets = [read_variable(name) for name in referenced_variables(model.extra.model_dump())]
        named = [value for name, value in (*extra.headers.items(), *extra.query.items()) if _SECRET.search(name)]
        self._secrets = tuple(sorted(filter(None, {key, *secrets, *named}), key=len, reverse=True))
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
        started = time.monotonic()
        response: httpx2.Response | None = None
        failure: EndpointError | None = None
        wanted = {**body, **self._own_fields}
        sent, notes = self._dialect.adapt(wanted, keep)
        try:
            content = orjson.dumps(sent)
            async with asyncio.timeout(self._model.timeout_s):
                response = await self._post(content)
        except orjson.JSONEncodeError as error:
            failure = self._failure(
                ErrorDetail(ErrorKind.BAD_REQUEST, f"the request cannot be written as JSON: {error}")
            )
        except openai.APIStatusError as error:
            response = error.response
        except _TooLarge as error:
            failure = self._failure(ErrorDetail(ErrorKind.BAD_REPLY, str(error)), error.status)
        except (openai.OpenAIError, httpx2.HTTPError, aiohttp.ClientError, OSError) as error:
            failure = self._failure(self._broken(error))
        # Raised out here, since inside an except clause it would carry the package's error, and with it the key.
        if response is None:
            assert failure is not None
            raise failure
        self._keep_as_built(response.request)
        latency_s = time.monotonic() - started
        if response.status_code == 200:
            outcome = read_completion(self._unechoed(response.content), self._model.price, latency_s)
        else:
            outcome = classify_error(
                response.status_code, response.content or response.headers.get("location", "").encode()
            )
        if isinstance(outcome, ErrorDetail):
            failure = self._failure(outcome, response.status_code, retry_after_s(response.headers))
            if outcome.kind is ErrorKind.BAD_REQUEST:
                own = {name: value for name, value in sent.items() if name not in keep}
                self._dialect = self._dialect.learn(own, outcome.message, outcome.param, outcome.codes)
                # Not whether something new was learnt: another request under way may have met the same before.
                failure.put_otherwise = self._dialect.adapt(wanted, keep)[0] != sent
            raise failure
        if outcome.refusal and response.status_code != 200:
            outcome = replace(outcome, refusal=shorten(outcome.refusal, self._secrets), latency_s=latency_s)
        return replace(outcome, notes=notes) if notes else outcome

    async def _post(self, content: bytes) -> httpx2.Response:
        if self._as_built is None:
            return await self._sdk.post("/chat/completions", content=content, cast_to=httpx2.Response)
        # Building a request takes the package as much CPU as all the rest of a call, and they differ in bodies alone.
        return await self._http.send(httpx2.Request(**self._as_built, content=content))

    def _keep_as_built(self, request: httpx2.Request) -> None:
        if self._as_built is None:
            headers = request.headers.copy()
            del headers["content-length"]
            self._as_built = {
                "method": request.method, "url": request.url, "headers": headers, "extensions": request.extensions,
            }  # fmt: skip

    async def aclose(self) -> None:
        """Close the connections."""
        await self._sdk.close()

    def _unechoed(self, content: bytes) -> bytes:
        """The reply without what was sent in secret: some gateways repeat it, and replies are kept."""
        for secret in self._echoes:
            if secret in content:
                content = content.replace(secret, b"[redacted]")
        return content

    def _failure(self, why: ErrorDetail, status: int | None = None, retry_s: float | None = None) -> EndpointError:
        return EndpointError(why.kind, shorten(why.message, self._secrets), status, retry_s)

    def _broken(self, error: BaseException) -> ErrorDetail:
        """What an exception without a response means.

        By its causes: over aiohttp the package gives a connection that was reset and a timeout the same type.
        """
        for cause in _chain(error):
            words = str(cause) or type(cause).__name__
            if isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
                return ErrorDetail(ErrorKind.UNREACHABLE, words)
            if isinstance(cause, aiohttp.ClientHttpProxyError | httpx2.UnsupportedProtocol):
                return ErrorDetail(ErrorKind.UNREACHABLE, words)
            if isinstance(cause, aiohttp.ClientResponseError | httpx2.DecodingError):
                return ErrorDetail(ErrorKind.BAD_REPLY, f"not a whole HTTP reply: {words}")
            if isinstance(cause, TimeoutError):
                return ErrorDetail(ErrorKind.TIMEOUT, f"no whole reply within {self._model.timeout_s:g} s")
            if isinstance(cause, aiohttp.ClientError):
                return ErrorDetail(ErrorKind.CONNECTION, words)
        return ErrorDetail(ErrorKind.CONNECTION, str(error) or type(error).__name__)


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


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what caused it, the outermost first."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__ or link.__context__


def _extra_of(model: Model) -> Extra:
    """The model's extras with the variables that they name filled in."""
    try:
        # Not validated anew: what stands there now are secrets.
        return Extra.model_construct(**expand_variables(model.extra.model_dump()))
    except ConfigError as error:
        raise ConfigError(f"model {model.name!r}: {error.message}") from None


def _read_key(model: Model) -> str | None:
    """The model's key from its variable or file; None where the config names neither."""
    if model.api_key_env:
        source = f"the environment variable {model.api_key_env}"
        key = os.environ.get(model.api_key_env, "").strip()
        if not key:
            raise ConfigError(f"model {model.name!r}: {source} is not set; it must hold the API key")
    elif model.api_key_file:
        source = f"the file {model.api_key_file}"
        try:
            key = Path(model.api_key_file).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            words = getattr(error, "strerror", None) or "not UTF-8"
            raise ConfigError(f"model {model.name!r}: {source} with the API key cannot be read: {words}") from None
        if not key:
            raise ConfigError(f"model {model.name!r}: {source} is empty; it must hold the API key")
    else:
        return None
    if not all("!" <= char <= "~" for char in key):
        raise ConfigError(f"model {model.name!r}: {source} holds no API key: it has blanks or odd characters in it")
    return key
