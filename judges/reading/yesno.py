"""Replies that are to be `yes` or `no`.

The grammar is small on purpose: prose is where a hand-written grammar goes on failing, and a reply that is left unread
costs one more call. All evidence that is found must agree; nothing is taken because it comes first or last.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from judges.outcome import Malformed, Provenance, Reading, Reason, Scored

from .clean import introduced, peel, plain, retracted, without_fences
from .strict_json import JsonFault, load

_WORDS = {"yes": True, "no": False}
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
_TAG = re.compile(r"<(answer|verdict|result|decision|judge?ment)>\s*(\w{1,10})\s*</\1>", re.I)
_KEYS = ("answer", "verdict", "result", "decision")
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


class YesnoReads(BaseModel):
    """Read a yes or no; `verdict` names the boolean field that yes makes true."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["yesno"]
    verdict: Annotated[str, Field(min_length=1)] = "correct"

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
        """A cut-off `yes` may have been going on: there is no reading of a reply that ran out of tokens."""
        return None

    def tolerant(self, text: str) -> Reading:
        """The word in a wrapper, in a one-key object, on a label line, alone on a line, or leading a plain reason."""
        word = peel(text, quotes=True).lower()
        if word in _WORDS:
            return self._scored(word, "tolerant:wrapped")
        tag = _TAG.fullmatch(text.strip())
        if tag and tag[2].lower() in _WORDS:
            return self._scored(tag[2].lower(), "tolerant:tag")
        if without_fences(text).strip().startswith(("{", "[")):
            return self._object(without_fences(text))
        found = _in_lines(text)
        return found if isinstance(found, Malformed) else self._scored(*found)

    def _object(self, text: str) -> Reading:
        try:
            value = load(text)
        except JsonFault as fault:
            return Malformed(fault.reason, str(fault))
        if isinstance(value, dict) and len(value) == 1:
            key, word = next(iter(value.items()))
            if key.strip().lower() in _KEYS and isinstance(word, str) and word.strip().lower() in _WORDS:
                return self._scored(word.strip().lower(), "tolerant:object")
        return Malformed(Reason.NO_VERDICT, "an object without one yes or no under a known key")

    def _scored(self, word: str, stage: str) -> Scored:
        return Scored({self.verdict: _WORDS[word]}, Provenance(stage))


def _in_lines(text: str) -> tuple[str, str] | Malformed:
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
        word = peel((label or other)[1] if label or other else bare, quotes=bool(label or other)).lower()  # type: ignore[index]
        if word not in _WORDS:
            if label and not quoted:
                return Malformed(Reason.OTHER_VALUE if word else Reason.NO_VERDICT, repr(line[:80]))
        elif quoted or other:
            against.add(word)
        else:
            own[number] = (word, "label" if label else "line")
    words = {word for word, _ in own.values()}
    if not own:
        return _leading(text) if not against or _LEAD.match(text.strip()) else Malformed(Reason.NO_VERDICT)
    loose = _LEAD_LOOSE.match(lines[0])
    if loose and 0 not in own:
        against.add(loose[1].lower())
    if len(words | against) > 1:
        return Malformed(Reason.CONFLICT, "yes and no are both given as the answer")
    word = words.pop()
    if any(_speaks_against(word, conclusion[0]) for conclusion in _CONCLUDES.finditer(text)):
        return Malformed(Reason.CONFLICT, "the conclusion may speak against the answer")
    last = len(lines) - 1
    if last in own and introduced("\n".join(lines[:last]), lax=own[last][1] == "label"):
        return word, f"tolerant:{own[last][1]}"
    if 0 in own:
        rest = "\n".join(lines[1:])
        if not _holds(_opposite(word), rest) and not retracted(rest) and not (last in own and last):
            if last and _speaks_against(word, rest):
                return Malformed(Reason.CONFLICT, "what follows the answer may speak against it")
            return word, f"tolerant:{own[0][1]}"
    return Malformed(
        Reason.NO_VERDICT, "the only yes or no may be a quotation, an answer to something else, or withdrawn"
    )


def _leading(text: str) -> tuple[str, str] | Malformed:
    """`Yes, …` and `No. …` with a plain reason behind, which neither holds the other word nor speaks against it."""
    text = text.strip()
    lead = _LEAD.match(text)
    if not lead:
        return Malformed(Reason.NO_VERDICT)
    word, rest = lead[1].lower(), text[lead.end() :]
    if word == "yes" and _NO_FAULTS.fullmatch(rest):
        return word, "tolerant:lead"
    start = re.match(r"[A-Za-z'’]+", rest)
    doubtful = (
        start is None
        or not rest.rstrip("*_` )").endswith((".", "!"))
        or start[0].lower() not in _REASON_STARTS
        or _holds("yes", rest)
        or _holds("no", rest)
        or _HEDGES.search(rest) is not None
        or retracted(rest)
    )
    if doubtful:
        return Malformed(Reason.NO_VERDICT, "more than a plain reason follows the first word")
    if _speaks_against(word, rest):
        return Malformed(Reason.CONFLICT, "the reason may speak against the first word")
    return word, "tolerant:lead"


def _speaks_against(word: str, reason: str) -> bool:
    negates = _NEGATES.search(reason) is not None
    if word == "yes":
        return negates
    return _DENIES_FAULT.search(reason) is not None or (not negates and _AFFIRMS.search(reason) is not None)


def _opposite(word: str) -> str:
    return "no" if word == "yes" else "yes"


def _holds(word: str, text: str) -> bool:
    return re.search(rf"\b{word}\b", text, re.IGNORECASE) is not None
