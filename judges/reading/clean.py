"""What every reader does to a reply before and around its own grammar.

Hides the shapes of reasoning blocks, the few Unicode marks that are folded, the list of refusals, and how to tell a
verdict that the judge gives from one that it quotes. Whatever is doubtful counts against a verdict: a reply that is not
read costs one more call, a reply read wrongly is never noticed.
"""

from __future__ import annotations

import re

from ..outcome import Reason

# Zero-width and bidi marks, BOM, soft hyphen: dropped. No-break and ideographic blanks: a blank.
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
_NARROW: dict[int, str] = {ord(mark): "" for mark in _INVISIBLE}
_NARROW |= {0x00A0: " ", 0x202F: " ", 0x3000: " ", ord("、"): ","}
# Full-width ASCII to ASCII, but for what could change an object's structure (quotes, backslash, brackets, braces).
_NARROW |= {0xFF00 + n: chr(0x20 + n) for n in range(1, 95) if chr(0x20 + n) not in "\"'\\{}[]"}

_REASONING = re.compile(
    r"<(/?)(?:\w{1,20}:)?(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad)\s{0,4}>"
    r"|\[(/?)THINK\]|◁(/?)think▷"
    r"|\A\s{0,9}Thinking(?:\.\.\.|…)[ \t]*$|^(\.\.\.|…)done thinking\.?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)

# Version 1 of the refusal list: the judge says that it will not do the job.
_REFUSAL = re.compile(
    r"\b(?:i|we)(?:\s+(?:can\s?not|can['’]t|(?:won['’]t|will\s+not|would\s+not)(?:\s+be\s+able\s+to)?|could\s+not"
    r"|am\s+(?:unable|not\s+able)\s+to|(?:must\s+)?decline\s+to|refuse\s+to)|['’](?:m|re)\s+(?:unable|not\s+able)\s+to)"
    r"\s+(?:\w+\s+)?(?:assist|help|comply|fulfill?|provide|evaluate|judge|answer|engage|continue|grade|score|complete|respond"
    r"|process|participate|do\s+that|do\s+this)\b"
    r"|\bas\s+an\s+ai\b.{0,60}?\b(?:can\s?not|can['’]t|unable)\b"
    r"|\bagainst\s+my\s+(?:guidelines|policy|policies|programming)\b",
    re.IGNORECASE,
)
_QUOTATION = re.compile(r'"(?:[^"\\]|\\.)*+"|“[^”]*+”|(?<!\w)[\'‘][^\n]{0,300}?[\'’](?!\w)', re.DOTALL)
_REFUSAL_LENGTH = 1000
"""A refusal is short; in a long evaluation the same words are about the item."""

_OPENING = 300

_INTRODUCES = re.compile(
    r"\b(?:evaluation|verdict|judge?ment|assessment|decision|conclusion|answer|grade|rating|result|json|output)\b", re.I
)
# `The reference answer is:` and `Generated answer: …` introduce what somebody else said.
_ANOTHERS = re.compile(
    r"\b(?:reference|gold(?:en)?|correct|expected|generated|predicted|model|response|user|assistant|question)(?:['’]?s)?"
    r"(?:\s+(?:\w+\s+)?(?:answer|response|output|result|json|reply|verdict|decision|conclusion|judge?ment))?"
    r"(?:\s+(?:is|was))?\s*[:：]",
    re.I,
)
_REPORTS = re.compile(
    r"\b(?:example|format|schema|template|say|says|said|saying|claims?|claimed|states?|stated|instruct\w*|tells?|told|asks?"
    r"|asked|wants?|demands?|writes?|wrote|written|reads|contains?|includes?|included|ends?|begins?|starts?|quot\w*"
    r"|inject\w*|tries|tried|attempt\w*|provided|embedded|own|would|should|if|or|was|were|not|never|opposite)\b|n['’]t\b",
    re.I,
)
# Of these, what says that somebody else's words follow, however far ahead of a verdict it stands.
_QUOTES_ANOTHER = re.compile(
    r"\b(?:example|format|schema|template|say|says|said|saying|claims?|claimed|states?|stated|instruct\w*|tells?|told|asks?"
    r"|asked|demands?|writes?|wrote|written|reads|contains?|includes?|included|ends?|begins?|quot\w*|inject\w*|embedded)\b"
    r"|\b(?:response|reply|text|user|model|assistant|student|candidate)\s+(?:is|was|were|had|gave|gives)\b",
    re.I,
)
_SPEECH = re.compile(
    r"\b(?:say|says|said|claims?|claimed|instruct\w*|tells?|told|asks?|asked|demands?|writes?|wrote|reads|quot\w*|inject\w*)\b",
    re.I,
)
_ROLE = re.compile(r"\W{0,6}(?:system|user|human|assistant|prompt|instructions?)\s?:", re.I)
"""A line of a conversation that somebody else wrote."""
_DISOWNED = re.compile(
    r"(?:\be\.\s?g|\bi\.\s?e)\.?[,:]?$|\b(?:eg|ie)[.:]$|\bfake\w*|\bnot\s+(?:my|our)\s+(?:\w+\s+)?(?:verdict|answer|judge?ment"
    r"|decision|evaluation|output|object|result)\b"
    r"|\b(?:wrong|incorrect|invalid|bad|false|dummy|bogus|mock|improper|worse|worst|los(?:er|ing)|reject\w*|weak(?:er|est)|inferior"
    r"|runner|discard\w*|eliminat\w*|fail\w*|poor\w*|lesser|unchosen|sample)\b[^\n]{0,60}:$"
    r"|^(?:\w+\s)?(?:wrong|incorrect|invalid|bad|false|dummy|bogus|mock|improper|sample)\s(?:output|format|verdict|json|object)\W*$"
    r"|\b(?:text|contents?|words?|lines?|string|part|sentence)\s+(?:in|of|from|inside|within)\b[^\n]{0,60}:$",
    re.I,
)
"""A line that says of what follows it that it is no verdict, or the one of what is worse."""
_CONDITION = re.compile(
    r"\W*(?:only\s|but\s)?(?:if|provided|providing|unless|assuming|supposing|as\s+long\s+as|so\s+long\s+as|on\s+condition|in\s+case"
    r"|given\s+that|except)\b",
    re.I,
)
"""What a line opens with that makes the verdict above it hang on something."""
_QUOTE_LINE = re.compile(r"^[ \t]*(?:\"\"\"|\'\'\'|[\"”’»])[ \t]*$", re.M)
_INSTRUCTS = re.compile(
    r"\b(?:instruct\w*|inject\w*|demands?|ignore|disregard|follows|following|below|example|quot\w*|told\s+to|tells\s+me)\b",
    re.I,
)
_RETRACTS = re.compile(
    r"\b(?:wait|hmm+|actually|second\s+thoughts?|correction|scratch\s+that|reconsider\w*|mistake|mistaken|ignore|disregard"
    r"|sorry|apolog\w*|follow\s+(?:that|this|it)|retract\w*|instruct\w*|should\s+(?:be|have)|i\s+meant|revis\w*"
    r"|change\s+(?:it|that|my)|(?:is|['’]s)\s+what|above|inject\w*|depends|on\s+reflection|initial\w*|original\w*|earlier"
    r"|previous\w*|kidding|joking)\b",
    re.I,
)
# Of these, what a judge says of itself; the rest may be about the text that it judges.
_WITHDRAWS = re.compile(
    r"\b(?:wait|hmm+|second\s+thoughts?|correction|scratch\s+that|reconsider\w*|i\s+(?:apologi[sz]e|retract|meant|was\s+wrong)"
    r"|(?:my|i\s+made\s+a)\s+mistake|ignore|disregard|follow\s+(?:that|this|it)|should\s+(?:be|have\s+been)\s+[0-9]"
    r"|(?:revised?|change|corrected|updated)\s+(?:it|that|my|the|scores?|ratings?)|is\s+what|the\s+above|inject\w*"
    r"|on\s+reflection|(?:initial|earlier|previous|first|above)\s+(?:scores?|ratings?|lines?|verdict)|kidding|joking"
    r"|take\s+(?:that|it|this|them)\s+back|(?:are|is|were)\s+(?:reversed|swapped)|(?:^|[.!?\n]\s{0,3})actually)\b",
    re.I,
)
_NOUN_INSTRUCTION = re.compile(
    r"\b(?:follow(?:s|ed|ing)\s+)?(?:the|this|an?|given|original|user['’]s)\s+instructions?\b", re.I
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[ \t]+(?=\S)")
_MARKDOWN = re.compile(r"[*_`#]+")
_FENCE = re.compile(r"```[A-Za-z0-9_+-]{0,20}")
# A language is one of few: a label behind the marks (```A) is no language.
_FENCE_LINE = re.compile(
    r"^[ \t]{0,8}```(?:json|jsonc|text|txt|plaintext|plain|python|markdown|md|yaml|csv|output|none)?[ \t]*(?:\n|\Z)",
    re.I | re.M,
)
_PAIRS = {"[": "]", "(": ")", "{": "}", "*": "*", "_": "_", "`": "`"}
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "「": "」"}
_PEEL_LENGTH = 120
_MOST_CONTEXT = 50_000
"""With more text than this around it, nothing is taken for a verdict."""
_END_TOKENS = ("</s>", "<eos>", "<|im_end|>", "<|eot_id|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>")


def narrow(text: str) -> str:
    """The text without invisible marks and leaked end tokens, full-width characters as ASCII. No NFKC."""
    text = text.translate(_NARROW).rstrip()
    for token in _END_TOKENS:
        text = text.removesuffix(token).rstrip()
    return text


def after_reasoning(text: str) -> str | Reason:
    """What follows the last reasoning block; a Reason where a block is left open or nothing follows it."""
    end = None
    for tag in _REASONING.finditer(text):
        end = tag.end() if any(tag.groups()) else -1
    if end is None:
        return text
    if end < 0:
        return Reason.REASONING_UNCLOSED
    return text[end:] if text[end:].strip() else Reason.NOTHING_AFTER_REASONING


def refuses(text: str) -> bool:
    """Whether a short reply says that the judge will not judge; what it quotes is about the item."""
    if len(text) > _REFUSAL_LENGTH:
        return False
    unquoted = _QUOTATION.sub(" ", text)
    return _REFUSAL.search(unquoted if re.search(r"\w", unquoted) else text) is not None


def opens_like_a_refusal(text: str) -> bool:
    """Whether a reply of any length opens with the words of a refusal."""
    return _REFUSAL.search(_QUOTATION.sub(" ", text[:_OPENING])) is not None


def folded(text: str) -> str:
    """A name or label without the differences that do not count: case, blanks, invisible marks, underscores."""
    return " ".join(narrow(text).replace("_", " ").split()).casefold()


def plain(text: str) -> str:
    """The text without markdown's emphasis, code and heading marks."""
    return _MARKDOWN.sub("", text).strip()


def without_fences(text: str) -> str:
    """The text with the marks of code fences turned into line ends."""
    return _FENCE.sub("\n", text)


def unfenced(text: str) -> str:
    """The text without the lines that open or close a code fence; what else stands on such a line is kept."""
    return _FENCE_LINE.sub("", text)


def peel(text: str, quotes: bool) -> str:
    """The text out of its matched wrappers (markdown, brackets, `quotes` too) and one final `.` or `!`."""
    text = text.strip()
    if len(text) > _PEEL_LENGTH:
        return text
    pairs = _PAIRS | _QUOTES if quotes else _PAIRS
    while True:
        before = text
        if len(text) > 2 and pairs.get(text[0]) == text[-1]:
            text = text[1:-1].strip()
        elif text.startswith(("\\boxed{", "\\text{")) and text.endswith("}"):
            text = text[text.index("{") + 1 : -1].strip()
        elif text.startswith("#"):
            text = text.lstrip("#").strip()
        elif text.endswith((".", "!", "。")) and not text.endswith(("..", "!!")):
            text = text[:-1].rstrip()
        if text == before:
            return text


def introduced(before: str, lax: bool = False) -> bool:
    """Whether a verdict after `before` is the judge's own, not something that it quotes, reports or asks.

    `lax` is for lines that name what they are (`Answer: …`): those may also follow a line without a final mark.
    """
    if not before.strip():
        return True
    if len(before) > _MOST_CONTEXT or before.count('"') % 2 or before.count("“") > before.count("”"):
        return False
    lines = [line for line in map(plain, before.splitlines()) if line]
    if not lines:
        return True
    if any(map(_ROLE.match, lines)):
        return False
    reports = _QUOTES_ANOTHER if lax else _REPORTS
    if any(line.endswith((":", "：")) and reports.search(line) for line in lines[:-1]):
        return False
    last = lines[-1]
    if _DISOWNED.search(last) or (last.endswith((":", "：")) and _REPORTS.search(last)):
        return False
    if last.endswith((":", "：")):
        return _INTRODUCES.search(last) is not None and _ANOTHERS.search(last) is None
    if not lax and _ANOTHERS.search(last):
        return False
    if last.endswith((".", "!", "。", "！")):
        return _INSTRUCTS.search(last) is None
    if last.endswith(("?", "？", ",", ";", "-", "—")) or _REPORTS.search(last):
        return False
    return lax or (_INTRODUCES.search(last) is not None and len(last) <= 60)


def concluded(before: str, marked: bool = False) -> bool:
    """Whether what follows `before` in a form that is only used for verdicts is the judge's own.

    Of the last paragraph the last sentence counts, and `the instruction` as a noun instructs nobody. With `marked` the
    form is one like `[[8]]`, that nothing else has: only what is introduced as speech is somebody else's.
    """
    if len(before) > _MOST_CONTEXT:
        return False
    if marked:
        lines = [line for line in map(plain, before.splitlines()) if line]
        if any(line.endswith((":", "：")) and _SPEECH.search(line) for line in lines):
            return False
        before = lines[-1] if lines else ""
    head, _, last = before.rstrip().rpartition("\n")
    return introduced(f"{head}\n{_NOUN_INSTRUCTION.sub(' it', _SENTENCE_END.sub(chr(10), last))}", lax=True)


def withdrawn(after: str) -> bool:
    """Whether the text after a verdict that is as asked for takes it back in the judge's own name."""
    return len(after) > _MOST_CONTEXT or _WITHDRAWS.search(after) is not None


def retracted(after: str) -> bool:
    """Whether the text after a verdict takes it back or puts it in doubt."""
    if len(after) > _MOST_CONTEXT or _RETRACTS.search(after):
        return True
    return _CONDITION.match(after) is not None or _QUOTE_LINE.search(after) is not None


def folded_key(key: str) -> str:
    """A key without what does not count: case, blanks, quotes and markdown around."""
    return "".join(narrow(key).split()).strip("\"'*_`").casefold()
