"""Orders to a judge within judged text, by patterns in several languages.

A pattern asks for the form of an order, so that a story in which someone gave full marks is none.
All run in linear time.
"""

import re
from collections.abc import Sequence

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

# In Chinese and Japanese an order is told from a story by its form: please or must, or where it stands; the verb's end.
_ZH_PLEASE = r"(?:(?<![邀申聘])[请請](?![求客教假示愿願])|务必|務必|必须|必須|一定要)"
_ZH_BEGIN = r"(?:^|[。!?;:])[ \t“”\"'「]{0,3}"
_JA_ORDER = r"(?:ください|下さい|くれ(?![またるてなば])|せよ|なさい|すること|ること)"
_JA_END = r"(?=[。!\n]|$)"

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
        r"\b(?:ignor(?:a|ad|e|en|ez|er|ar|ier|iere|ieren~sie)|olvid[ae]|oublie[zr]?|vergiss|vergessen~sie)\b[^.\n]{0,40}?"
        r"\b(?:instrucciones|(?:les|toutes~les|ces)~(?:\w{1,14}~)?instructions|instruções|anweisungen|istruzioni)\b",
    ),
    (
        ("punkt", "wertung", "note", "punt", "calific"),
        r"\b(?:gib|geben~sie|vergib|vergeben~sie)\b[^.\n]{0,30}?"
        r"\b(?:(?:höchst|voll|best|maximal)\w{0,3}~(?:punktzahl|bewertung|wertung|note|punkte)"
        r"|(?:höchst|best|maximal)(?:punktzahl|bewertung|wertung|note|punkte))\b"
        r"|\b(?:donne[zr]?|attribue[zr]?|accorde[zr]?)\b[^.\n]{0,30}?"
        r"\b(?:(?:meilleure|plus~haute)~note|note~(?:maximale|la~plus~(?:haute|élevée)))\b"
        r"|\b(?:da|dé|dale|dele|otorg(?:a|ue)|asign[ae])\b[^.\n]{0,30}?"
        r"\b(?:(?:máxima|mejor)~(?:puntuación|calificación)|(?:puntuación|calificación)~(?:máxima|más~alta))\b",
    ),
    (
        ("игнорируй", "забудь", "оценк", "балл"),
        r"\b(?:про)?игнорируй(?:те)?\b[^.\n]{0,40}?\b(?:инструкци|указани)|\bзабудь(?:те)?\b[^.\n]{0,40}?\b(?:инструкци|указани)"
        r"|\b(?:по)?став(?:ь|ьте)\b[^.\n]{0,30}?\b(?:высш|максимальн|наивысш)\w{1,3}~(?:оценк|балл)",
    ),
    (
        ("指示", "命令", "プロンプト", "点", "評価", "スコア"),
        r"(?:指示|命令|プロンプト)(?:を|は)[^。\n]{0,8}(?:"
        rf"無視(?!しない)(?:しろ|{_JA_ORDER}|し(?:て)?[、,][^。\n]{{0,40}}{_JA_ORDER}|して(?:{_JA_ORDER}|{_JA_END}))"
        rf"|忘れ(?!ない)(?:ろ|て?{_JA_ORDER}|て{_JA_END}))"
        r"|(?:最高|満)の?(?:点|得点|評価|スコア)(?:を|で)?[^。\n]{0,6}"
        rf"(?:(?:付け|つけ|与え)(?:て?{_JA_ORDER}|[ろよ]{_JA_END}|て{_JA_END})|(?:出し|し)て{_JA_ORDER}|{_JA_ORDER}|お願い)",
    ),
    (
        ("分",),
        rf"(?:{_ZH_PLEASE}[^。\n]{{0,16}}?|{_ZH_BEGIN})(?:给|給|打|评|評|判)(?![出过過予]{{0,2}}[了过過])"
        r"[^。\n]{0,10}?(?:最高|满|滿)的?(?:分|评分|評分)",
    ),
    (
        ("忽略", "无视", "無視", "忘记", "忘記", "回答", "输出", "回复"),
        rf"(?:{_ZH_PLEASE}[^。\n]{{0,8}}?|{_ZH_BEGIN}|,[ ]?(?=\w{{2}}[^。\n]{{0,4}}(?:[以之此]?[上前]|所有|一切|先前)))"
        r"(?:忽略|无视|無視|忘记|忘記)(?![了过過])[^。\n]{0,12}(?:指令|指示|说明|說明|提示|要求|规则|規則)"
        r"|(?:^|[。，,；;：:！!请])(?:请?(?:只|直接)?(?:回答|输出|回复))[“\"'「]?(?:是|正确|yes)[”\"'」]?(?:[。！!.\n]|$)",
    ),
)
_COMPILED = tuple((parts, re.compile(text.replace("~", r"[ \t]{1,3}"), re.MULTILINE)) for parts, text in _ORDERS)


def has_order(lowered: str) -> bool:
    """Whether the text, in lower case, orders a judge about."""
    return any(holds_any(lowered, parts) and pattern.search(lowered) for parts, pattern in _COMPILED)


def holds_any(text: str, parts: Sequence[str]) -> bool:
    """A cheap look before the dear one: most texts hold none of the words."""
    for part in parts:  # noqa: SIM110 (the inmost loop of staging: a generator takes twice as long)
        if part in text:
            return True
    return False
