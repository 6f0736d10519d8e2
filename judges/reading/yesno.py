"""Replies that are to be `yes` or `no`.

Strict is the bare word. Tolerant is the word, or another that the judge declares, in a wrapper, in a one-key object, or
where `prose` finds it. All evidence must agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from judges.outcome import Malformed, Provenance, Reading, Reason, Scored

from .clean import peel, without_fences
from .prose import Words, in_lines
from .strict_json import JsonFault, load

_WORDS = {"yes": True, "no": False}
_LONGEST_ALIAS = 60

_TAG = re.compile(r"<(answer|verdict|result|decision|judge?ment)>\s*(\w{1,10})\s*</\1>", re.I)
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


class YesnoReads(BaseModel):
    """Read a yes or no; `verdict` names the boolean field that yes makes true."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["yesno"]
    verdict: Annotated[str, Field(min_length=1)] = "correct"
    aliases: Annotated[dict[Literal["yes", "no"], list[str]], BeforeValidator(_of_yaml)] = {}
    """Other words for yes and no, which count wherever the whole word is asked for."""
    bare_cut: bool = False
    """Whether a bare word counts although the endpoint says that the reply was cut: for a `max_tokens` of a few."""

    @model_validator(mode="after")
    def _sound(self) -> YesnoReads:
        seen = dict(_WORDS)
        for meaning, words in self.aliases.items():
            for word in words:
                folded = word.strip().lower()
                if (
                    not any(map(str.isalnum, folded))
                    or peel(folded, quotes=True) != folded
                    or len(folded) > _LONGEST_ALIAS
                ):
                    raise ValueError(f"aliases.{meaning}: {word!r} is empty, too long, or of more than words")
                if seen.setdefault(folded, meaning == "yes") != (meaning == "yes"):
                    raise ValueError(f"aliases: {word!r} stands for yes and for no")
        return self

    @model_serializer(mode="wrap")
    def _dump(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Only where they are set: a judge without them means what it meant before there were such things.
        return {key: value for key, value in dump(self).items() if value or key in ("kind", "verdict")}

    @cached_property
    def _words(self) -> Words:
        return Words({"yes": ["yes", *self.aliases.get("yes", ())], "no": ["no", *self.aliases.get("no", ())]})

    @property
    def verdict_types(self) -> dict[str, str]:
        """Verdict field → JSON type."""
        return {self.verdict: "boolean"}

    def response_schema(self) -> dict[str, Any] | None:
        """The published protocols ask for a bare word, so there is no object to ask for."""
        return None

    def strict(self, text: str) -> Scored | None:
        """The bare word; its case and the blanks around it are not asked for and do not matter."""
        return self._scored(text.strip().lower(), "strict") if text.strip().lower() in _WORDS else None

    def complete(self, text: str) -> Scored | None:
        """A closed object is whole. A cut-off `yes` may have been going on: it is read only if the judge says so."""
        if text.strip().startswith("{") and isinstance(whole := self._object(text), Scored):
            return whole
        found = self.strict(text) if self.bare_cut else None
        return self._scored(text.strip().lower(), "bare_cut") if found else None

    def tolerant(self, text: str) -> Reading:
        """The word in a wrapper, in a one-key object, on a label line, alone on a line, or leading a plain reason."""
        if word := self._words.whole(text):
            return self._scored(word, "tolerant:wrapped")
        tag = _TAG.fullmatch(text.strip())
        if tag and (word := self._words.whole(tag[2])):
            return self._scored(word, "tolerant:tag")
        if without_fences(text).strip().startswith(("{", "[")):
            return self._object(without_fences(text))
        found = in_lines(text, self._words)
        return found if isinstance(found, Malformed) else self._scored(*found)

    def _object(self, text: str) -> Reading:
        try:
            value = load(text)
        except JsonFault as fault:
            return Malformed(fault.reason, str(fault))
        if isinstance(value, dict) and len(value) == 1:
            key, word = next(iter(value.items()))
            if key.strip().lower() in _KEYS and isinstance(word, str) and (found := self._words.whole(word)):
                return self._scored(found, "tolerant:object")
        return Malformed(Reason.NO_VERDICT, "an object without one yes or no under a known key")

    def _scored(self, word: str, stage: str) -> Scored:
        return Scored({self.verdict: _WORDS[word]}, Provenance(stage))
