"""How an endpoint wants a request put that takes some parameter not at all, or under another name only.

Pure. What was learnt of a model is a record: a rejected request is adapted and sent again, which every parameter
allows once, so that this ends. A parameter left out changes what is measured; `notes` say so with each judgment.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

RENAMED = {"max_tokens": "max_completion_tokens"}
"""A parameter → its other name."""
OPTIONAL = ("temperature", "top_p", "seed", "stop", "response_format", "structured_outputs")
"""What a request may go without."""

_CODES = {"unsupported_parameter", "unsupported_value", "unknown_parameter"}
_SAYS = re.compile(
    r"unsupported|not (?:yet |currently )?support|n['’]t support|unrecogni[sz]ed|unknown|unexpected keyword"
    r"|not permitted|extra_forbidden|not allowed|unavailable|not available|deprecated|cannot find field|enabled only"
    r"|only the default|no longer accepted|not accepted",
    re.I,
)
"""Words that say of a parameter that it is not taken; a complaint about its value alone is none."""
_OF_MESSAGES = re.compile(r"\bmessages(?:\[|\.\w|:|['\"`]?\]?,? ?\d)|\b(?:in|of) (?:the )?messages\b", re.I)
"""What is wrong is in the messages, whatever else is named."""
_CLAUSE = re.compile(r"[.;](?:\s|$)|\n")
_PLAIN = {"temperature", "seed", "stop"}
"""Parameters whose names are words of any sentence too."""
_KIND = r"(?:param(?:eter)?|argument|field|option|property|key|input)s?"
_OTHER_NAMES = {"response_format": r"json[ _]?(?:output|schema|object|mode)|response[ _]format|structured[ _]outputs?"}


@dataclass(frozen=True, slots=True)
class ParameterSupport:
    """What was learnt of one model so far."""

    renamed: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()

    def adapt(self, body: Mapping[str, Any], keep: Collection[str] = ()) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The body as this endpoint takes it, and notes of what differs. What is in `keep` is never left out."""
        adapted: dict[str, Any] = {}
        notes = []
        for name, value in body.items():
            if name in self.dropped and name not in keep:
                notes.append(f"not_sent:{name}")
            elif name in self.renamed:
                adapted.setdefault(RENAMED[name], value)
                notes.append(f"sent:{RENAMED[name]}")
            else:
                adapted[name] = value
        return adapted, tuple(notes)

    def learn(
        self, sent: Mapping[str, Any], message: str, param: str | None = None, codes: Collection[str] = ()
    ) -> ParameterSupport:
        """What is known after a request of this body was rejected with these words: the same where they name nothing.

        The one parameter that is named first is learnt; where the endpoint dislikes two it will say so again.
        """
        name = _rejected_parameter(sent, message, param, codes)
        if name is None:
            return self
        if name in RENAMED:
            return replace(self, renamed=self.renamed | {name})
        return replace(self, dropped=self.dropped | {name})


def _rejected_parameter(sent: Mapping[str, Any], message: str, param: str | None, codes: Collection[str]) -> str | None:
    """The parameter of the body that is said not to be taken."""
    has_code = not _CODES.isdisjoint(codes)
    if not has_code and not _SAYS.search(message):
        return None
    own = [name for name in (*RENAMED, *OPTIONAL) if name in sent]
    given = re.split(r"[.\[]", param.removeprefix("body."))[0] if param else None
    if given in own:
        return given
    if given in sent:
        return None  # another one, which no request can go without
    if _OF_MESSAGES.search(message) or not own:
        return None
    for clause in [message] if has_code else filter(_SAYS.search, _CLAUSE.split(message)):
        for match in re.finditer(rf"(?<![\w-])({'|'.join(own)})(?![\w-])", clause, re.I):
            name = match[1].lower()
            if has_code or name not in _PLAIN or _is_a_name(clause, match):
                return name
        for name in own:
            if name in _OTHER_NAMES and re.search(_OTHER_NAMES[name], clause, re.I):
                return name
    return None


def _is_a_name(clause: str, match: re.Match[str]) -> bool:
    """Whether a word stands for a parameter: quoted, beside the word for one, or in a list of what is not taken."""
    before, after = clause[: match.start()], clause[match.end() :]
    if before[-1:] in ("'", '"', "`", "‘", "“") and after[:1] in ("'", '"', "`", "’", "”"):
        return True
    if re.search(rf"\b{_KIND}\s*$", before, re.I) or re.match(rf"\s*{_KIND}\b", after, re.I):
        return True
    if re.match(r"\s*:", after) and re.search(r"(?:^|->|\.)\s*$", before):
        return True
    # `does not support seed` is about a parameter, `does not support seed data` about something else.
    if re.search(rf"(?:{_SAYS.pattern})\W*$", before, re.I) and re.match(r"\s*(?:$|[,.:)]|(?:with|for|on)\b)", after):
        return True
    if re.match(rf"\s+(?:is|are)\s+(?:\w+\s+)?(?:{_SAYS.pattern})", after, re.I):
        return True
    # `Unrecognized arguments supplied: top_p, seed`
    listed = re.search(r":((?:\s*[\w.]+\s*,)*)\s*$", before)
    return listed is not None and re.match(r"\s*(?:,\s*[\w.]+\s*)*\W*$", after) is not None
