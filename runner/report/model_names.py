"""When two names mean the same model, and when two names look alike."""

from __future__ import annotations

import re
import unicodedata

from judges.item import INVISIBLE

_PROVIDERS = (
    "openai|azure|anthropic|google|vertex|gemini|meta|mistral|mistralai|cohere|deepseek|amazon|ai21|qwen|xai|groq"
)
_PROVIDER = re.compile(rf"(?:(?:us|eu|apac|global)\.)?(?:(?:{_PROVIDERS})[.:]\s*)+(?=\w)")
_VERSION = re.compile(
    r"-(?:20\d\d-?\d\d-?\d\d|\d\d-\d\d-20\d\d|\d{4}|\d\d-\d\d|latest|preview|free|001|002)$"
    r"|(?<=-20\d{6})-v\d+(?:-\d+)?$"
)
"""A date or what stands for one; and Bedrock's version behind a date."""
_APART = re.compile(r"[\W_]+")
_DASHES_AND_BLANKS = re.compile(r"[\s\u2010-\u2015\u2212\ufe58\ufe63_-]+")
_DROP = dict.fromkeys(map(ord, INVISIBLE))


def model_key(name: str) -> str:
    """The same for all spellings of a model: without provider, date, case, blanks and marks."""
    short = _fold(name).rsplit("/", 1)[-1]
    short = _APART.sub("-", _PROVIDER.sub("", short, count=1)).strip("-")
    while (shorter := _VERSION.sub("", short)) not in (short, ""):
        short = shorter
    return short.replace("-", "")


def look(name: str) -> str:
    """The same for names that look alike: in case, width, dashes and blanks, or in what is not visible."""
    return _DASHES_AND_BLANKS.sub("-", _fold(name)).strip("-")


def _fold(name: str) -> str:
    return unicodedata.normalize("NFKC", name).translate(_DROP).casefold().strip()
