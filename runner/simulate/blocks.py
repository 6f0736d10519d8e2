"""The numbered blocks of a batch: where one item ends and the next begins, as far as a text can tell.

The first line holds the marker with the number 1 (`Question 1:`, `[1]`, `### Item 1`). Block k+1 begins where, after a
blank line, a line opens with the same marker and the next number. So `Question 3:` in the only block begins nothing:
there was no 2. `Question 2:` in it begins a block only if the lines that make a block stand below it: the labels of the
first block that the instructions name too (`True answer:`, `Answer from model:`), or, where they name none, any label
of the first block. An answer that holds a whole block of the layout cannot be told from one, by a model as little as
here: it is answered as two.
"""

from __future__ import annotations

import re

_FIRST = re.compile(r"\s*([^\d\n]{0,40})1(?!\w)([^\w\s]?)")
_LABELLED = re.compile(r"\n([^\W\d][^\n:]{0,39}):")


def blocks_in(text: str, instructions: str) -> tuple[tuple[str, str], ...]:
    """Each block whole, and its content without the marker: what stands in it whatever its number."""
    first = _FIRST.match(text)
    if first is None:
        return ((text, text.rstrip()),)
    behind = re.escape(first[2]) if first[2] else r"(?=\s)"
    marks = list(re.finditer(rf"\n\n({re.escape(first[1])}(\d+){behind})", text))
    numbers = [int(mark[2]) for mark in marks]
    opening = text[: marks[numbers.index(2)].start()] if 2 in numbers else text
    labels = [f"\n{label}:" for label in dict.fromkeys(_LABELLED.findall(opening))]
    named = [label for label in labels if label[1:] in instructions]
    begins = [(first.start(), first.end())]
    for index, mark in enumerate(marks):
        if numbers[index] != len(begins) + 1:
            continue
        after = (
            other.start()
            for other, number in zip(marks[index:], numbers[index:], strict=True)
            if number > numbers[index]
        )
        below = text[mark.end() : next(after, len(text))]
        if all(label in below for label in named) if named else not labels or any(label in below for label in labels):
            begins.append((mark.start(1), mark.end(1)))
    ends = [start - 2 for start, _ in begins[1:]] + [len(text)]
    return tuple(
        (text[start:end], text[content:end].strip()) for (start, content), end in zip(begins, ends, strict=True)
    )
