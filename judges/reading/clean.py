"""What every reader does to a reply before its own grammar: reasoning cut off, marks folded, wrappers taken away.

Hides the shapes of reasoning blocks, the Unicode marks that are folded, refusals, and what may wrap a literal.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from ..item import INVISIBLE
from ..outcome import Reason

# What is invisible is dropped. No-break and ideographic blanks: a blank.
_NARROW: dict[int, str] = {ord(mark): "" for mark in INVISIBLE}
_NARROW |= {0x00A0: " ", 0x202F: " ", 0x3000: " ", ord("、"): ",", ord("【"): "[", ord("】"): "]"}
# Full-width ASCII to ASCII, but for what could change an object's structure (quotes, backslash, braces).
_NARROW |= {0xFF00 + n: chr(0x20 + n) for n in range(1, 95) if chr(0x20 + n) not in "\"'\\{}"}

_REASONING = re.compile(
    r"<(/?)(?:\w{1,20}:)?(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad)\s{0,4}>"
    r"|\[(/?)THINK\]|◁(/?)think▷"
    r"|<\|channel\|>(?:analysis|commentary|(final))\b[^<\n]{0,40}<\|message\|>"
    r"|\A\s{0,9}Thinking(?:\.\.\.|…)[ \t]*$|^(\.\.\.|…)done thinking\.?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)

# The judge says that it will not do the job.
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

_EMPHASIS = re.compile(
    r"(\*{1,3}|`{1,3})(?=[^\s*`])([^*`\n]{1,2000})\1(?!\w)|(?<!\w)(_{1,3})(?=[^\s_])([^_\n]{1,2000})\3(?!\w)"
)
_HEADING = re.compile(r"^[ \t]{0,3}#{1,6}[ \t]+", re.M)
# A language is one of few: a label behind the marks (```A) is no language.
_FENCE_LINE = re.compile(
    r"^[ \t]{0,8}```(?:json|jsonc|text|txt|plaintext|plain|python|markdown|md|yaml|csv|output|none)?[ \t]*(?:\n|\Z)",
    re.I | re.M,
)
_WRAPPERS = (
    *(("$\\boxed{", "}$"), ("\\boxed{", "}"), ("\\text{", "}"), ("$", "$")),
    *(("***", "***"), ("**", "**"), ("__", "__"), ("*", "*"), ("_", "_"), ("`", "`")),
    *(("[", "]"), ("(", ")"), ("{", "}"), ('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"), ("«", "»"), ("「", "」")),
)
_CLOSERS = frozenset(closing[-1] for _, closing in _WRAPPERS)
_UNWRAP_LENGTH = 300
_END_TOKENS = ("</s>", "<eos>", "<|im_end|>", "<|eot_id|>", "<|end|>", "<|return|>", "<|endoftext|>", "<|end_of_text|>")


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


@lru_cache(maxsize=4096)
def folded(text: str) -> str:
    """A name, key or literal without the differences that do not count: case, blanks, underscores, marks around."""
    return " ".join(narrow(text).replace("_", " ").split()).strip("\"'*` ").casefold()


def plain(text: str) -> str:
    """The text without markdown's heading marks and matched emphasis; a lone mark may stand where a digit was lost."""
    text = _HEADING.sub("", text) if "#" in text else text
    return _EMPHASIS.sub(r"\2\4", text) if "*" in text or "`" in text or "_" in text else text


def unfenced(text: str) -> str:
    """The text without the lines that open or close a code fence; what else stands on such a line is kept."""
    return _FENCE_LINE.sub("", text).strip()


def inner(text: str) -> str | None:
    """The text out of one matched wrapper (brackets, quotes, emphasis, `\\boxed{}`); None where it has none."""
    if text[-1:] not in _CLOSERS:
        return None
    for opening, closing in _WRAPPERS:
        if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
            return text[len(opening) : -len(closing)].strip()
    return None


def unwrap(text: str) -> Iterator[str]:
    """The text, and what is left of it as wrappers, a heading's mark or one final stop are taken away in turn."""
    text = text.strip()
    while True:
        yield text
        if len(text) > _UNWRAP_LENGTH:
            return
        if text.endswith((".", "!", "。")) and not text.endswith(("..", "!!")):
            text = text[:-1].rstrip()
        elif text.startswith("#") and (bare := text.lstrip("#")).startswith(" "):
            text = bare.strip()
        elif (below := inner(text)) is not None:
            text = below
        else:
            return
