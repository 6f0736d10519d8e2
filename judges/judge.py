"""A judge: prompt templates, which item gets which, how the reply is read, and what a verdict scores.

Judges are data: a YAML file, shipped in `library/` or the user's own. This module hides its layout; everything else
asks a `Judge`.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, SupportsIndex

from .condition import Condition
from .item import Item, text_of
from .outcome import Malformed, Reading, Reply, Scored
from .python_judges import check_scores_method, check_verdict, code_of, load_object
from .reading import Echoes, Place, places_in, read
from .remarks import read_remarks, remark_fields
from .reply_forms import AnyReads, ChoiceReads, ScoresReads
from .sampling import Sampling
from .scoring import Scale, scales_of, scores_of
from .sentence_keys import as_lines, keyed_sentences, sentences_value
from .spec import Binding, JudgeSpec, Slices
from .template import NUMBER, Blocks, Template, parse_template


class Judge:
    """A loaded judge. Pickles, and is never changed."""

    def __init_subclass__(cls) -> None:
        if "scores" in vars(cls):
            cls.scores = check_scores_method(cls.scores)  # type: ignore[method-assign]

    def __init__(self, spec: JudgeSpec, source: str, code: str = "") -> None:
        self._spec = spec
        self.source = source
        """The text of the YAML file."""
        self.code = code or code_of(type(self), Judge)
        """The Python that reads or scores in its own way; empty where the judge is data alone."""
        self.origin: tuple[str, str, str] | None = None
        """Text, path and name of the Python file that holds the judge: how it gets into another process."""
        self._parsed: dict[str, dict[str, Template]] = {
            name: {role: parse_template(text) for role, text in roles.items()}
            for name, roles in spec.messages().items()
        }
        self._blocks = {name: Blocks(parts["user"]) for name, parts in self._parsed.items()} if spec.batch else {}

    @property
    def name(self) -> str:
        """What reports and keys call the judge."""
        return self._spec.name

    @property
    def description(self) -> str:
        """One paragraph for people."""
        return self._spec.description

    @property
    def protocol_notes(self) -> list[str]:
        """Where the prompts come from, and every deviation from their source."""
        return self._spec.protocol_notes

    @property
    def sampling(self) -> Sampling:
        """The judge's own sampling; the model's and the config's are laid over it."""
        return self._spec.sampling

    @property
    def structured(self) -> str:
        """Whether structured output is wanted: off, auto or require."""
        return self._spec.structured

    @property
    def on_unrouted(self) -> str:
        """What an item that no route matches means: error or skip."""
        return self._spec.on_unrouted

    @property
    def templates(self) -> dict[str, dict[str, str]]:
        """Template name → role → text, as written."""
        return self._spec.messages()

    @property
    def slices(self) -> Slices:
        """How results are split."""
        return self._spec.slices

    @property
    def cautions(self) -> list[tuple[Condition, str]]:
        """What a report must say, and of which items."""
        return [(caution.when, caution.say) for caution in self._spec.cautions]

    @property
    def json_hint(self) -> str | None:
        """What is appended to the prompt where an endpoint cannot enforce the response schema."""
        return self._spec.json_hint

    @property
    def batch(self) -> int | None:
        """How many items go into a request where the config does not say; None: this judge takes one at a time."""
        return self._spec.batch.size if self._spec.batch else None

    @property
    def example(self) -> str | None:
        """The reply that a batched judge's own prompt shows as its example."""
        return self._spec.batch.example if self._spec.batch else None

    @property
    def is_list(self) -> bool:
        """Whether a reply is a list of scores, one for each item asked about."""
        return self._spec.is_list

    @property
    def choices(self) -> tuple[str, ...]:
        """The labels of which a reply chooses one; empty where the judge is of another kind."""
        reads = self._spec.reads
        return tuple(reads.labels) if isinstance(reads, ChoiceReads) else ()

    @property
    def reads(self) -> AnyReads:
        """How replies are read, as data."""
        return self._spec.reads

    @property
    def remark_fields(self) -> tuple[str, ...]:
        """Texts that a reply's object holds beside its verdict, such as its reason."""
        return remark_fields(self.reads)

    def read_remarks(self, text: str) -> dict[str, str]:
        """The remarks of a reply that gave a verdict, as far as they can be read."""
        return read_remarks(self.reads, text)

    @property
    def verdict_fields(self) -> list[str]:
        """The names of the verdict's fields."""
        return list(self._spec.reads.verdict_types)

    @property
    def binary(self) -> bool:
        """Whether every field of the verdict is true or false."""
        return set(self._spec.reads.verdict_types.values()) == {"boolean"}

    def wrong(self) -> dict[str, Any]:
        """The verdict on an answer that is empty: every field false. ValueError where the judge is not binary."""
        if not self.binary:
            raise ValueError(f"the judge {self.name} is not binary: it has no verdict that means wrong")
        return dict.fromkeys(self.verdict_fields, False)

    def scales(self) -> dict[str, Scale]:
        """Score name → what it can be. Words are no score, so a verdict's text fields are left out."""
        reads, reach = self._spec.reads, self._spec.at_least
        if self._spec.scoring:
            return self._spec.scoring.scales()
        return scales_of(reads, reach)

    def route(self, item: Item) -> str | None:
        """The name of the item's template; None where no route matches."""
        for route in self._spec.route:
            if route.when is None or route.when.matches(item):
                return route.template
        return None

    @property
    def routing_fields(self) -> frozenset[str]:
        """The item's fields that the routes look at, besides what identifies the item."""
        return frozenset().union(*(route.when.fields for route in self._spec.route if route.when is not None))

    def fields(self, template: str) -> list[str]:
        """The item's fields that stand in the template."""
        return list(dict.fromkeys(self.bound_fields(template).values()))

    def bound_fields(self, template: str) -> dict[str, str]:
        """Place of the template → the item's field that fills it."""
        return {name: binding.field for name, binding in self._bindings[template]}

    @property
    def citing_fields(self) -> tuple[str, ...]:
        """The verdict's fields that name sentences of the item by their keys, where the scores are made of these."""
        scoring = self._spec.scoring
        return (scoring.relevant, scoring.utilized) if scoring else ()

    def missing(self, item: Item, template: str) -> list[str]:
        """The item's fields that the template needs and that are absent or null. An empty response is not missing."""
        sent = self.sent_values(item, template)
        return [name for name, value in sent.items() if name != "response" and value is None]

    def sent_values(self, item: Item, template: str) -> dict[str, Any]:
        """The item's fields that stand in the template, as the item has them."""
        return {binding.field: _field_value(item, binding) for _, binding in self._bindings[template]}

    def fault(self, item: Item, template: str) -> str | None:
        """Why the item cannot be put into the template although nothing is missing; None: it can."""
        for _, binding in self._bindings[template]:
            if binding.form == "sentences":
                try:
                    keyed_sentences(_field_value(item, binding))
                except ValueError as error:
                    return f"{binding.field}: {error}"
        return None

    def render(self, item: Item, template: str, json_hint: bool = False) -> list[dict[str, str]]:
        """The messages to send for one item; of a batched judge those of a batch of one."""
        if self.batch:
            return self.render_batch([item], template)
        values = self.values(item, template)
        messages = [{"role": role, "content": part.fill(values)} for role, part in self._parsed[template].items()]
        if json_hint and self.json_hint:
            messages[-1]["content"] += "\n\n" + self.json_hint
        return messages

    def render_batch(self, items: Sequence[Item], template: str) -> list[dict[str, str]]:
        """The messages to send for several items of a template, in this order."""
        blocks = self._blocks[template].join([self.values(item, template) for item in items])
        parts = self._parsed[template]
        return [{"role": role, "content": blocks if role == "user" else part.fill({})} for role, part in parts.items()]

    def has_block_marker(self, item: Item, template: str) -> bool:
        """Whether the item's text holds what opens a block of this batched judge: then it is judged alone."""
        return self.batch is not None and self._blocks[template].has_block_marker(self.values(item, template).values())

    def response_schema(self) -> dict[str, Any] | None:
        """The JSON Schema to have enforced; None where the reply is no object."""
        return self._spec.reads.response_schema()

    def read(self, reply: Reply, count: int = 1) -> Reading:
        """What the whole reply says of the `count` items it was asked about, or why it says nothing."""
        reads = self._spec.reads
        if isinstance(reads, ScoresReads) and self._spec.is_list:
            reads = reads.counted(count)
        return read(reads, reply, self._echoes)

    def places(self, reply: Reply) -> list[Place]:
        """Where in the reply verdicts stand, whether or not they agree: for people who write a judge."""
        return places_in(self._spec.reads, reply, self._echoes)

    def judged_texts(self, items: Sequence[Item]) -> tuple[str, ...]:
        """The items' texts under judgment, for `Reply.judged`: all but question, reference and documents."""
        known = {"question", "reference", "documents"}
        texts = (text_of(value) for item in items for name, value in item.fields.items() if name not in known)
        return tuple(filter(None, texts))

    def outcomes(self, reading: Reading, items: Sequence[Item]) -> list[Reading]:
        """What a reply's reading says of each item that it was asked about, in their order."""
        if not isinstance(reading, Scored):
            return [reading] * len(items)
        if self._spec.is_list:
            (name,) = self.verdict_fields
            return [replace(reading, verdict={name: value}) for value in reading.verdict["scores"]]
        if self._spec.scoring:
            return [self._add_notes(reading, item) for item in items]
        return [reading] * len(items)

    def _add_notes(self, reading: Scored, item: Item) -> Reading:
        assert self._spec.scoring is not None
        notes = self._spec.scoring.notes(reading.verdict, item)
        if isinstance(notes, Malformed):
            return notes
        provenance = replace(reading.provenance, notes=(*reading.provenance.notes, *notes))
        return replace(reading, provenance=provenance)

    def check(self, verdict: Mapping[str, Any], item: Item) -> None:
        """JudgeError where a verdict on the item is none that this judge's data allows: its own code may err."""
        check_verdict(self, self._spec.reads.verdict_types, verdict, item)

    def scores(self, verdict: Mapping[str, Any], item: Item) -> dict[str, float]:
        """What a verdict on the item is worth, by name."""
        if self._spec.scoring:
            return self._spec.scoring.scores(verdict, item)
        reads = self._spec.reads
        if isinstance(reads, ChoiceReads):
            value = reads.values()[verdict[reads.verdict]]
            return {} if value is None else {reads.verdict: float(value)}
        return scores_of(verdict)

    def official(self, text: str | None) -> bool | None:
        """How the published protocol reads the reply; None where the judge declares no such reading."""
        if self._spec.official is None:
            return None
        return self._spec.official.contains in (text or "").strip().lower()

    @cached_property
    def _echoes(self) -> Echoes:
        texts = ["\0".join(part.literals) for parts in self._parsed.values() for part in parts.values()]
        return Echoes.of_prompt([*texts, self.json_hint or ""])

    @cached_property
    def meaning(self) -> dict[str, Any]:
        """Everything that changes a prompt, its routing, how replies are read or what they score, as plain data."""
        spec = self._spec
        # Only where they are set: a judge that uses neither means what it meant before there were such things.
        added: dict[str, Any] = {"batch": "blocks"} if spec.batch else {}
        added |= {"code": self.code} if self.code else {}
        added |= {"scoring": spec.scoring.model_dump()} if spec.scoring else {}
        return added | {
            "bind": {name: to.field if to.form is None else to.model_dump() for name, to in spec.bind.items()},
            "json_hint": spec.json_hint,
            "official": spec.official.model_dump() if spec.official else None,
            "on_unrouted": spec.on_unrouted,
            "reads": spec.reads.model_dump(),
            "route": [
                {"when": route.when.source if route.when else None, "template": route.template} for route in spec.route
            ],
            "structured": spec.structured,
            "templates": spec.messages(),
        }

    @cached_property
    def fingerprint(self) -> str:
        """Names the judge's meaning: 32 hex digits."""
        return hashlib.blake2b(_canonical(self.meaning).encode(), digest_size=16).hexdigest()

    @cached_property
    def reading_spec(self) -> str:
        """How replies are read, as canonical JSON: part of a trial's key."""
        return _canonical(self.meaning["reads"] | ({"code": self.code} if self.code else {}))

    @cached_property
    def _bindings(self) -> dict[str, list[tuple[str, Binding]]]:
        """Template → the places of it that an item fills, and what fills them."""
        bindings = {}
        for template, parts in self._parsed.items():
            names = dict.fromkeys(name for part in parts.values() for name in part.names)
            own = [name for name in names if not (self.batch and name == NUMBER)]
            bindings[template] = [(name, self._spec.bind.get(name) or Binding(field=name)) for name in own]
        return bindings

    def values(self, item: Item, template: str) -> dict[str, str]:
        """The item's texts, by the places of the template that they fill."""
        values = {}
        for name, binding in self._bindings[template]:
            value = _field_value(item, binding)
            values[name] = as_lines(keyed_sentences(value)) if binding.form == "sentences" else text_of(value)
        return values

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return (load_object, self.origin) if self.origin else super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return f"Judge({self.name!r}, {self.fingerprint})"


def _field_value(item: Item, binding: Binding) -> Any:
    if binding.form == "sentences":
        return sentences_value(item.fields, binding.field)
    return item.fields.get(binding.field)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
