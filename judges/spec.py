"""The layout of a judge's YAML file, checked as a whole: every name in it leads somewhere, and none is unused."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from .condition import Condition, parse_condition
from .item import CANONICAL_FIELDS
from .reply_forms import Reads, ScoresReads
from .sampling import Sampling
from .strict_yaml import did_you_mean
from .template import NUMBER, parse_template
from .trace_scores import Trace

MAX_BATCH = 50
"""Items in one request at most: a shard holds whole batches."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class _Record(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True, validate_by_alias=True
    )


def _utf8(text: Any) -> Any:
    if isinstance(text, str):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("holds a lone surrogate, which no endpoint can receive") from None
    return text


def _off(value: Any) -> Any:
    # YAML 1.1 reads a bare `off` as false, and here false can mean nothing else.
    return "off" if value is False else value


def _binding(value: Any) -> Any:
    return {"field": value} if isinstance(value, str) else value


When = Annotated[Condition, BeforeValidator(parse_condition, json_schema_input_type=dict[str, Any])]
Structured = Annotated[
    Literal["off", "auto", "require"],
    BeforeValidator(_off, json_schema_input_type=Literal["off", "auto", "require", False]),
]
Text = Annotated[str, Field(min_length=1), BeforeValidator(_utf8)]


class Binding(_Record):
    """A place of the templates: the item's field that fills it, and the form in which it stands there."""

    field: Annotated[str, Field(min_length=1)]
    """The item's field."""
    form: Annotated[Literal["sentences"] | None, Field(alias="as")] = None
    """`sentences`: keyed sentences, a line `key: text` each."""


class BatchSpec(_Record):
    """Several items in one request: the user's part of a template is then one block, `{number}` its number."""

    size: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    """Items in a request, where the config does not say otherwise."""
    example: Text | None = None
    """The prompt's own example of a reply: how often a reply is just that is reported."""


class Roles(_Record):
    """A template in two messages."""

    system: Text | None = None
    """The system message."""
    user: Text
    """The user's message."""


class Route(_Record):
    """Which template an item gets; without `when` it takes every item that is left."""

    when: When | None = None
    """A condition: `{group: [a, b]}`, `{question_id: {contains: x}}`, or `any`, `all` and `not` of conditions."""
    template: str
    """The template's name."""


class Official(_Record):
    """How the published protocol reads a reply: by a text that its lower-cased form contains."""

    contains: Text
    """In lower case."""


class Slices(_Record):
    """How results are split: by the items' group, with the unweighted mean over groups, and by conditions."""

    by: Literal["group"] | None = None
    """`group`: a row of the report for each group."""
    macro: bool = False
    """Whether the unweighted mean over the groups is reported."""
    also: dict[str, When] = {}
    """Slice name → the condition on its items."""


class Caution(_Record):
    """What a report must say of the items that the condition holds for."""

    when: When
    """The condition."""
    say: Text
    """The sentence."""


class JudgeSpec(_Record):
    """A judge's file."""

    name: str
    """Of letters, digits, `.`, `_` and `-`; part of every trial's key."""
    description: str = ""
    """What is judged, in a sentence."""
    protocol_notes: list[str] = []
    """What a reader of the results has to know of the published protocol."""
    reads: Reads
    """How a reply is read, and what its verdict holds."""
    bind: dict[str, Annotated[Binding, BeforeValidator(_binding, json_schema_input_type=str | Binding)]] = {}
    """Name in the templates → the item's field that fills it."""
    route: Annotated[list[Route], Field(min_length=1)]
    """Which template an item gets: the first route that takes it."""
    on_unrouted: Literal["error", "skip"] = "error"
    """What becomes of an item that no route takes: an error, or it is left out and counted."""
    ignores_response: bool = False
    """A template may go without the response: the judge looks at the question or the documents alone."""
    templates: Annotated[dict[str, Text | Roles], Field(min_length=1)]
    """Template name → the prompt: a user's message, or a system and a user's message."""
    sampling: Sampling = Sampling()
    """How the model is asked to sample; models and configs may lay theirs over it."""
    structured: Structured = "off"
    """Whether the endpoint is to enforce the reply's form: `auto` where it can, `require` or not at all."""
    json_hint: Text | None = None
    """Appended to the prompt where `structured` is wanted and the endpoint cannot enforce it."""
    official: Official | None = None
    """The published reading, reported beside the strict one."""
    batch: BatchSpec | None = None
    """Several items in one request."""
    scoring: Trace | None = None
    """Scores that are computed out of the verdict."""
    at_least: dict[str, float] = {}
    """Score → a value: the report says how many scores reach it."""
    slices: Slices = Slices()
    cautions: list[Caution] = []
    """Sentences that the report says where the run holds items of a kind."""

    @property
    def is_list(self) -> bool:
        """Whether a reply is a list of scores, one for each item asked about."""
        return isinstance(self.reads, ScoresReads) and self.reads.names is None

    def messages(self) -> dict[str, dict[str, str]]:
        """Template name → role → text; the roles in the order in which they are sent."""
        return {
            name: {"user": text} if isinstance(text, str) else text.model_dump(exclude_none=True)
            for name, text in self.templates.items()
        }

    @model_validator(mode="after")
    def _consistent(self) -> JudgeSpec:
        if not _NAME.fullmatch(self.name):
            raise ValueError("name: must be of letters, digits, '.', '_' and '-'")
        if self.json_hint is not None and self.reads.response_schema() is None:
            raise ValueError("json_hint: needs a reading of the kind object")
        if self.json_hint is not None and self.structured == "off":
            raise ValueError("json_hint: is never sent while structured is off")
        if self.official and self.official.contains != self.official.contains.lower():
            raise ValueError("official.contains: must be in lower case, as the reply is when it is looked for")
        self._check_names()
        self._check_routes()
        self._check_batch()
        if self.scoring:
            self.scoring.check(self.reads)
        if unknown := sorted(set(self.at_least) - set(self.reads.verdict_types)):
            raise ValueError(f"at_least.{unknown[0]}: is no field of the verdict")
        return self

    def _check_names(self) -> None:
        used: set[str] = set()
        blind: list[str] = []
        for template, roles in self.messages().items():
            fields: set[str] = set()
            for role, text in roles.items():
                names = self._names_in(template, role, text)
                used.update(names)
                fields.update(self.bind[name].field if name in self.bind else name for name in names)
            blind += [] if "response" in fields else [template]
        for name in self.bind:
            if name not in used:
                raise ValueError(f"bind.{name}: no template uses {{{name}}}" + did_you_mean(name, sorted(used)))
            if self.batch and name == NUMBER:
                raise ValueError(f"bind.{name}: is the number of a block")
        if blind and not self.ignores_response:
            raise ValueError(
                f"templates.{blind[0]}: holds no {{response}}, so that its prompt says nothing of the answer; put it "
                "in (or, where the question or the documents alone are to be judged, write ignores_response: true)"
            )
        if self.ignores_response and not blind:
            raise ValueError("ignores_response: every template holds the response")

    def _names_in(self, template: str, role: str, text: str) -> tuple[str, ...]:
        """The names in a template's text. ValueError where one leads nowhere."""
        try:
            names = parse_template(text).names
        except ValueError as error:
            raise ValueError(f"templates.{template}: {error}") from None
        for name in names:
            if self.batch and role == "system":
                raise ValueError(f"templates.{template}.system: {{{name}}}: one system text stands for all items")
            if not (self.batch and name == NUMBER) and name not in self.bind and name not in CANONICAL_FIELDS:
                raise ValueError(
                    f"templates.{template}: {{{name}}} is no canonical field and is not bound"
                    + did_you_mean(name, [*CANONICAL_FIELDS, *self.bind])
                    + f" (an item's own field is used through bind: {{{name}: {name}}})"
                )
        return names

    def _check_batch(self) -> None:
        if self.batch is None:
            return
        if not self.is_list:
            raise ValueError("batch: needs a reading of the kind scores without names: a score for each item")
        for name, roles in self.messages().items():
            if NUMBER not in parse_template(roles["user"]).names:
                raise ValueError(f"templates.{name}: the text of a block must hold its number, {{{NUMBER}}}")

    def _check_routes(self) -> None:
        for number, route in enumerate(self.route):
            if route.template not in self.templates:
                near = did_you_mean(route.template, list(self.templates))
                raise ValueError(f"route.{number}.template: there is no template {route.template!r}{near}")
            if route.when is None and number < len(self.route) - 1:
                raise ValueError(f"route.{number}: takes every item, so that the routes after it are never reached")
        if unused := set(self.templates) - {route.template for route in self.route}:
            raise ValueError(f"templates.{sorted(unused)[0]}: no route leads to it")
