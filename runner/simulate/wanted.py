"""What a request wants: the form of the reply, and the texts that each get a verdict.

What the request demands by a schema or a list of choices comes first, then the words of its instructions: a system
message is nothing but these. Without one they stand in the last paragraph, or in the first ones: what is judged stands
between and must not change how the reply looks. A last paragraph that opens with the label of a slot is what is judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from .blocks import blocks_in
from .forms import YESNO, Form, form_in, scale_in
from .objects import pick
from .prompts import Prompt
from .verdicts import Verdict, drawn

_SLOT = re.compile(
    r"(?:[\w'’ ]{0,30} )?(?:question|response|answer|reference|rubric|document|context|output|completion|explanation)s?"
    r"\b[^\n:.?!]{0,20}:(?=\s)",
    re.I,
)
_FIRST_SLOT = re.compile(rf"^{_SLOT.pattern}", re.I | re.M)
_USUAL_OBJECT = form_in("JSON")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one request wants."""

    form: Form
    blocks: tuple[tuple[str, str], ...] = ()
    """Of a batch: each block whole, and its content without its number."""

    @property
    def scores(self) -> int:
        """How many scores make the reply; 0 where it is none of scores."""
        if self.form.kind != "scores":
            return 0
        return len(self.blocks) if self.form.each else self.form.count


def wanted_by(prompt: Prompt) -> Wanted:
    """Read a prompt."""
    if prompt.structure is None and not prompt.told and (plain := _plainly(_last(prompt.asked))) is not None:
        return plain
    form = _told(prompt)
    blocks = blocks_in(prompt.asked, prompt.told) if form.each else ()
    if prompt.structure is None:
        return Wanted(form, blocks)
    kind, demanded = prompt.structure
    if kind == "schema":
        return Wanted(Form("object", schema=demanded), blocks)
    if kind == "choice":
        labels = tuple(str(choice) for choice in demanded)
        yesno = len(labels) == 2 and pick(labels, Verdict(True)).lower() == "yes"
        return Wanted(replace(YESNO, labels=labels) if yesno else Form("choice", labels=labels))
    if kind == "regex":
        return Wanted(form, blocks) if form.kind == "scores" else Wanted(_matching(demanded))
    assert _USUAL_OBJECT is not None
    return Wanted(form if form.kind == "object" else _USUAL_OBJECT)


def _matching(pattern: str) -> Form:
    """One number that a pattern allows first: of a list of alternatives their scale."""
    numbers = [int(number) for number in re.findall(r"\d+", pattern.partition(")")[0])]
    return Form("scores", min(numbers, default=0), max(numbers, default=5), scaled=True)


@lru_cache(maxsize=128)
def _plainly(last: str) -> Wanted | None:
    """What the last paragraph wants, where that alone tells; kept, for it is the same in every prompt of a template."""
    form = None if _SLOT.match(last) else form_in(last)
    return None if form is None or form.kind == "scores" else Wanted(form)


def verdicts_on(wanted: Wanted, prompt: Prompt, seed: int, yes: float) -> tuple[Verdict, ...]:
    """The verdicts that are made up for a prompt: of a batch one for each block, from its content alone."""
    if wanted.blocks:
        return tuple(drawn(seed, yes, content) for _, content in wanted.blocks)
    first = drawn(seed, yes, prompt.asked)
    if wanted.form.count == 1:
        return (first,)
    return (first, *(drawn(seed, yes, f"{prompt.asked}\0{number}") for number in range(1, wanted.form.count)))


def _told(prompt: Prompt) -> Form:
    """The form that the words ask for."""
    if prompt.told and (found := _instructed(prompt.told)) is not None:
        return found
    return _scaled(_between(prompt.asked), f"{_first(prompt.asked)}\n{_last(prompt.asked)}")


@lru_cache(maxsize=128)
def _instructed(told: str) -> Form | None:
    """The form that a system message asks for; its last words may leave to the others what the scale is."""
    found = _in_order(_last(told), told)
    return None if found is None else _scaled(found, told)


def _between(text: str) -> Form | None:
    """The form that is named after what is judged, or before it."""
    last = _last(text)
    if _SLOT.match(last):
        return _in_order(_first(text), last)
    return form_in(last) or form_in(_first(text))


def _in_order(*places: str) -> Form | None:
    for place in places:
        if (found := form_in(place)) is not None:
            return found
    return None


def _scaled(form: Form | None, words: str) -> Form:
    if form is None:
        return YESNO
    if form.kind != "scores" or form.scaled:
        return form
    scale = scale_in(words)
    return form if scale is None else replace(form, low=scale[0], high=scale[1], scaled=True)


def _first(text: str) -> str:
    """What stands before the first slot; the first paragraph where no slot can be seen."""
    slot = _FIRST_SLOT.search(text)
    return text[: slot.start()] if slot else text.strip().split("\n\n", 1)[0]


def _last(text: str) -> str:
    """The last paragraph, or what stands below the last heading."""
    text = text.rstrip()
    start = text.rfind("\n\n") + 1
    heading = text.rfind("---\n", start)
    return text[(heading + 4 if heading >= 0 else start) :].lstrip()
