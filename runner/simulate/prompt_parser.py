"""What a chat completion request asks for, as far as its text can tell: model, texts, and the reply that it wants.

The form of the reply comes from the demanded structure if there is one, else from the words of the instructions: the
system message, or without one the last paragraph, or the first ones. What is judged stands between and must not change
how the reply looks, so a last paragraph that opens with the label of a slot is not looked at.

Of a batch each numbered block gets a verdict. The first line holds the marker with the number 1 (`Question 1:`, `[1]`,
`### Item 1`); block k+1 begins where, after a blank line, a line opens with the same marker and the next number. So
`Question 3:` in the only block begins nothing: there was no 2. `Question 2:` in it begins a block only if the lines
that make a block stand below it: the labels of the first block that the instructions name too, or, where they name
none, any of its labels. An answer that holds a whole block of the layout is taken for two, here as by a model.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from .reply_format import YESNO, Form, Verdict, detect_form, detect_scale, draw_verdict, pick


class BadRequest(Exception):
    """The body is no chat completion request; the message goes into the 400."""


@dataclass(frozen=True, slots=True)
class ParsedPrompt:
    """What one request asks."""

    model: str
    text: str
    """The texts of all messages."""
    system: str
    """The system messages."""
    user: str
    """The last user message: what the verdict depends on."""
    tokens: int
    """About what a tokenizer would count."""
    structure: tuple[str, Any] | None
    """("schema", JSON Schema), ("choice", list of strings), ("regex", pattern) or ("object", None), where the request
    demands one."""
    mechanism: str | None = None
    """In which way it does: json_schema, json_object or vllm."""
    max_tokens: int | None = None

    def digest(self) -> bytes:
        """Names the prompt and the model: what a fault depends on."""
        return blake2b(f"{self.model}\0{self.text}".encode(), digest_size=16).digest()


def parse_prompt(body: Any) -> ParsedPrompt:
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
    by_role = [(message.get("role"), text) for message, text in zip(messages, texts, strict=True)]
    text = "\n\n".join(texts)
    system = "\n\n".join(text for role, text in by_role if len(texts) > 1 and role in ("system", "developer"))
    user = next((text for role, text in reversed(by_role) if role == "user"), texts[-1])
    structure, mechanism = _structure(body)
    most = body.get("max_completion_tokens", body.get("max_tokens"))
    most = most if isinstance(most, int) else None
    return ParsedPrompt(model, text, system, user, max(1, len(text.encode()) // 4), structure, mechanism, most)


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
    demand = body.get("response_format")
    if isinstance(demand, dict):
        if demand.get("type") == "json_schema":
            schema = (demand.get("json_schema") or {}).get("schema")
            if not isinstance(schema, dict):
                raise BadRequest("response_format.json_schema.schema must be an object")
            return ("schema", schema), "json_schema"
        if demand.get("type") == "json_object":
            return ("object", None), "json_object"
    demand = body.get("structured_outputs")  # as vLLM takes it
    if isinstance(demand, dict):
        if isinstance(demand.get("json"), dict):
            return ("schema", demand["json"]), "vllm"
        if isinstance(demand.get("choice"), list) and demand["choice"]:
            return ("choice", demand["choice"]), "vllm"
        if isinstance(demand.get("regex"), str):
            return ("regex", demand["regex"]), "vllm"
    return None, None


_FIRST = re.compile(r"\s*([^\d\n]{0,40})1(?!\w)([^\w\s]?)")
_LABELLED = re.compile(r"\n([^\W\d][^\n:]{0,39}):")


def split_blocks(text: str, instructions: str) -> tuple[tuple[str, str], ...]:
    """Each block whole, and its content without the marker: what stands in it whatever its number."""
    first = _FIRST.match(text)
    if first is None:
        return ((text, text.rstrip()),)
    behind = re.escape(first[2]) if first[2] else r"(?=\s)"
    marks = list(re.finditer(rf"\n\n({re.escape(first[1])}(\d+){behind})", text))
    numbers = [int(mark[2]) for mark in marks]
    opening = text[: marks[numbers.index(2)].start()] if 2 in numbers else text
    labels = [f"\n{label}:" for label in dict.fromkeys(_LABELLED.findall(opening))]
    named = [label for label in labels if label[1:] in instructions]
    begins = [(first.start(), first.end())]
    for index, mark in enumerate(marks):
        if numbers[index] != len(begins) + 1:
            continue
        after = (
            other.start()
            for other, number in zip(marks[index:], numbers[index:], strict=True)
            if number > numbers[index]
        )
        below = text[mark.end() : next(after, len(text))]
        if all(label in below for label in named) if named else not labels or any(label in below for label in labels):
            begins.append((mark.start(1), mark.end(1)))
    ends = [start - 2 for start, _ in begins[1:]] + [len(text)]
    return tuple(
        (text[start:end], text[content:end].strip()) for (start, content), end in zip(begins, ends, strict=True)
    )


_SLOT = re.compile(
    r"(?:[\w'’ ]{0,30} )?(?:question|response|answer|reference|rubric|document|context|output|completion|explanation)s?"
    r"\b[^\n:.?!]{0,20}:(?=\s)",
    re.I,
)
_FIRST_SLOT = re.compile(rf"^{_SLOT.pattern}", re.I | re.M)
_USUAL_OBJECT = detect_form("JSON")


@dataclass(frozen=True, slots=True)
class ReplySpec:
    form: Form
    blocks: tuple[tuple[str, str], ...] = ()
    """Of a batch: each block whole, and its content without its number."""

    @property
    def scores(self) -> int:
        """How many scores make the reply; 0 where it is none of scores."""
        if self.form.kind != "scores":
            return 0
        return len(self.blocks) if self.form.each else self.form.count


def parse_reply_spec(prompt: ParsedPrompt) -> ReplySpec:
    if (
        prompt.structure is None
        and not prompt.system
        and (plain := _spec_of_last(_last_paragraph(prompt.user))) is not None
    ):
        return plain
    form = _form_of_words(prompt)
    blocks = split_blocks(prompt.user, prompt.system) if form.each else ()
    if prompt.structure is None:
        return ReplySpec(form, blocks)
    kind, demand = prompt.structure
    if kind == "schema":
        return ReplySpec(Form("object", schema=demand), blocks)
    if kind == "choice":
        labels = tuple(str(choice) for choice in demand)
        yesno = len(labels) == 2 and pick(labels, Verdict(True)).lower() == "yes"
        return ReplySpec(replace(YESNO, labels=labels) if yesno else Form("choice", labels=labels))
    if kind == "regex":
        return ReplySpec(form, blocks) if form.kind == "scores" else ReplySpec(_form_of_pattern(demand))
    assert _USUAL_OBJECT is not None
    return ReplySpec(form if form.kind == "object" else _USUAL_OBJECT)


def _form_of_pattern(pattern: str) -> Form:
    """One number that a pattern allows first: of a list of alternatives their scale."""
    numbers = [int(number) for number in re.findall(r"\d+", pattern.partition(")")[0])]
    return Form("scores", min(numbers, default=0), max(numbers, default=5), scaled=True)


@lru_cache(maxsize=128)
def _spec_of_last(last: str) -> ReplySpec | None:
    """What the last paragraph wants, where that alone tells; kept, for it is the same in every prompt of a template."""
    form = None if _SLOT.match(last) else detect_form(last)
    return None if form is None or form.kind == "scores" else ReplySpec(form)


def draw_verdicts(spec: ReplySpec, prompt: ParsedPrompt, seed: int, yes: float) -> tuple[Verdict, ...]:
    """The verdicts that are made up for a prompt: of a batch one for each block, from its content alone."""
    if spec.blocks:
        return tuple(draw_verdict(seed, yes, content) for _, content in spec.blocks)
    texts = [prompt.user, *(f"{prompt.user}\0{number}" for number in range(1, spec.form.count))]
    return tuple(draw_verdict(seed, yes, text) for text in texts)


def _form_of_words(prompt: ParsedPrompt) -> Form:
    if prompt.system and (form := _form_of_system(prompt.system)) is not None:
        return form
    return _with_scale(_form_around_items(prompt.user), f"{_first_part(prompt.user)}\n{_last_paragraph(prompt.user)}")


@lru_cache(maxsize=128)
def _form_of_system(system: str) -> Form | None:
    """The form that a system message asks for; its last words may leave to the others what the scale is."""
    form = detect_form(_last_paragraph(system)) or detect_form(system)
    return None if form is None else _with_scale(form, system)


def _form_around_items(text: str) -> Form | None:
    """The form that is named after what is judged, or before it."""
    last = _last_paragraph(text)
    if _SLOT.match(last):
        return detect_form(_first_part(text)) or detect_form(last)
    return detect_form(last) or detect_form(_first_part(text))


def _with_scale(form: Form | None, words: str) -> Form:
    """The form with the scale of these words, where it is one of scores that lacks it."""
    if form is None or form.kind != "scores" or form.scaled or (scale := detect_scale(words)) is None:
        return form or YESNO
    return replace(form, low=scale[0], high=scale[1], scaled=True)


def _first_part(text: str) -> str:
    """What stands before the first slot; the first paragraph where no slot can be seen."""
    slot = _FIRST_SLOT.search(text)
    return text[: slot.start()] if slot else text.strip().split("\n\n", 1)[0]


def _last_paragraph(text: str) -> str:
    """The last paragraph, or what stands below the last heading."""
    text = text.rstrip()
    start = text.rfind("\n\n") + 1
    heading = text.rfind("---\n", start)
    return text[(heading + 4 if heading >= 0 else start) :].lstrip()
