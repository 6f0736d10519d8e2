"""A request's prompt as the endpoint sees it: its texts, its digest, and the structure that the request demands.

Hides the ways in which a request body may say these things, and refuses what is no chat completion request.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any


class BadRequest(Exception):
    """The body is no chat completion request; the message goes into the 400."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one request asks."""

    model: str
    text: str
    """The texts of all messages."""
    told: str
    """The system messages."""
    asked: str
    """The last user message: what the verdict depends on."""
    tokens: int
    """About what a tokenizer would count."""
    structure: tuple[str, Any] | None
    """("schema", JSON Schema), ("choice", list of strings), ("regex", pattern) or ("object", None), where the request
    demands one."""
    way: str | None = None
    """In which way it does: json_schema, json_object or vllm."""
    max_tokens: int | None = None

    def digest(self) -> bytes:
        """Names the prompt and the model: what a fault depends on."""
        return blake2b(f"{self.model}\0{self.text}".encode(), digest_size=16).digest()


def prompt_of(body: Any) -> Prompt:
    """Read a request body; BadRequest says what is wrong with it."""
    if not isinstance(body, dict):
        raise BadRequest("the body is no JSON object")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("you must provide a model parameter")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("'messages' must be a list of at least one message")
    if body.get("stream"):
        raise BadRequest("this endpoint does not stream")
    texts = [_text(message) for message in messages]
    text = asked = texts[-1]
    told = ""
    if len(texts) > 1:
        by_role = [(message.get("role"), text) for message, text in zip(messages, texts, strict=True)]
        text = "\n\n".join(texts)
        told = "\n\n".join(said for role, said in by_role if role in ("system", "developer"))
        asked = next((said for role, said in reversed(by_role) if role == "user"), asked)
    structure, way = _structure(body)
    most = body.get("max_completion_tokens", body.get("max_tokens"))
    most = most if isinstance(most, int) else None
    return Prompt(model, text, told, asked, max(1, len(text.encode()) // 4), structure, way, most)


def _text(message: Any) -> str:
    if not isinstance(message, dict):
        raise BadRequest("a message must be an object")
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, list) and all(isinstance(p, dict) and isinstance(p.get("text"), str) for p in content):
        return "".join(part["text"] for part in content)
    raise BadRequest("a message's content must be a string or a list of text parts")


def _structure(body: dict[str, Any]) -> tuple[tuple[str, Any] | None, str | None]:
    wanted = body.get("response_format")
    if isinstance(wanted, dict):
        if wanted.get("type") == "json_schema":
            schema = (wanted.get("json_schema") or {}).get("schema")
            if not isinstance(schema, dict):
                raise BadRequest("response_format.json_schema.schema must be an object")
            return ("schema", schema), "json_schema"
        if wanted.get("type") == "json_object":
            return ("object", None), "json_object"
    wanted = body.get("structured_outputs")  # as vLLM takes it
    if isinstance(wanted, dict):
        if isinstance(wanted.get("json"), dict):
            return ("schema", wanted["json"]), "vllm"
        if isinstance(wanted.get("choice"), list) and wanted["choice"]:
            return ("choice", wanted["choice"]), "vllm"
        if isinstance(wanted.get("regex"), str):
            return ("regex", wanted["regex"]), "vllm"
    return None, None
