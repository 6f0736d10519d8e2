"""Replies that are to be `yes` or `no`.

Strict is the bare word. Tolerant is the word, or another that the judge declares, in a wrapper, in a one-key object, or
where `prose` finds it. All evidence must agree.

A yes or no in several lines or in prose.

The grammar is small on purpose: prose is where a hand-written grammar goes on failing, and a reply that is left unread
costs one more call. All evidence that is found must agree; nothing is taken because it comes first or last.
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

from ..outcome import Malformed, Provenance, Reading, Reason, Scored
from .clean import introduced, peel, plain, retracted, withdrawn, without_fences
from .json_text import JsonFault, load

_LINE_LENGTH = 200

_OPTIONS = r"(?:\s*\(\s*yes\s*(?:/|\||or)\s*no\s*\))?"
_LABEL = re.compile(
    rf"(?:(?:my|final|the)\s+){{0,2}}(?:answer|verdict|decision|judge?ment){_OPTIONS}\s*[:=]\s*(.*)", re.I
)
_EMPTY_LABEL = re.compile(
    r"^([*_#\t ]{0,6}(?:(?:my|final|the)\s){0,2}(?:answer|verdict|decision|judge?ment)[*_]{0,3}[:=][*_]{0,3})"
    r"\s{1,8}(?=\S)",
    re.I | re.M,
)
"""A label whose value is on the next line."""
_OTHER_LABEL = re.compile(
    r"(?:(?:my|final|the)\s+){0,2}(?:overall|conclusion|result|correct|final)\s*[:=]\s*(.*)", re.I
)
_STATED = re.compile(r"\b(?:answer|verdict|decision|judge?ment)\s+is\s*:?\s*[\"'“*]{0,3}(yes|no)\b", re.I)
_QUOTED = re.compile(r"^[>\"'“‘«「]")

_CONCLUDES = re.compile(r"\b(?:therefore|thus|hence|overall|in\s+conclusion|in\s+summary)\b[^.!?\n]{0,300}", re.I)

_LEAD = re.compile(r"\*{0,3}(yes|no)\b\*{0,3}\s?(?:[,.:;!]|—|–|-(?=\s))\*{0,3}\s+(?=\S)", re.I)
_LEAD_LOOSE = re.compile(r"\W{0,4}(yes|no)\b\W{0,3}[,.:;!—–-]", re.I)
_REASON_STARTS = frozenset(
    {"the", "this", "it", "because", "since", "as", "there", "its", "both", "response", "model", "answer", "all"}
)
_NO_FAULTS = re.compile(r"(?:there\s+(?:is|are)\s+)?no\s+(?:factual\s+)?(?:error|issue|problem)s?\.?", re.I)
_HEDGES = re.compile(
    r"\b(?:but|however|although|though|except|partial\w*|partly|mostly|maybe|perhaps|unless|might|could|would|unclear|unsure"
    r"|said|nor|yet|technically|strictly|spirit|otherwise|if|or|either)\b|[?\"“”]",
    re.I,
)
_NEGATES = re.compile(
    r"\b(?:not|never|incorrect\w*|wrong\w*|false|inaccurate|fails?|failed|lacks?|misses|missing|omits?|omitted|without|only"
    r"|cannot|contradict\w*|differ\w*|instead|unrelated|neither|none"
    r"|incomplete|irrelevant|unsupported|outdated|misleading|hallucinat\w*|fabricat\w*|errors?"
    r"|nothing|another|rather|vague|opposite|unable|refus\w*|deviat\w*|confus\w*|invent\w*|made\s+up)\b|n['’]t\b",
    re.I,
)
# `No, the response isn't wrong`: a fault denied is no reason for a no.
_DENIES_FAULT = re.compile(
    r"(?:\b(?:not|never|nothing|neither|none|without|cannot|zero|hardly|lacks)|n['’]t)\s+(?:\w+\s+){0,3}?(?:incorrect\w*|wrong\w*"
    r"|false|inaccura\w*|fail\w*|lack\w*|miss|missed|missing|omit\w*|omission\w*|contradict\w*|differ|different|differences?"
    r"|deviat\w*|incomplete|errors?|mistakes?|problems?|issues?|fault\w*|flaw\w*|nothing)\b",
    re.I,
)
_AFFIRMS = re.compile(
    r"\b(?:correctly|right|accurate\w*|true|perfect\w*|fine|good|great|equivalent|match\w*|contains?|includes?|same|agrees?"
    r"|identical|acceptable|exact\w*|(?:gives?|states?|conveys?|provides?|answers?)\s+the\s+(?:\w+\s+)?(?:answer|question)"
    r"|(?:is|are|was|were|be|seems|looks)\s+(?:\w+\s+)?correct|supported|complete)\b",
    re.I,
)
_STATEMENT = re.compile(
    r"\b(?:(?:the|this)\s+(?:candidate|response|answer|prediction|candidate['’]s\s+answer|(?:given|model|predicted)\s+answer)"
    r"|that|it)\s+is\s+(?P<not>not\s+(?=correct)|in(?=correct))?correct\s{0,3}[.!]",
    re.I,
)
_TURNS = re.compile(
    r"\b(?:but|however|although|though|except|partial\w*|partly|mostly|unless|unclear|unsure|not\s+sure|uncertain|technically|otherwise|nor)\b",
    re.I,
)
_DENIES = re.compile(
    r"(?:\b(?:is|are|was|were)(?:n['’]t|\s+not)\s+(?:\w+\s+)?(?:correct|right|accurate|equivalent|the\s+same|identical|true"
    r"|equal|supported|complete|given|mentioned|stated|included))\b"
    r"|\b(?:incorrect\w*|wrong\w*|inaccurate|false|mismatch\w*|omits?|omitted|lacks?|misses|missing|contradict\w*|differs?"
    r"|fails?|failed|instead|unrelated|incomplete|unsupported|cannot|never|without)\b"
    r"|\b(?:does|do|did)(?:n['’]t|\s+not)\s+(?!(?:matter|affect|change)\b)",
    re.I,
)
"""A plain denial; `the order does not matter` and `the only difference` are none."""


class Words:
    """The words that mean yes and no."""

    def __init__(self, by_meaning: Mapping[str, list[str]]) -> None:
        self._meanings = {word.strip().lower(): meaning for meaning, words in by_meaning.items() for word in words}
        self._patterns = {
            meaning: re.compile(
                rf"(?<!\w)(?:{'|'.join(re.escape(word.strip()) for word in words)})(?!\w)", re.IGNORECASE
            )
            for meaning, words in by_meaning.items()
        }

    def whole(self, text: str, quotes: bool = True) -> str | None:
        """`yes` or `no` where the text is nothing but one of their words, perhaps wrapped."""
        return self._meanings.get(peel(text, quotes=quotes).lower())

    def hold(self, meaning: str, text: str) -> bool:
        """Whether a word of this meaning stands in the text."""
        return self._patterns[meaning].search(text) is not None


def in_lines(text: str, words: Words) -> tuple[str, str] | Malformed:
    """(word, stage) of a reply in several lines or in prose."""
    lines = _EMPTY_LABEL.sub(r"\1 ", text).splitlines()
    lines = [line.strip() for line in lines if line.strip()]
    own: dict[int, tuple[str, str]] = {}
    against: set[str] = {match[1].lower() for match in _STATED.finditer(text)}
    for number, line in enumerate(lines):
        if len(line) > _LINE_LENGTH:
            continue
        bare = plain(line)
        quoted = _QUOTED.match(bare) is not None
        if quoted:
            bare = bare.lstrip("> ")
            bare = peel(bare, quotes=True)
        label = _LABEL.fullmatch(bare)
        other = _OTHER_LABEL.fullmatch(bare)
        given = next((match[1] for match in (label, other) if match), None)
        word = words.whole(bare if given is None else given, quotes=given is not None)
        if word is None:
            if label and not quoted:
                return Malformed(Reason.OTHER_VALUE if label[1].strip() else Reason.NO_VERDICT, repr(line[:80]))
        elif quoted or other:
            against.add(word)
        else:
            own[number] = (word, "label" if label else "line")
    given_words = {word for word, _ in own.values()}
    if not own:
        return _leading(text, words) if not against or _LEAD.match(text.strip()) else Malformed(Reason.NO_VERDICT)
    loose = _LEAD_LOOSE.match(lines[0])
    if loose and 0 not in own:
        against.add(loose[1].lower())
    if len(given_words | against) > 1:
        return Malformed(Reason.CONFLICT, "yes and no are both given as the answer")
    word = given_words.pop()
    speaks_against = _denies if all(kind == "label" for _, kind in own.values()) else _speaks_against
    if any(speaks_against(word, conclusion[0]) for conclusion in _CONCLUDES.finditer(text)):
        return Malformed(Reason.CONFLICT, "the conclusion may speak against the answer")
    last = len(lines) - 1
    if len(own) == len(lines) > 1:
        return word, "tolerant:repeated"
    if last in own and introduced("\n".join(lines[:last]), lax=own[last][1] == "label"):
        if (
            last
            and own[last][1] == "line"
            and not lines[last - 1].endswith(".")
            and words.hold(_opposite(word), lines[last - 1])
        ):
            return Malformed(Reason.CONFLICT, "the line before gives the other word")
        return word, f"tolerant:{own[last][1]}"
    if 0 in own:
        rest = "\n".join(lines[1:])
        if not words.hold(_opposite(word), rest) and not retracted(rest) and not (last in own and last):
            if last and speaks_against(word, rest):
                return Malformed(Reason.CONFLICT, "what follows the answer may speak against it")
            return word, f"tolerant:{own[0][1]}"
    return Malformed(
        Reason.NO_VERDICT, "the only yes or no may be a quotation, an answer to something else, or withdrawn"
    )


def _leading(text: str, words: Words) -> tuple[str, str] | Malformed:
    """`Yes, …` and `No. …` with a plain reason behind, which neither holds the other word nor speaks against it."""
    text = text.strip()
    lead = _LEAD.match(text)
    if not lead:
        return Malformed(Reason.NO_VERDICT)
    word, rest = lead[1].lower(), text[lead.end() :]
    if word == "yes" and _NO_FAULTS.fullmatch(rest):
        return word, "tolerant:lead"
    if (agreeing := _stated(word, rest)) is not None:
        return (word, "tolerant:lead") if agreeing else Malformed(Reason.CONFLICT, "the reason states the opposite")
    start = re.match(r"[A-Za-z'’]+", rest)
    doubtful = (
        start is None
        or not rest.rstrip("*_` )").endswith((".", "!"))
        or start[0].lower() not in _REASON_STARTS
        or words.hold("yes", rest)
        or words.hold("no", rest)
        or _HEDGES.search(rest) is not None
        or retracted(rest)
    )
    if doubtful:
        return Malformed(Reason.NO_VERDICT, "more than a plain reason follows the first word")
    if _speaks_against(word, rest):
        return Malformed(Reason.CONFLICT, "the reason may speak against the first word")
    return word, "tolerant:lead"


def _stated(word: str, rest: str) -> bool | None:
    """Whether the first sentence plainly states the verdict again, and nothing behind it is to the contrary.

    None where it does not: `The candidate is (not) correct.` is what counts as plain.
    """
    first = _STATEMENT.match(rest)
    if first is None:
        return None
    if (first["not"] is None) != (word == "yes"):
        return False
    behind = rest[first.end() :]
    if any((other["not"] is None) != (word == "yes") for other in _STATEMENT.finditer(behind)):
        return False
    doubtful = _TURNS.search(behind) or withdrawn(behind) or re.search(r"\b(?:yes|no)\b", behind, re.I)
    return None if doubtful or not rest.rstrip("*_` )\"”'").endswith((".", "!", "?")) else True


def _denies(word: str, reason: str) -> bool:
    """Whether the reason behind `Answer: …` plainly states the opposite; what it only implies is the judge's affair."""
    return _DENIES.search(reason) is not None if word == "yes" else _speaks_against(word, reason)


def _speaks_against(word: str, reason: str) -> bool:
    negates = _NEGATES.search(reason) is not None
    if word == "yes":
        return negates
    return _DENIES_FAULT.search(reason) is not None or (not negates and _AFFIRMS.search(reason) is not None)


def _opposite(word: str) -> str:
    return "no" if word == "yes" else "yes"


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
    """The verdict's field, and the name of the score: true for yes."""
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
