"""A request's prompt as the endpoint sees it: its texts, its digests, and the shape of reply that it asks for.

Like a model, this has only the words to go by. The shape is looked for in the template's own words, which stand in the
last paragraph or the first: what is judged stands between them and must not change how the reply looks.
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
    asked: str
    """The last user message: what the verdict depends on."""
    size: int
    """UTF-8 bytes of all texts."""
    structure: tuple[str, Any] | None
    """("schema", JSON Schema), ("choice", list of strings) or ("object", None), where the request demands one."""

    @property
    def tokens(self) -> int:
        """About what a tokenizer would count."""
        return max(1, self.size // 4)

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
    asked = next(
        (text for text, m in zip(reversed(texts), reversed(messages), strict=True) if m.get("role") == "user"),
        texts[-1],
    )
    text = texts[0] if len(texts) == 1 else "\n\n".join(texts)
    return Prompt(model, text, asked, len(text.encode()), _structure(body))


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


def _structure(body: dict[str, Any]) -> tuple[str, Any] | None:
    wanted = body.get("response_format")
    if isinstance(wanted, dict):
        if wanted.get("type") == "json_schema":
            schema = (wanted.get("json_schema") or {}).get("schema")
            if not isinstance(schema, dict):
                raise BadRequest("response_format.json_schema.schema must be an object")
            return "schema", schema
        if wanted.get("type") == "json_object":
            return "object", None
    wanted = body.get("structured_outputs")  # as vLLM takes it
    if isinstance(wanted, dict):
        if isinstance(wanted.get("json"), dict):
            return "schema", wanted["json"]
        if isinstance(wanted.get("choice"), list) and wanted["choice"]:
            return "choice", wanted["choice"]
    return None


def shape_of(text: str) -> str:
    """What the prompt's own words ask for: `object`, `line` (a sentence, then `correct=true`), or `yesno`."""
    paragraphs = text.strip()
    return _named(paragraphs.rsplit("\n\n", 1)[-1]) or _named(paragraphs.split("\n\n", 1)[0]) or "yesno"


def _named(paragraph: str) -> str | None:
    words = paragraph.lower()
    if "json" in words:
        return "object"
    if "correct=true" in words:
        return "line"
    if "yes or no" in words or "yes/no" in words or "answer yes" in words:
        return "yesno"
    return None
