"""From a request's bytes to what is to be done about it: the endpoint without its HTTP server.

Hides the order in which a provider objects (key, body, model, quota, limits) and how faults, verdicts and recorded
replies come together in one answer. The clock is an argument; only the counts of arrivals and the buckets are state.
"""

import math
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import orjson

from . import bad_replies
from .faults import Fault, Faults
from .options import STRUCTURED, Simulation
from .prompt_parser import BadRequest, ParsedPrompt, ReplySpec, draw_verdicts, parse_prompt, parse_reply_spec
from .replay import Ambiguous, NotRecorded, Replay
from .replies import (
    NoScore,
    compose_list,
    empty_object,
    is_greeting,
    mumble,
    render_reply,
    reply_without_verdict,
    says_yes,
)
from .reply_format import Verdict
from .throttle import Gate, Headers, retry_after

_OF_VERDICTS = ("malformed", "miscounted", "mumbled", "truncated", "refused")
"""Faults in the words of a reply; the others leave the request without any."""
_BAD_GATEWAY = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"


@dataclass(slots=True)
class Answer:
    """What is to be done about one request."""

    status: int | None
    """None: no reply."""
    body: bytes = b""
    headers: Headers | None = None
    content_type: bytes = b"application/json"
    delay_s: float = 0.0
    fault: str | None = None
    limit: str | None = None
    model: str | None = None
    digest: bytes = b""
    in_flight: int = 0
    """Of the model, when the request arrived."""
    gate: Gate | None = None
    """Let in by this gate, which the request must leave when it ends."""
    billed: tuple[int, int] = (0, 0)
    """Tokens of the prompt and of the reply that are charged, whether the reply arrives or not."""


class Endpoint:
    """All that the endpoint knows between requests."""

    def __init__(self, simulation: Simulation, replay: Replay | None = None) -> None:
        self.simulation = simulation
        self._replay = replay
        self._faults = Faults(simulation, replay.yes if replay is not None else simulation.yes)
        self._gates: dict[str, Gate] = {}
        self._random = random.Random(simulation.seed)
        self._answered = 0
        self._created = int(time.time())
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.not_recorded = 0
        self.ambiguous = 0

    def models(self) -> bytes:
        names = self.simulation.only_models or dict.fromkeys([*self.simulation.models, *self._gates])
        listed = [{"id": n, "object": "model", "created": self._created, "owned_by": "jurybox"} for n in names]
        return orjson.dumps({"object": "list", "data": listed})

    def most_in_flight(self) -> dict[str, int]:
        return {model: gate.max_in_flight for model, gate in self._gates.items()}

    def unauthorized(self, headers: Iterable[tuple[bytes, bytes]]) -> Answer | None:
        """The 401 that a request with these headers gets, if any."""
        key = self.simulation.api_key
        if key is None:
            return None
        accepted = {(b"authorization", b"Bearer " + key.encode()), (b"api-key", key.encode())}
        if any((name, value) in accepted for name, value in headers):
            return None
        message = "Incorrect API key provided, or none; this endpoint accepts only the key it was started with."
        return _error(401, message, "invalid_request_error", "invalid_api_key")

    def answer(self, number: int, body: bytes | bytearray, now: float) -> Answer:
        """Decide on one chat completion request. Where the answer has a gate, the caller leaves it at the end."""
        try:
            request = orjson.loads(body)
            prompt = self._structured(parse_prompt(request))
        except (BadRequest, orjson.JSONDecodeError) as error:
            return _error(400, f"Invalid request: {error}", "invalid_request_error", None)
        for name in self.simulation.unsupported:
            if name in request:
                more = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
                words = f"Unsupported parameter: '{name}' is not supported with this model.{more}"
                return _error(400, words, "invalid_request_error", "unsupported_parameter", param=name)
        answer = self._answer(number, prompt, now)
        answer.model = prompt.model
        return answer

    def _structured(self, prompt: ParsedPrompt) -> ParsedPrompt:
        """The prompt as this endpoint takes it: with the structure that it demands, or without."""
        mode, mechanism = self.simulation.structured, prompt.mechanism
        if mechanism is None or mechanism in STRUCTURED[mode]:
            return prompt
        if mode == "openai":
            raise BadRequest("Unrecognized request argument supplied: structured_outputs")
        if mode in ("refused", "vllm") or (mode == "json_object" and mechanism == "json_schema"):
            field = "structured_outputs" if mechanism == "vllm" else "response_format"
            raise BadRequest(f"{field} is not supported by this endpoint")
        return replace(prompt, structure=None)

    def _answer(self, number: int, prompt: ParsedPrompt, now: float) -> Answer:
        simulation, model = self.simulation, prompt.model
        if simulation.only_models is not None and model not in simulation.only_models:
            message = f"The model `{model}` does not exist or you do not have access to it."
            return _error(404, message, "invalid_request_error", "model_not_found")
        digest = prompt.digest()
        if simulation.quota is not None and self._answered >= simulation.quota:
            message = "You exceeded your current quota, please check your plan and billing details."
            return _error(429, message, "insufficient_quota", "insufficient_quota", digest=digest)
        spec = parse_reply_spec(prompt)
        plain = reply_without_verdict(prompt, self.simulation.reformat_lies)
        try:
            reply, verdict = (plain, True) if plain is not None else self._reply_and_verdict(prompt, spec)
        except (NotRecorded, NoScore, Ambiguous) as error:
            is_ambiguous = isinstance(error, Ambiguous)
            self.not_recorded += not is_ambiguous
            self.ambiguous += is_ambiguous
            answer = _error(422, f"replay: {error}", "invalid_request_error", "replay", digest=digest)
            answer.fault = "replay"
            return answer
        gate = self._gate(model, now)
        in_flight = gate.in_flight
        if over := gate.enter(prompt.tokens + _tokens(reply), now):
            message = f"Rate limit reached for `{model}` on {over.limit}."
            answer = _error(429, message, over.limit, "rate_limit_exceeded", digest=digest)
            answer.headers = [retry_after(over.retry_after_s), *gate.headers()]
            answer.limit = over.limit
        else:
            fault = self._faults.next(digest, verdict, spec.scores)
            if plain is not None or is_greeting(prompt):
                reply = empty_object(prompt.structure, reply)
                fault = None if fault is not None and fault.kind in _OF_VERDICTS else fault
            answer = self._reply(number, prompt, spec, reply, fault)
            answer.digest = digest
            answer.headers = [*(answer.headers or ()), *gate.headers()]
            answer.gate = gate
        answer.in_flight = in_flight
        return answer

    def _reply_and_verdict(self, prompt: ParsedPrompt, spec: ReplySpec) -> tuple[str, bool]:
        """The reply that comes where nothing goes wrong, and whether it, or most of it, says yes."""
        if self._replay is None or is_greeting(prompt):
            verdicts = draw_verdicts(spec, prompt, self.simulation.seed, self.simulation.yes)
            reply = render_reply(spec, verdicts, prompt.user)
            return reply, _is_majority([verdict.yes for verdict in verdicts])
        if spec.blocks:
            replies = [self._replay.find(block) for block, _ in spec.blocks]
            yes = [reply if isinstance(reply, bool) else says_yes(reply) for reply in replies]
            return compose_list(spec, replies), _is_majority(yes)
        recorded = self._replay.find(prompt.text)
        if isinstance(recorded, bool):
            return render_reply(spec, [Verdict(recorded)], prompt.user), recorded
        return recorded, says_yes(recorded)

    def _reply(self, number: int, prompt: ParsedPrompt, spec: ReplySpec, reply: str, fault: Fault | None) -> Answer:
        delay = self._latency(prompt.model)
        if fault is None or fault.kind in _OF_VERDICTS:
            message, finish = _message(spec, reply, fault)
            answer = self._complete(number, prompt, message, finish)
        elif fault.kind == "server_errors":
            answer = _server_error(fault.variant)
        elif fault.kind == "throttled":
            delay = 0.0
            answer = _error(429, "Rate limit reached.", "requests", "rate_limit_exceeded")
            answer.headers = [retry_after(self.simulation.retry_after_s)]
        else:
            answer = Answer(None)
            if fault.kind == "resets":
                # The work is done, and the reply lost: a provider charges for it.
                answer.billed = self._charged(prompt, _tokens(reply))
        answer.delay_s, answer.fault = delay, fault.kind if fault else None
        return answer

    def _complete(self, number: int, prompt: ParsedPrompt, message: dict[str, str | None], finish: str) -> Answer:
        """The 200, after as much reasoning as the endpoint does."""
        spoken = _tokens(message["content"] or message.get("refusal") or "")
        if thinks := self.simulation.thinks:
            room = math.inf if prompt.max_tokens is None else prompt.max_tokens
            if room < thinks + spoken:
                message["content"], finish, spoken = None, "length", max(0, int(room) - thinks)
                thinks = min(thinks, int(room))
            message["reasoning_content"] = "Let us see. " * (thinks // 3)
            spoken += thinks
        self._answered += 1
        choice = {"index": 0, "message": {"role": "assistant", "refusal": None, **message}, "logprobs": None}
        document = {
            "id": f"chatcmpl-simulated-{number}",
            "object": "chat.completion",
            "created": self._created,
            "model": prompt.model,
            "system_fingerprint": "jurybox-simulate",
            "choices": [choice | {"finish_reason": finish}],
            "usage": {
                "prompt_tokens": prompt.tokens,
                "completion_tokens": spoken,
                "total_tokens": prompt.tokens + spoken,
                "prompt_tokens_details": {"cached_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": thinks},
            },
        }
        return Answer(200, orjson.dumps(document), billed=self._charged(prompt, spoken))

    def _charged(self, prompt: ParsedPrompt, spoken: int) -> tuple[int, int]:
        self.prompt_tokens += prompt.tokens
        self.completion_tokens += spoken
        return prompt.tokens, spoken

    def _latency(self, model: str) -> float:
        median = self.simulation.of_model(model, "latency_ms")
        if not median:
            return 0.0
        return self._random.lognormvariate(math.log(median / 1000), self.simulation.latency_spread)

    def _gate(self, model: str, now: float) -> Gate:
        gate = self._gates.get(model)
        if gate is None:
            of = self.simulation.of_model
            limits = {name: of(model, name) for name in ("rpm", "tpm", "in_flight")}
            busy_wait_s = (of(model, "latency_ms") or 0.0) / 1000
            gate = Gate(**limits, burst_s=self.simulation.burst_s, busy_wait_s=busy_wait_s, now=now)
            self._gates[model] = gate
        return gate


def _is_majority(verdicts: list[bool]) -> bool:
    return 2 * sum(verdicts) >= len(verdicts)


def _tokens(text: str) -> int:
    return max(1, len(text.encode()) // 4)


def _message(spec: ReplySpec, reply: str, fault: Fault | None) -> tuple[dict[str, str | None], str]:
    """The message with the reply, or with what a fault makes of it, and its finish_reason."""
    if fault is None:
        return {"content": reply}, "stop"
    match fault.kind:
        case "malformed":
            return {"content": bad_replies.pick_malformed(spec, fault.variant)}, "stop"
        case "miscounted":
            return {"content": bad_replies.miscount(spec, reply, fault.variant)}, "stop"
        case "mumbled":
            return {"content": mumble(spec.form, reply)}, "stop"
        case "truncated":
            return {"content": bad_replies.truncate(spec, reply)}, "length"
    refusals: list[dict[str, str | None]] = [
        {"content": None, "refusal": bad_replies.REFUSAL},
        {"content": bad_replies.REFUSAL},
        {"content": None},
    ]
    way = fault.variant % 3
    return refusals[way], "content_filter" if way == 2 else "stop"


def _server_error(variant: int) -> Answer:
    if variant % 3 == 1:
        return Answer(502, _BAD_GATEWAY, content_type=b"text/html")
    if variant % 3 == 0:
        return _error(500, "The server had an error while processing your request.", "server_error", None)
    return _error(503, "The engine is currently overloaded, please try again later.", "server_error", None)


def _error(
    status: int, message: str, kind: str, code: str | None, digest: bytes = b"", param: str | None = None
) -> Answer:
    body = orjson.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}})
    return Answer(status, body, digest=digest)
