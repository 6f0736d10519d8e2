"""Replies that are to be scores on a scale: one, one for each of several items, or one for each of several names.

Strict is the numbers with commas and nothing else. Tolerant is a list (`score_list`) that is the whole reply or stands
in a place of it (`places`). A number is taken as it stands or not at all; a wrong number of scores is `count`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..outcome import Malformed, Provenance, Reading, Reason, Scored
from .clean import plain, unfenced
from .places import PlacedReader, label_pattern
from .reply_text import Echoes
from .score_list import ScoreGrammar, ScoreList


class ScoresReader(PlacedReader):
    """Reads `count` scores, or one for each name of the grammar."""

    if TYPE_CHECKING:

        @property
        def grammar(self) -> ScoreGrammar: ...

    def strict(self, text: str) -> Scored | None:
        """The scores with commas between them and nothing besides: no blanks, no other way to write a number."""
        pieces = text.split(",", self.grammar.count)
        if len(pieces) != self.grammar.count:
            return None
        values = [self.grammar.steps.canonical(piece) for piece in pieces]
        sound = [value for value in values if value is not None]
        return self._scored(sound, "strict") if len(sound) == len(values) else None

    def read_cut(self, text: str, echoes: Echoes) -> Reading:
        """What may be read of a reply that ran out of tokens; the number at its end may have been going on."""
        if "\n" in text.strip() or text.startswith(("[", "{")):
            return super().read_cut(text, echoes)
        return Malformed(Reason.TRUNCATED, "a number may go on")

    def whole(self, text: str) -> Reading | None:
        """The list that the whole text is, or why it is one of another length."""
        whole = self.grammar.read(text)
        if isinstance(whole, ScoreList):
            is_labelled = label_pattern(self.grammar.labels).match(plain(text))
            return self.scored(whole, "tolerant:label" if is_labelled else "tolerant:whole")
        return whole if whole.reason == Reason.COUNT else None

    def tolerant(self, text: str, echoes: Echoes) -> Reading:
        """The whole text as a list, or a list in a place; of a list that is none as a whole its own reason is told."""
        found = super().tolerant(text, echoes)
        if isinstance(found, Malformed) and found.reason in (Reason.NO_VERDICT, Reason.COUNT, Reason.OTHER_VALUE):
            whole = self.grammar.read(unfenced(text))
            says_more = isinstance(whole, Malformed) and whole.reason not in (Reason.NO_VERDICT, Reason.OTHER_VALUE)
            if isinstance(whole, Malformed) and (says_more or found.reason == Reason.NO_VERDICT):
                return whole
        return found

    def scored(self, value: ScoreList, stage: str, *notes: str) -> Scored:
        """The outcome of a list."""
        return self._scored(value.scores, stage, *value.coercions, *notes)

    def _scored(self, values: Sequence[int | float], stage: str, *notes: str) -> Scored:
        names = self.grammar.names
        verdict = dict(zip(names, values, strict=True)) if names else {"scores": list(values)}
        return Scored(verdict, Provenance(stage, notes))
