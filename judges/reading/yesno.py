"""Replies that are to be yes or no: the bare word, or the word in a place of the reply (`places`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from ..outcome import Reading, Scored
from .clean import unwrap
from .reply_text import RESERVED, SCORE_WORDS, Echoes
from .words import WordReads, Words

_WORDS = {"yes": True, "no": False}
_LONGEST_ALIAS = 60


def _of_yaml(value: Any) -> Any:
    """YAML reads a bare yes or no as true or false, which as a key can mean nothing else."""
    if not isinstance(value, Mapping):
        return value
    if any(isinstance(word, bool) for words in value.values() if isinstance(words, list) for word in words):
        raise ValueError("an alias is read as true or false; quote it")
    return {("yes" if key else "no") if isinstance(key, bool) else key: words for key, words in value.items()}


class YesnoReads(WordReads):
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
        aliases = {word: _WORDS[meaning] for meaning, words in self.aliases.items() for word in words}
        return Words(_WORDS | aliases, (*RESERVED, *SCORE_WORDS, self.verdict, *self.verdict_labels))

    @property
    def verdict_types(self) -> dict[str, str]:
        """Verdict field → JSON type."""
        return {self.verdict: "boolean"}

    def strict(self, text: str) -> Scored | None:
        """The bare word; its case and the blanks around it are not asked for and do not matter."""
        word = text.strip().lower()
        return self.scored(_WORDS[word], "strict") if word in _WORDS else None

    def read_cut(self, text: str, echoes: Echoes) -> Reading:
        """What may be read of a reply that ran out of tokens: a closed object, a lead, or, if declared, a bare word."""
        if self.bare_cut and (found := self.strict(text)):
            return self.scored(found.verdict[self.verdict], "bare_cut")
        return super().read_cut(text, echoes)
