"""Judged text that looks as if it wanted to steer the judge: found and named, never changed.

Looks at what an item puts into a prompt, by a short list of signs: control tokens of chat formats, lines of the
judge's own prompt, its reply format, orders to a judge. A sign is no proof, and text without one is no promise. What is
sent and how the reply is read are the same either way; who reads the results is told. All patterns run in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .imitation import Delimiters, ReplyFormat
from .item import Item
from .judge import Judge
from .template import parse_template

VERSION = "1"
"""Of the list of signs; another version may find other items."""

CHAT_TOKEN, DELIMITER, INSTRUCTION, REPLY_FORMAT = "chat_token", "delimiter", "instruction", "reply_format"
SIGNS = (CHAT_TOKEN, DELIMITER, INSTRUCTION, REPLY_FORMAT)

_INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
_SEEN = dict.fromkeys(map(ord, _INVISIBLE), "") | {0xFF00 + n: chr(0x20 + n) for n in range(1, 95)} | {0x00A0: " "}
"""What a reader does not see is dropped, and full-width characters are ASCII: tokens are hidden that way."""

_CHAT = re.compile(
    r"<\|[A-Za-z][\w▁.-]{1,40}\|>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|<[be]os>"
    r"|\[/?(?:SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]"
    r"|^[ \t]{0,3}#{2,4} ?(?i:human|user|assistant|system|instructions?|response) ?:",
    re.MULTILINE,
)
_CHAT_PARTS = ("<|", "[INST", "[/INST", "<<", "_of_turn>", "os>", "[SYS", "[/SYS", "[TOOL", "[/TOOL", "[AVAIL", "##")
_END = "</s>"

# In the patterns below a tilde stands for the blanks between two words.
# Where an order may begin: a line, a sentence, or after a word that leads to one. `do not ignore` is none.
_BEGIN = (
    r"(?:(?:^|[^\w\s,])[ \t]{0,3}"
    r"|\b(?:please|now|so|then|and|always|just|kindly|simply|must|should|(?:have|need)~to)~)"
)
_JUDGE = r"(?:judge|grader|evaluator|examiner|assessor)s?"
_AI = r"(?:(?:ai|llm|automated)~)?"
_THIS = r"(?:it|this|(?:this|the|my|our)(?:~\w{1,12})?~(?:answer|response|reply|submission|output|one))"
_CLOSED = r"[ \t\"'*`”’)\]]{0,4}(?:[.!,;:\n]|$)"
_BEST = r"(?:full|maximum|max|highest|top|perfect|best)"
_FULL = rf"{_BEST}(?:~possible)?~(?:marks?|credit|scores?|points?|grades?|ratings?)"
_NUMBER = (
    r"[\"'*`“]{0,2}[0-9]{1,3}(?:\.[0-9])?(?:[ \t]?(?:/|out~of)[ \t]?[0-9]{1,3})?(?:~(?:points?|stars?|marks?))?"
    + _CLOSED
)
_RIGHT = r"(?:correct|right|accurate|valid|true|passing)\b"

_ORDERS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("ignore", "disregard", "forget", "override", "bypass"),
        rf"{_BEGIN}(?:ignore|disregard|forget|override|bypass)\b"
        r"(?:[^.\n]{0,60}?\b(?:instructions?|prompts?|rubrics?|guidelines|criteria|directives?)\b"
        r"|~(?:all|everything|anything|whatever|what|the)\b"
        r"[^.\n]{0,30}?\b(?:above|previous|prior|preceding|so~far)\b)",
    ),
    (
        ("answer", "respond", "reply", "output"),
        rf"{_BEGIN}(?:answer|respond|reply|output)\b(?:~(?:with|only|just|simply|the~word|by~saying)){{0,3}}"
        rf"~[\"'*`“‘(\[]{{0,3}}(?:(?:yes|no|true|correct)\b{_CLOSED}"
        r"|(?:(?:a|the)~)?(?:\w{1,10}~)?(?:score|rating|grade)~(?:of~)?[0-9])",
    ),
    (
        ("give", "assign", "award", "rate", "score", "grade", "mark"),
        rf"{_BEGIN}(?:give|assign|award|rate|score|grade|mark)~(?:(?:{_THIS}|me)\b[^.\n]{{0,20}}?\b{_FULL}"
        rf"|{_THIS}\b(?:~(?:as|with|at|an?|the|score|rating|grade|of)){{0,4}}~{_NUMBER}"
        rf"|an?~(?:score|rating|grade|mark)~of~{_NUMBER})",
    ),
    (
        ("correct", "right", "accurate", "valid", "true", "passing"),
        r"(?:"
        rf"{_BEGIN}(?:this|my|the~above)~(?:answer|response)~(?:is|must~be|should~be)"
        r"(?:~(?:fully|entirely|completely|absolutely|definitely|perfectly|complete|and|100%)){0,3}"
        r"|\b(?:this|my|the)~(?:answer|response)~(?:must|should|has~to)~be"
        r"~(?:marked|judged|graded|scored|rated|considered|accepted|treated)(?:~as)?"
        rf"|{_BEGIN}(?:mark|judge|grade|treat|consider|accept|count|label|classify|score|rate|evaluate)~{_THIS}"
        r"(?:~(?:as|a|being|fully)){0,3}"
        rf")~{_RIGHT}",
    ),
    (
        ("judge", "grader", "evaluator", "examiner", "assessor"),
        r"(?:(?<!if )(?<!when )(?<!unless )(?<!as )\byou(?:~are|['’]re)"
        r"(?:~(?:now|an?|the|my|helpful|impartial|fair|strict|lenient|generous|expert|ai|llm|new)){0,5}"
        rf"~{_JUDGE}\b"
        rf"|\b(?:notes?|message|attention|memo|hint|reminder|instructions?)~(?:to|for)~(?:(?:the|all|any)~)?{_AI}{_JUDGE}"
        r"[ \t]{0,2}[:,—–-]"
        rf"|{_BEGIN}(?:dear|attention|hey|hello)[,:]?~(?:(?:ai|llm)~(?:judge|model)|grader|evaluator)s?\b)",
    ),
    (
        ("instruction", "prompt", "system"),
        rf"{_BEGIN}(?:(?:new|updated|real|actual|revised)~(?:system~)?(?:instructions?|prompt)"
        r"|(?:system|developer)~(?:prompt|message|override|note|instructions?))[ \t]{0,2}:",
    ),
    (
        ("instruc", "instrução", "instruções", "anweisung", "istruzion"),
        r"\b(?:ignor(?:a|e|ez|er|ar|iere|ieren~sie)|olvida|oublie[zr]?|vergiss)\b[^.\n]{0,40}?"
        r"\b(?:instrucciones|les~(?:\w{1,14}~)?instructions|instruções|anweisungen|istruzioni)\b",
    ),
    (
        ("忽略", "无视", "忘记", "回答", "输出", "回复"),
        r"(?:忽略|无视|忘记)[^。\n]{0,12}(?:指令|指示|说明|提示|要求|规则)"
        r"|(?:^|[。，,；;：:！!请])(?:请?(?:只|直接)?(?:回答|输出|回复))[“\"'「]?(?:是|正确|yes)[”\"'」]?(?:[。！!.\n]|$)",
    ),
)
_COMPILED = tuple((parts, re.compile(text.replace("~", r"[ \t]{1,3}"), re.MULTILINE)) for parts, text in _ORDERS)


class Injections:
    """The signs, for one judge: its prompts and its reply format are among them."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._reply = ReplyFormat(judge.meaning["reads"])
        self._delimiters = {
            name: Delimiters([parse_template(text) for text in roles.values()])
            for name, roles in judge.templates.items()
        }

    def found(self, item: Item, template: str) -> tuple[str, ...]:
        """Which signs the item's text in this template shows, in the order of `SIGNS`."""
        texts = [seen(text) for text in dict.fromkeys(self._judge.values(item, template).values()) if text]
        # Orders and tokens stand within a line: one look at all texts is enough.
        together = "\n".join(texts)
        lowered = [text.lower() for text in texts]
        signs = []
        if _has_chat_token(together):
            signs.append(CHAT_TOKEN)
        if self._judge.marked(item, template) or any(map(self._delimiters[template].stand_in, lowered)):
            signs.append(DELIMITER)
        if _has_order(together.lower()):
            signs.append(INSTRUCTION)
        if any(map(self._reply.stands_in, lowered)):
            signs.append(REPLY_FORMAT)
        return tuple(signs)


def seen(text: str) -> str:
    """The text as it looks to a reader."""
    return text if text.isascii() else text.translate(_SEEN)


def _holds(text: str, parts: Sequence[str]) -> bool:
    """A cheap look before the dear one: most texts hold none of the words."""
    for part in parts:  # noqa: SIM110 (the inmost loop of staging: a generator takes twice as long)
        if part in text:
            return True
    return False


def _has_chat_token(text: str) -> bool:
    if _holds(text, _CHAT_PARTS) and _CHAT.search(text):
        return True
    # In HTML the same letters end what is struck through, and then they have a beginning on the line.
    return _END in text and any(line.count(_END) > line.count("<s>") for line in text.splitlines())


def _has_order(lowered: str) -> bool:
    return any(_holds(lowered, parts) and pattern.search(lowered) for parts, pattern in _COMPILED)
