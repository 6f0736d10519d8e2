"""What a judge says before or after a verdict, and whether it leaves the verdict as it stands.

Hides the many ways to take a verdict back, to rescale it, to reorder a list or to say that somebody else asked for it.
They cannot all be listed, so that what stands after a verdict must look like a reason: whole sentences about what is
judged, with no other number that could be a score. Whatever else it may be is a doubt, and costs one more call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .clean import plain
from .score_scale import WORDS

_WORD_NUMBERS = "|".join(word for word in WORDS if word != "one")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"”)]{0,2}[ \t]+(?=\S)|\n+")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_LEAD = re.compile(
    r"\W{0,4}(?:(?:brief|short|my)[ \t]+)?(?:reason(?:ing|s)?|explanations?|rationale|justifications?|evaluation"
    r"|comments?|notes?|feedback|analysis|why)\W{0,4}[:\n-]\W{0,4}",
    re.I,
)
"""`Reason:` ahead of the reason."""
_FEWEST_WORDS = 3
_AHEAD = 200
"""So far ahead of a number stands what it is the number of."""
_JUDGED = re.compile(
    r"\b(?:answer\w*|responses?|repl(?:y|ies)|questions?|assistants?|items?|outputs?|candidates?|students?|models?|references?"
    r"|gold|target|predictions?|explanations?|it|its|both|each|all|first|second|facts?|details?|instructions?|claims?"
    r"|contradict\w*|match\w*|correct\w*|incorrect\w*|accura\w*|inaccura\w*|complet\w*|cover\w*|omit\w*|miss\w*)\b",
    re.I,
)
"""A reason speaks of one of these."""
_OPENS = re.compile(
    r"(?:actually|edit(?:ed)?|oops|rather|make|or|no|nope|not|correction|p\.?\s?s\b|well|hm+|sorry|wait|strike|scratch|delete|swap"
    r"|exchange|reverse|double|halve|multiply|divide|subtract|plus|minus|perhaps|maybe|probably|possibly|could|would|should"
    r"|let|call|change|read|treat|never|nothing|just|only|unless|otherwise|update|final)\b",
    re.I,
)
"""A sentence that opens so corrects what stands before it, or gives an order."""
_TURNS = re.compile(
    r"(?:however|but|although|though|yet|still|nevertheless|nonetheless|except|if|when|were|had|on\s+the\s+other\s+hand|instead"
    r"|finally|better|provided|providing|assuming|supposing|and|then|so|as|because|for|in|at|by|is|was|with)\b",
    re.I,
)
"""The first sentence after a verdict that opens so speaks of the verdict."""
_PERSON = re.compile(r"\b(?:I|me|my|mine|myself|we|us|you)\b(?!['’]?\w)|\bI['’]|\b(?:You|We|My)\b")
_SCALE = re.compile(
    rf"\bon\s+(?:a|the)\s+(?:[\w-]+\s+){{0,2}}scale\b|\bscale\s+(?:of|from|is|was)\s+(?:[0-9]|{_WORD_NUMBERS}|one\b)"
    rf"|(?:[0-9]|\b(?:{_WORD_NUMBERS}))[ -]?point\b|[0-9]\s?%|\bper\s?cent\b"
    rf"|(?:[0-9]|\b(?:{_WORD_NUMBERS}|one)) stars?\b"
    r"|\bdifferent\s+scale\b|\brescal\w*",
    re.I,
)
_OUT_OF = re.compile(
    rf"(?:/|\bout\s+of)\s{{0,3}}(?:an?\s+)?(?:possible\s+)?(?P<most>[0-9]+(?:\.[0-9]+)?|{_WORD_NUMBERS})\b", re.I
)
_ORDER = re.compile(
    r"\brevers(?:ed?|es|ing)\b|\bswap\w*|\bbackwards?\b|\bvice\s+versa\b|\bother\s+way\b|\binvert\w*|\bswitched\b|\bexchanged?\s+the\b"
    r"|\b(?:other|opposite|inverse|wrong|different|descending|ascending)\s+order\b|\border\s+of\s+the\s+(?:scores|questions|items|list)\b"
    r"|\b(?:first|second|third|last|former|latter)\b(?:\s\w+){0,2}\s(?:is|are|comes?|belongs?|refers?|stands?|goes|means)\b"
    r"(?:\s(?:for|to|the|of))*\s(?:first|second|third|last|other|former|latter)\b",
    re.I,
)
_MEASURE = r"(?:scores?|ratings?|grades?|numbers?|marks?|verdicts?|choices?)"
_GRADES = r"(?:scores?|ratings?|grades?|marks?|verdicts?|choices?)"
_UNSETTLED = re.compile(
    r"\btoo\s+(?:high|low|generous|harsh|lenient|strict|good|bad)\b(?=\W*$|\s*[,;])|\bplaceholders?\b|\bdummy\b|\btbd\b|^\W*th[ia][st]\s+number\b"
    rf"|\b(?:this|that|these|those|the|true|real|actual|right|proper|fair)\s+(?:\w+\s+)?{_GRADES}\s+(?:is|are|was|were|should|would"
    r"|could|might|may|must|has|have|needs?|comes?|stands?|refers?)\b"
    rf"|\b(?:should|would|could|might|ought\s+to|must)\s+(?:\w+\s+)?(?:be|get|have|receive|score|rate|rank)\s+(?:\w+\s+)?"
    r"(?:lower|higher|less|more|better|worse|equal|the\s+same)\b(?=\W*$|\s*[,;]|\s+than\s+(?:that|this)\b)"
    r"|\b(?:deserves?|merits?|worth)\s+(?:\w+\s+)?(?:less|more|lower|higher|better|worse)\b",
    re.I,
)
_MADE_TO = re.compile(
    r"\b(?:demand(?:s|ed|ing)|insist(?:s|ed)|instruct(?:s|ed)|told|tells|orders?\s+me|forc(?:es|ed)|dictat\w+|compelled)\b"
    r"|\b(?:request(?:s|ed)|ask(?:s|ed)|want(?:s|ed)|prompt(?:s|ed))\s+(?:by|me|this|that|it|so|for\s+(?:this|that|it))\b"
    r"|\b(?:suggest(?:s|ed)|claim(?:s|ed)|propos(?:es|ed))\s+(?:by|me|this|so)\b"
    r"|^\W*as\s+(?:requested|asked|demanded|instructed|told|ordered|suggested)\b",
    re.I,
)
_SPEAKS = re.compile(
    r"\b(?:says?|said|asks?|asked|order(?:s|ed)|instruct\w*|wr(?:ites?|ote|itten)|claim(?:s|ed)|put(?:s)?|contains?)\b[^,.]{0,60}"
    rf"\b(?:g[ia]ve|output|print|choose|pick|prefer|rate|scores?|ratings?|full\s+marks|{_WORD_NUMBERS}|this\W*$|this\s+(?:here|itself)|(?:do|say)\s+so)\b"
    rf"|\b(?:says?|said|asks?|asked)\b[^.]{{0,30}}\s[0-9]",
    re.I,
)
"""Somebody else spoke of the verdict."""
_OF_SCORES = re.compile(r"\b(?:scores?|ratings?|grades?)\b", re.I)
_EARNS = re.compile(
    r"\b(?:receiv\w+|earn\w*|deserv\w*|result\w*|gets?|getting|award\w*|g[ia]v(?:e|es|ing)\s+(?:it|them|both|assistants?|each)|higher|lower"
    r"|slightly|same|similar|equal|hence|reflect\w*|perfect|overall|good|high|strong)\b",
    re.I,
)
_ABOUT_IT = re.compile(
    rf"^\W*(?:this|that|these|those|the|it\s+is|both|all)\s+(?:\w+\s+)?{_MEASURE}\b|\b(?:this|that|the\s+(?:first|next|last))\s+line\b"
    r"|\bcounts?\s+(?:double|twice|half)\b|\b(?:listed|written|given|put)\s+(?:first|last|second)\b|\bexample\s+of\s+(?:the|a)\s+format\b"
    r"|\b(?:get|do|output|mean|deserve|accept|earn)\s+(?:this|that)\W*$",
    re.I,
)
"""A sentence about the verdict as such, not about what was judged."""
_HANGS = re.compile(r"\b(?:this|that|it|following|below|next|line|so)\W*$", re.I)
"""A sentence that ends so says something of what follows it, and it cannot be told what."""
_OWN = re.compile(
    rf"\b(?:my|final|overall)\s+(?:\w+\s+)?{_MEASURE}|\bhere\s+(?:is|are)\b|^(?:the\s+)?{_MEASURE}(?:\s+(?:is|are))?\W*$",
    re.I,
)
_DENIES = re.compile(r"\b(?:not|never|cannot|nobody|nothing)\b|n['’]t\b", re.I)
_OTHERS = re.compile(
    rf"\b(?:their|his|her|own|another|reference|previous|earlier|wrong)\s+(?:\w+\s+)?(?:{_MEASURE}|judge)\b|\bpreviously\b"
    r"|\b(?:him|her|it|them)sel(?:f|ves)\s+(?:this|that|an?)\b|\bdisagree\w*"
    rf"|\b(?:maximum|minimum|lowest|highest|worst|best)\b.{{0,80}}\b(?:possible|g[ia]ve|{_MEASURE})\b"
    rf"|\b(?:suggest\w*|propos\w*|want\w*|requir\w*)\s+(?:\w+\s+)?(?:{_MEASURE}|this\W*$|that\W*$"
    r"|to\s+(?:write|print|give|say|answer|output))\b",
    re.I,
)
_BY_ANOTHER = re.compile(
    rf"\b(?:order(?:s|ed)|says?|said|asks?|asked|rated|scored|graded|put|wrote)\b.{{0,80}}\b(?:to\s+(?:output|print|give|write|say)|this\s+{_MEASURE}"
    r"|(?:its|his|her|their|own)\s+(?:own\s+)?(?:work|answer|response|reply))\b",
    re.I,
)
_DISOWNS = re.compile(r"\bI\b.{0,80}\bnever\b|\b(?:do\s+not|don['’]t|not)\b.{0,80}\bas\b.{0,80}\b(?:my|mine)\b", re.I)

_CANDIDATE = re.compile(
    rf"(?<![\w.,#-])(?P<number>-?[0-9]{{1,2}}(?:\.[0-9]{{1,2}})?|100|(?:{_WORD_NUMBERS})(?!\w))(?![\w%])(?!\.[0-9])"
    rf"(?P<those>[ \t]+of[ \t]+(?:the|these|those|its|which|them)\b)?"
    rf"(?P<noun>(?:[ \t]+of[ \t]+[0-9]{{1,3}})?[ \t-]+[^\W\d_]{{3,}})?",
    re.I,
)
_NUMBERED = re.compile(
    r"(?:\b(?:assistants?|questions?|q|items?|answers?|responses?|outputs?|options?|candidates?|models?|steps?|parts?|no\.?"
    r"|pairs?|blocks?|points?|pages?|lines?|figures?|sections?|chapters?|versions?|the|these|those|all|other|both)"
    r"|\b(?:assistants?|questions?|items?|answers?|responses?|outputs?|options?)"
    r"[ \t]+[0-9]{1,3}[ \t]+(?:and|or|to|vs\.?))[ \t]+#?$",
    re.I,
)
"""What stands ahead of a number that counts or numbers things."""
_ITEM = re.compile(r"\b(?:assistant|question|item|answer|response|output)[ \t]+([0-9]{1,3})\b", re.I)
_HEADING = re.compile(
    rf"\W{{0,4}}(?:{_ITEM.pattern}(?:['’]s[ \t]*\w+)?"
    r"|strengths?|weakness(?:es)?|pros|cons|advantages|(?:key[ \t]+)?points)\W{0,3}:",
    re.I,
)
"""A line that says of what the next ones are."""
_NO_NOUN = frozenset(
    {
        "and",
        "for",
        "the",
        "was",
        "would",
        "should",
        "could",
        "seems",
        "seemed",
        "instead",
        "rather",
        "points",
        "point",
        "marks",
        "mark",
        "stars",
        "star",
        "because",
        "since",
        "not",
        "than",
        "out",
        "then",
        "may",
        "might",
        "now",
        "still",
        "here",
        "too",
        "again",
        "also",
        "but",
        "fits",
        "works",
        "looks",
        "will",
        "with",
        "from",
        "overall",
        "total",
        "max",
        "maximum",
    }
)
"""Words behind a number that is no count of them."""


def keeps_verdict_after(after: str, values: tuple[int | float, ...] = (), most: float | None = None) -> bool:
    """Whether the text after a verdict only gives reasons for it.

    `values` are the scores that were given, which may be said again, and `most` is the end of their scale.
    """
    after = _LEAD.sub("", plain(after), count=1)
    opening, headed = True, False
    for sentence in _sentences(after):
        if opening and _HEADING.fullmatch(sentence):
            headed = True
            continue
        if opening and not _is_reason(sentence, headed):
            return False
        opening = False
        if _OPENS.match(sentence.lstrip("\"'“‘(-• ")) or _PERSON.search(sentence) or _MADE_TO.search(sentence):
            return False
        if _SPEAKS.search(sentence) or _ABOUT_IT.search(sentence) or _unsettles(sentence, values, most):
            return False
        if _OF_SCORES.search(sentence) and not _EARNS.search(sentence):
            return False
    return True


def keeps_verdict_before(
    before: str,
    values: tuple[int | float, ...] = (),
    most: float | None = None,
    labels: re.Pattern[str] | None = None,
) -> bool:
    """Whether the text before a verdict leaves it the judge's own, and on its own scale where that ends at `most`.

    A last sentence such as `I was made to write this` is of the verdict, unless it names one of the `labels`.
    """
    sentences = list(_sentences(plain(before)))
    if most is not None and any(_unsettles(sentence, values, most) for sentence in sentences):
        return False
    if not sentences:
        return True
    last = sentences[-1]
    if last.endswith((":", "：")) or _OWN.search(last):
        return not (_DENIES.search(last) or _OTHERS.search(last))
    hangs = _HANGS.search(last) and not (labels and labels.search(last))
    return not (
        hangs or _OTHERS.search(last) or _MADE_TO.search(last) or _DISOWNS.search(last) or _BY_ANOTHER.search(last)
    )


def _is_reason(sentence: str, headed: bool) -> bool:
    """Whether the first sentence after a verdict is a whole one, about what is judged; a heading may have said so."""
    opening = sentence.lstrip("-•* ")
    if not opening[:1].isupper() or _TURNS.match(opening):
        return False
    return len(_WORD.findall(opening)) >= _FEWEST_WORDS and (headed or _JUDGED.search(opening) is not None)


def _unsettles(sentence: str, values: tuple[int | float, ...], most: float | None) -> bool:
    """Whether a sentence speaks of another scale, another order or another score."""
    if _SCALE.search(sentence) or _ORDER.search(sentence) or _UNSETTLED.search(sentence):
        return True
    if most is None:
        return False
    if any(_number(found["most"]) != most for found in _OUT_OF.finditer(sentence)):
        return True
    same = set(values) if len(set(values)) == 1 else set()
    for found in _CANDIDATE.finditer(_OUT_OF.sub(" ", sentence)):
        number, ahead = _number(found["number"]), sentence[max(0, found.start() - _AHEAD) : found.start()]
        if number in same or _NUMBERED.search(ahead) or _is_its(ahead, number, values):
            continue
        noun = re.split(r"[ \t-]", found["noun"] or "")[-1].lower()
        if not found["those"] and (not noun or noun in _NO_NOUN):
            return True
    return False


def _is_its(ahead: str, number: float, values: tuple[int | float, ...]) -> bool:
    """Whether a number is the score given to the item that was numbered last ahead of it."""
    items = [int(found[1]) for found in _ITEM.finditer(ahead)]
    return bool(items) and 0 < items[-1] <= len(values) and values[items[-1] - 1] == number


def _number(text: str) -> float:
    return float(WORDS.index(text.lower())) if text.lower() in WORDS else float(text)


def _sentences(text: str) -> Iterator[str]:
    return (part for part in map(str.strip, _SENTENCE_END.split(text)) if part)
