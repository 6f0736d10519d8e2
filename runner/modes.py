"""How structured output is enforced for each judge and model of a run: what is known by now, and what must be asked.

Pure. What the first probe finds holds for the run: it is kept in the ledger, so that every worker and every later
session asks in the same way. A config that sets another `structured` has it found anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from . import structured
from .plan import Pair

PairName = tuple[str, str]


class Modes(Mapping[PairName, str]):
    """(judge, model) → effective mode, of the pairs of which it is known."""

    def __init__(self, pairs: Mapping[PairName, Pair], kept: Callable[[str], str | None] = lambda key: None) -> None:
        """`kept`: what was kept under a key in earlier sessions."""
        self._pairs = pairs
        self._known: dict[PairName, str] = {}
        for name, pair in pairs.items():
            if not structured.ways(pair.structured, pair.constraint):
                self._known[name] = structured.OFF
            elif (text := kept(_key(name))) is not None:
                found = json.loads(text)
                if found["setting"] == pair.structured:
                    self._known[name] = found["mode"]

    def found(self, name: PairName, mode: str) -> tuple[str, str]:
        """Take in what a probe has shown; the key and the text to keep it under."""
        self._known[name] = mode
        return _key(name), json.dumps({"setting": self._pairs[name].structured, "mode": mode})

    def document(self) -> dict[str, str]:
        """As the manifest says it."""
        return {f"{judge} × {model}": mode for (judge, model), mode in sorted(self._known.items())}

    def __getitem__(self, name: PairName) -> str:
        return self._known[name]

    def __iter__(self) -> Iterator[PairName]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _key(name: PairName) -> str:
    return f"structured {json.dumps(name)}"
