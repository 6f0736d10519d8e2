"""What a reply says of the labels without naming one: a tie, `the second is better`, `the response is wrong`.

Hides how such an opinion is put. It is never a verdict: it only speaks against a label that is given beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .clean import folded

_NOUNS = r"answer|verdict|decision|judge?ment|choice|result|conclusion|winner"
_PRAISE = (
    r"(?:(?:is|was|seems|would\s+be)\s+(?:the\s+|a\s+|clearly\s+|slightly\s+|much\s+|definitely\s+){0,2}"
    r"(?:better|best|superior|preferable|preferred|winner|correct|right)\b|wins\b)"
)
_PREFERS = r"(?:prefer|choose|pick|select|favou?r|go\s+with|vote\s+for)"
_STATES = rf"(?:{_NOUNS})(?:\s+(?:is|was|should\s+be|would\s+be)(?:\s+therefore)?|[*_]{{0,3}}\s?[:=][*_]{{0,3}})"
_QUOTED = re.compile(r"\"[^\"\n]{0,500}\"|“[^”\n]{0,500}”")
_TIE = re.compile(
    r"\b(?:it|this|there)\s+(?:is|was|would\s+be)\s+(?:a\s+(?:tie|draw)|(?:no|not\s+a)\s+(?:clear\s+)?(?:winner|difference))\b|\btied\b"
    r"|\b(?:they|both|the\s+two|these)(?:\s+\w+){0,2}\s+(?:are|is|were)\s+(?:about\s+)?(?:equal|equivalent|the\s+same|tied)\b"
    r"|\bare\s+equally\s+\w+(?=\W*$|\s*[.,;\n])|\bneither(?:\s+\w+){0,3}\s+(?:is|was|deserves?|wins?)\b(?!\s+(?:perfect|complete))"
    r"|\b(?:cannot|can['’]t|could\s+not|hard\s+to|difficult\s+to|impossible\s+to)\s+(?:say|tell|decide|choose)\b",
    re.I | re.M,
)
_TIE_LABEL = re.compile(r"\b(?:tie[ds]?|draw|equal\w*|same|neither|none|both|unknown|undecided|c)\b", re.I)
_BETTER = re.compile(
    r"\b(?P<place>first|former|second|latter|last|other)(?:\s+(?:one|answer|response|output|option|assistant|candidate|text|reply))?"
    r"\s+(?:(?:is|was|seems|would\s+be)\s+(?P<not>not\s+|n['’]t\s+)?(?:the\s+|a\s+|clearly\s+|slightly\s+|much\s+|definitely\s+|actually\s+)*"
    r"(?:(?P<good>better|best|superior|preferable|preferred|winner|stronger)|(?P<bad>worse|worst|inferior|weaker|loser))|(?P<wins>wins)|loses)\b",
    re.I,
)
_PREFERENCE = re.compile(
    r"\b(?P<place>first|former|second|latter|last|other)\b[^.!?\n]{0,60}\b(?:better|best|wins?|superior|preferable|stronger|more\s+\w+)\b",
    re.I,
)
_IT_IS_WORSE = re.compile(
    r"\b(?:it|this|that)(?:\s+(?:one|answer|response|output))?\s+(?:(?:is|was)\s+(?:the\s+)?(?:one\s+(?:to\s+reject|that\s+(?:fails|loses))|worse|worst"
    r"|inferior|weaker|loser|not\s+(?:the\s+)?(?:better|best))|loses|fails)\b|\b(?:above|below|other\s+one)\b|\bboth\b[^.\n]*\bwin\b",
    re.I,
)
_PLACES = {"first": 0, "former": 0, "second": 1, "latter": 1}
_TRUE = frozenset({"correct", "right", "true", "accurate", "yes"})
_FALSE = frozenset({"incorrect", "wrong", "false", "inaccurate", "no"})
_SUBJECT = (
    r"(?<!reference )(?<!gold )(?<!correct )(?<!expected )(?<!target )(?<!true )"
    r"(?:response|(?:final\s+)?answer|prediction"
    r"|repl(?:y|ies)"
    r"|claim|candidate|output|student|model|it|this|that|he|she)"
)
_ADVERBS = (
    r"(?:(?:therefore|thus|clearly|indeed|actually|simply|also|fully|completely|entirely|factually|plainly|really|in\s+fact|hence)\s+)"
    r"{0,3}"
)
_END = r"(?=\W*(?:\Z|\n)|\s*[.,;!?)\n]|\s+(?:because|since|as|so|and|with|according|here)\b)"
_IS = re.compile(
    rf"\b{_SUBJECT}\s*(?:is|was|['’]s)\s*(?P<not>n['’]t\s+|not\s+)?{_ADVERBS}"
    rf"(?:(?P<true>{'|'.join(sorted(_TRUE - {'yes'}))})"
    rf"|(?:{'|'.join(sorted(_FALSE - {'no'}))})){_END}",
    re.I,
)
_GIVES = re.compile(
    rf"\b{_SUBJECT}\s+(?:gives?|gave|names?|named|states?|has|contains|is|was)\s+(?P<not>(?:not\s+(?:supported|backed|confirmed)\s+by"
    r"|(?:the|a|an)\s+(?:wrong|incorrect))\b|n['’]t\s+(?:supported|backed)\s+by\b)(?P<true>)",
    re.I,
)
_PAIR = re.compile(
    r"\b(?:the\s+two|both)(?:\s+\w+)?\s+(?:answers?|values?|results?)\s+(?P<not>(?:do\s+not|don['’]t|are\s+not|aren['’]t)\s+)?(?:are\s+)?"
    rf"{_ADVERBS}(?:(?P<true>match|agree|(?:the\s+)?same|equivalent|equal|identical)|differ|different)\b",
    re.I,
)
_REFERENCE = r"(?:reference|gold(?:en)?|expected|target|correct|ground|true)"
_AGREES = re.compile(
    rf"\b{_SUBJECT}\s+(?P<not>(?:does\s+not|doesn['’]t|did\s+not|didn['’]t|fails\s+to|never)\s+)?{_ADVERBS}"
    rf"(?:(?P<true>match(?:es)?|agrees?\s+with|equals?|is\s+consistent\s+with)|contradicts?|disagrees?\s+with|differs?\s+from)\s+(?:the\s+|with\s+)?{_REFERENCE}\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class StancePatterns:
    """How a sentence says of a named label that it is the one, that it is not, or that it is worse."""

    stated: re.Pattern[str]
    denied: re.Pattern[str]
    worse: re.Pattern[str]

    @classmethod
    def of(cls, names: str) -> StancePatterns:
        """The patterns for the labels that the pattern `names` finds; their groups are labels."""
        label = rf"({names})[\"'”]?\s+"
        return cls(
            re.compile(
                rf"{label}{_PRAISE}|\b(?:{_STATES}|{_PREFERS})\s*:?\s*[\"'“*\[]{{0,3}}({names})",
                re.I,
            ),
            re.compile(
                rf"{label}(?:(?:is|was)(?:\s+not|n['’]t|\s+(?:worse|inferior|wrong|incorrect))\b|loses\b)"
                rf"|\bnot\s+[\"'“*\[]{{0,3}}({names})",
                re.I,
            ),
            re.compile(rf"{label}(?:(?:is|was)\s+(?:the\s+)?(?:worse|worst|inferior)\b|loses\b)", re.I),
        )


def speaks_against(label: str, text: str, names: Mapping[str, Sequence[str]]) -> bool:
    """Whether `text` holds an opinion that cannot go with `label`, one of `names`: label → all ways to write it."""
    text = _QUOTED.sub(" ", text)
    if _TIE.search(text) and not any(_TIE_LABEL.search(name) for each in names.values() for name in each):
        truths = [_truth(each) for each in names.values()]
        if all(truth is None for truth in truths):
            return True
    places = list(names)
    for found in _BETTER.finditer(text):
        good = bool(found["good"] or found["wins"]) is not bool(found["not"])
        place = _PLACES.get(found["place"].lower())
        if len(places) != 2 or place is None or (places[place] == label) is not good:
            return True
    truths_of = {name: _truth(each) for name, each in names.items()}
    if not {True, False} & set(truths_of.values()):
        return False
    return any(
        ((found["true"] is not None) is (found["not"] is None)) is not truths_of[label]
        for pattern in (_IS, _AGREES, _PAIR, _GIVES)
        for found in pattern.finditer(text)
    )


def prefers_another(label: str, after: str, names: Sequence[str]) -> bool:
    """Whether the text after a label prefers what is not that label, or rejects it."""
    if _IT_IS_WORSE.search(after):
        return True
    places = list(names)
    for found in _PREFERENCE.finditer(after):
        place = _PLACES.get(found["place"].lower())
        if len(places) != 2 or place is None or places[place] != label:
            return True
    return False


def _truth(names: Sequence[str]) -> bool | None:
    """Whether a label says that something is right, or that it is wrong; None where it says neither, or both."""
    words = {folded(name) for name in names}
    return bool(words & _TRUE) if bool(words & _TRUE) is not bool(words & _FALSE) else None
