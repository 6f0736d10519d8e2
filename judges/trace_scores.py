"""Scores of a retrieval-augmented answer out of the sentence keys that a judge names (TRACe).

The shares are those of the published data: |R| and |U| are the lengths of the lists as given, duplicates and unknown
keys among them; only the overlap is one of sets. What a judge names and the item does not have, names twice, spells
otherwise or contradicts changes no rule: it is counted and noted. Keys are compared leniently, and only where a key as
written is none of the item's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .item import Item
from .outcome import Malformed, Reason
from .reply_forms import ObjectReads, Reads
from .scoring import Scale
from .sentence_keys import keyed_sentences, sentences_value

_AROUND = " \t\r\n[](){}<>\"'`*“”‘’«»:,;"
_TEXTS = {"type": "array", "items": {"type": "string"}}


class Trace(BaseModel):
    """Which fields of the verdict hold what, and which field of the item holds the sentences."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["trace"]
    relevant: str
    """Field of the keys of the relevant sentences: R."""
    utilized: str
    """Field of the keys of the sentences that the answer uses: U."""
    adherent: str
    """Field that says whether the answer as a whole is supported."""
    support: str
    """Field of the entries {sentence_key, is_supported, explanation}."""
    sentences: str = "documents"
    """Field of the item that holds the keyed sentences."""
    example_keys: list[str] = Field(default=[])
    """Keys in the prompt's own example of a reply."""

    def check(self, reads: Reads) -> None:
        """ValueError where the fields are not what they must be in the judge's reading."""
        if not isinstance(reads, ObjectReads):
            raise ValueError("scoring: trace needs a reading of the kind object")
        properties = reads.properties
        for role, name, needed in (
            ("relevant", self.relevant, _TEXTS),
            ("utilized", self.utilized, _TEXTS),
            ("adherent", self.adherent, {"type": "boolean"}),
            ("support", self.support, {"type": "array"}),
        ):
            if name not in reads.verdict:
                raise ValueError(f"scoring.{role}: {name!r} is no field of the verdict")
            if not _agrees(properties[name], needed):
                raise ValueError(f"scoring.{role}: {name!r} must be of the type {_type_name(needed)}")
        entry = properties[self.support]["items"]
        for name, kind in (("sentence_key", "string"), ("is_supported", "boolean")):
            if entry.get("properties", {}).get(name, {}).get("type") != kind or name not in entry.get("required", []):
                raise ValueError(f"scoring.support: the entries of {self.support!r} must require {name} ({kind})")

    def scales(self) -> dict[str, Scale]:
        """Three shares, and yes or no. A share above 1 (keys given twice) is kept, and noted."""
        return {
            "relevance": Scale(binary=False),
            "utilization": Scale(binary=False),
            "completeness": Scale(binary=False),
            "adherence": Scale(binary=True),
        }

    def scores(self, verdict: Mapping[str, Any], item: Item) -> dict[str, float]:
        """|R|/|D|, |U|/|D|, |R∩U|/|R| (1.0 where R is empty), and whether the whole answer is supported."""
        keys = self._keys(item)
        relevant, utilized = (list(map(keys.resolve, verdict[name])) for name in (self.relevant, self.utilized))
        both = set(relevant) & set(utilized)
        return {
            "relevance": len(relevant) / len(keys.own),
            "utilization": len(utilized) / len(keys.own),
            "completeness": len(both) / len(relevant) if relevant else 1.0,
            "adherence": float(verdict[self.adherent]),
        }

    def notes(self, verdict: Mapping[str, Any], item: Item) -> tuple[str, ...] | Malformed:
        """What is odd about the keys, `code:count` each; Malformed where the reply repeats the prompt's example."""
        keys = self._keys(item)
        cited = [*verdict[self.relevant], *verdict[self.utilized]]
        support = verdict[self.support]
        relevant, utilized = (list(map(keys.resolve, verdict[name])) for name in (self.relevant, self.utilized))
        examples = sum(keys.is_example(key) for key in cited)
        if cited and examples == len(cited):
            return Malformed(Reason.SCHEMA_ECHO, "every key is one of the prompt's own example")
        counts: Counter[str] = Counter()
        for key in [*cited, *(entry["sentence_key"] for entry in support)]:
            counts.update(keys.spelling_notes(key))
        counts["unknown_keys"] = sum(keys.resolve(key) not in keys.own for key in cited)
        counts["example_keys"] = examples
        counts["duplicate_keys"] = len(cited) - len(set(relevant)) - len(set(utilized))
        counts["utilized_not_relevant"] = len(set(utilized) - set(relevant))
        self._count_support(counts, verdict, keys, {*relevant, *utilized})
        notes = [f"{code}:{count}" for code, count in counts.items() if count]
        notes += [
            f"above_one:{name}"
            for name, of in (("relevance", relevant), ("utilization", utilized))
            if len(of) > len(keys.own)
        ]
        notes += [] if relevant else ["nothing_relevant"]
        if support and not verdict[self.adherent] and all(entry["is_supported"] for entry in support):
            notes.append("sentences_supported_overall_not")
        return tuple(notes)

    def _count_support(self, counts: Counter[str], verdict: Mapping[str, Any], keys: _Keys, cited: set[str]) -> None:
        entries: dict[str, list[bool]] = {}
        for entry in verdict[self.support]:
            entries.setdefault(keys.resolve(entry["sentence_key"]), []).append(entry["is_supported"])
            counts["support_unexplained"] += "explanation" not in entry
        counts["support_missing"] = len(cited - set(entries))
        counts["support_unknown"] = sum(len(supports) for key, supports in entries.items() if key not in keys.own)
        counts["support_repeated"] = sum(len(supports) - 1 for supports in entries.values())
        counts["support_conflict"] = sum(len(set(supports)) > 1 for supports in entries.values())
        if verdict[self.adherent]:
            counts["supported_overall_not_sentences"] = sum(supports.count(False) for supports in entries.values())

    def _keys(self, item: Item) -> _Keys:
        own = [key for key, _ in keyed_sentences(sentences_value(item.fields, self.sentences))]
        return _Keys(own, self.example_keys)


class _Keys:
    """The keys of an item's sentences, and which of them a judge means by what it writes."""

    def __init__(self, own: Iterable[str], examples: Iterable[str]) -> None:
        self.own = frozenset(own)
        self._examples = frozenset(map(_fold, examples))

    @cached_property
    def _lenient(self) -> list[tuple[Callable[[str], str], dict[str, list[str]]]]:
        """Ways to compare, the stricter first; each with the item's keys by their form."""
        ways: list[tuple[Callable[[str], str], dict[str, list[str]]]] = []
        for form in (_strip, _fold):
            index: dict[str, list[str]] = {}
            for key in self.own:
                index.setdefault(form(key), []).append(key)
            index.pop("", None)
            ways.append((form, index))
        return ways

    def resolve(self, written: str) -> str:
        """The item's key; what is written, where it is none of them or could be several."""
        if written in self.own:
            return written
        for form, index in self._lenient:
            if len(fitting := index.get(form(written), [])) == 1:
                return fitting[0]
        return written

    def spelling_notes(self, written: str) -> list[str]:
        """How the key as written differs from the item's key that is meant."""
        key = self.resolve(written)
        if key == written or key not in self.own:
            return []
        core, around = _peel(written)
        own_core, own_around = _peel(key)
        notes = ["key_case"] if core != own_core else []
        notes += ["key_dot"] if ("." in around) != ("." in own_around) else []
        notes += ["key_wrapped"] if set(around) - {"."} != set(own_around) - {"."} else []
        return notes or ["key_wrapped"]

    def is_example(self, written: str) -> bool:
        """Whether this is a key of the prompt's example, and none of the item's."""
        return self.resolve(written) not in self.own and _fold(written) in self._examples


def _peel(key: str) -> tuple[str, str]:
    """The key without what stands around it and without dots at its end; and what was taken away."""
    core = key
    while (shorter := core.strip(_AROUND).rstrip(".")) != core:
        core = shorter
    start = key.find(core)
    return core, key[:start] + key[start + len(core) :]


def _strip(key: str) -> str:
    return _peel(key)[0]


def _fold(key: str) -> str:
    return _strip(key).casefold()


def _agrees(schema: Mapping[str, Any], needed: Mapping[str, Any]) -> bool:
    if schema["type"] != needed["type"]:
        return False
    return "items" not in needed or _agrees(schema["items"], needed["items"])


def _type_name(needed: Mapping[str, Any]) -> str:
    return "array of strings" if "items" in needed else str(needed["type"])
