"""How an endpoint wants a request put that takes some parameter not at all, or under another name only.

Pure. What was learnt of a model is a record: a rejected request is put otherwise and sent again, which every parameter
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
_OTHER_NAMES = {"response_format": r"json[ _]?(?:output|schema|object|mode)|response[ _]format|structured[ _]outputs?"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """What was learnt of one model so far."""

    renamed: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()

    def put(self, body: Mapping[str, Any], keep: Collection[str] = ()) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The body as this endpoint takes it, and notes of what differs. What is in `keep` is never left out."""
        said: dict[str, Any] = {}
        notes = []
        for name, value in body.items():
            if name in self.dropped and name not in keep:
                notes.append(f"not_sent:{name}")
            elif name in self.renamed:
                said.setdefault(RENAMED[name], value)
                notes.append(f"sent:{RENAMED[name]}")
            else:
                said[name] = value
        return said, tuple(notes)

    def taught(
        self, sent: Mapping[str, Any], message: str, param: str | None = None, codes: Collection[str] = ()
    ) -> Dialect:
        """What is known after a request of this body was rejected with these words: the same where they name nothing.

        The one parameter that is named first is learnt; where the endpoint dislikes two it will say so again.
        """
        name = _named(sent, message, param, codes)
        if name is None:
            return self
        if name in RENAMED:
            return replace(self, renamed=self.renamed | {name})
        return replace(self, dropped=self.dropped | {name})


def _named(sent: Mapping[str, Any], message: str, param: str | None, codes: Collection[str]) -> str | None:
    """The parameter of the body that is said not to be taken."""
    if _CODES.isdisjoint(codes) and not _SAYS.search(message):
        return None
    own = [name for name in (*RENAMED, *OPTIONAL) if name in sent]
    given = re.split(r"[.\[]", param.removeprefix("body."))[0] if param else None
    if given in own:
        return given
    if given in sent:
        return None  # another one, which no request can go without
    first = re.search(rf"(?<![\w-])({'|'.join(own)})(?![\w-])", message, re.I) if own else None
    if first is not None:
        return first[1].lower()
    return next((name for name in own if name in _OTHER_NAMES and re.search(_OTHER_NAMES[name], message, re.I)), None)
