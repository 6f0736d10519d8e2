"""Replies that are to be yes or no: the bare word, or the word in a place of the reply (`places`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from ..outcome import Malformed, Provenance, Reading, Reason, Scored
from .clean import unwrap, without_fences
from .json_text import word_of_object
from .places import SCORE_WORDS, Place, ReplyForm, all_places, read_places
from .reply_text import RESERVED, Echoes
from .words import Words

_WORDS = {"yes": True, "no": False}
_LONGEST_ALIAS = 60
_KEYS = ("answer", "verdict", "result", "decision")


def _of_yaml(value: Any) -> Any:
    """YAML reads a bare yes or no as true or false, which as a key can mean nothing else."""
    if isinstance(value, Mapping):
        for words in value.values():
            if isinstance(words, list) and any(isinstance(word, bool) for word in words):
                raise ValueError("an alias is read as true or false; quote it")
        return {
            {True: "yes", False: "no"}.get(key, key) if isinstance(key, bool) else key: words
            for key, words in value.items()
        }
    return value


class YesnoReads(ReplyForm):
    """Read a yes or no; `verdict` names the boolean field that yes makes true."""

    kind: Literal["yesno"]
    verdict: Annotated[str, Field(min_length=1)] = "correct"
    """The verdict's field, and the name of the score: true for yes."""
    aliases: Annotated[dict[Literal["yes", "no"], list[str]], BeforeValidator(_of_yaml)] = Field(default={})
    """Other words for yes and no, which count wherever the whole word is asked for."""
    bare_cut: bool = False
    """Whether a bare word counts although the endpoint says that the reply was cut: for a `max_tokens` of a few."""

    @model_validator(mode="after")
    def _sound(self) -> YesnoReads:
        seen = dict(_WORDS)
        for meaning, words in self.aliases.items():
            for word in words:
                text = word.strip().lower()
                if not any(map(str.isalnum, text)) or [*unwrap(text)] != [text] or len(text) > _LONGEST_ALIAS:
                    raise ValueError(f"aliases.{meaning}: {word!r} is empty, too long, or of more than words")
                if seen.setdefault(text, meaning == "yes") != (meaning == "yes"):
                    raise ValueError(f"aliases: {word!r} stands for yes and for no")
        return self

    @classmethod
    def optional_keys(cls) -> tuple[str, ...]:
        """Keys that are left out of the meaning where they are empty."""
        return (*super().optional_keys(), "aliases", "bare_cut")

    @cached_property
    def grammar(self) -> Words:
        """The literals, and the labels that they may stand behind."""
        named = {"yes": ["yes", *self.aliases.get("yes", ())], "no": ["no", *self.aliases.get("no", ())]}
        values = tuple((word, _WORDS[meaning]) for meaning, words in named.items() for word in words)
        return Words(values, (*RESERVED, *SCORE_WORDS, self.verdict, *self.verdict_labels))

    @property
    def verdict_types(self) -> dict[str, str]:
        """Verdict field → JSON type."""
        return {self.verdict: "boolean"}

    def response_schema(self) -> dict[str, Any] | None:
        """The published protocols ask for a bare word, so there is no object to ask for."""
        return None

    def strict(self, text: str) -> Scored | None:
        """The bare word; its case and the blanks around it are not asked for and do not matter."""
        word = text.strip().lower()
        return self._scored(_WORDS[word], "strict") if word in _WORDS else None

    def read_cut(self, text: str, echoes: Echoes) -> Reading:
        """What may be read of a reply that ran out of tokens: a closed object, a lead, or, if declared, a bare word."""
        if text.strip().startswith("{") and isinstance(whole := self._object(text), Scored):
            return whole
        if self.bare_cut and (found := self.strict(text)):
            return self._scored(found.verdict[self.verdict], "bare_cut")
        place = read_places(text, self.grammar, self, echoes, cut=True)
        return place if isinstance(place, Malformed) else self._scored(place.value, "tolerant:lead_cut", "cut")

    def places(self, text: str, echoes: Echoes) -> list[Place]:
        """Where in the reply verdicts stand."""
        return all_places(text, self.grammar, echoes)

    def tolerant(self, text: str, echoes: Echoes) -> Reading:
        """The word in a one-key object, or in a place."""
        if without_fences(text).strip().startswith(("{", "[")) and "[[" not in text:
            return self._object(without_fences(text))
        place = read_places(text, self.grammar, self, echoes)
        return place if isinstance(place, Malformed) else self._scored(place.value, f"tolerant:{place.stage}")

    def _object(self, text: str) -> Reading:
        word = word_of_object(text, (*_KEYS, self.verdict, *self.verdict_labels))
        if isinstance(word, Malformed):
            return word
        value = self.grammar.whole(word)
        if value is None:
            return Malformed(Reason.OTHER_VALUE, f"{word[:60]!r} is none of the words asked for")
        return self._scored(value, "tolerant:object")

    def _scored(self, value: bool, stage: str, *notes: str) -> Scored:
        return Scored({self.verdict: value}, Provenance(stage, notes))
