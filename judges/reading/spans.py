"""Where the `{…}` of a reply are, and whether one of them is given as the verdict.

One pass over the text, in linear time: a brace inside of a JSON string does not count, and an object or a string that
is left open anywhere makes the whole reply unreadable.
"""

from __future__ import annotations

import re

from judges.outcome import Malformed, Reason

from .clean import introduced, plain, retracted, without_fences

_MOST_OBJECTS = 16
_BRACE = re.compile(r"[{}]")
_IN_OBJECT = re.compile(r'["\'{}]')
_STRING_REST = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SINGLE_REST = re.compile(r"(?:[^'\\]|\\.|'(?!\s{0,20}[,:}\]]))*+'", re.DOTALL)
_WRAPPERS = {"[": "]", "(": ")", "`": "`", "*": "*", "**": "**"}
_TAG = re.compile(r"<(json|answer|output|result|verdict|evaluation|judge?ment|decision)>")
_INTRODUCED_HERE = re.compile(r"[.:!。：！]$")


def objects_in(text: str) -> list[tuple[int, int]] | Malformed:
    """The spans of the outermost balanced `{…}`; braces inside of strings do not count."""
    spans: list[tuple[int, int]] = []
    position = 0
    while opening := _BRACE.search(text, position):
        if opening[0] == "}":
            return Malformed(Reason.UNBALANCED, "a closing brace without an opening one")
        if len(spans) == _MOST_OBJECTS:
            return Malformed(Reason.AMBIGUOUS_MULTIPLE, f"more than {_MOST_OBJECTS} objects")
        depth, position = 1, opening.end()
        while depth:
            token = _IN_OBJECT.search(text, position)
            if token is None:
                return Malformed(Reason.UNBALANCED, "an object is left open")
            position = token.end()
            if token[0] == "'" and not _opens_single(text, token.start()):
                continue
            if token[0] in "\"'":
                closing = (_STRING_REST if token[0] == '"' else _SINGLE_REST).match(text, position)
                if closing is None:
                    return Malformed(Reason.UNBALANCED, "a string is left open")
                position = closing.end()
            else:
                depth += 1 if token[0] == "{" else -1
        spans.append((opening.start(), position))
    return spans


def _opens_single(text: str, position: int) -> bool:
    """Whether a single quote stands where a key or value does; elsewhere it is an apostrophe."""
    before = text[max(0, position - 60) : position].rstrip()
    return before.endswith(("{", "[", ",", ":"))


def stands_free(before: str, after: str) -> bool:
    """Whether an object is given as the verdict, not quoted in a sentence, reported, or withdrawn afterwards."""
    before, after = without_fences(before), without_fences(after)
    here = before.rpartition("\n")[2].strip()
    if before.endswith(("!", "！")) or here in ("!", "！"):
        return False
    if here and not _INTRODUCED_HERE.search(plain(here)):
        return False
    behind = after.partition("\n")[0].strip()
    return not behind.strip(".!*_` ") and introduced(before) and not retracted(after)


def around(text: str, span: tuple[int, int], verdicts: list[tuple[int, int]]) -> tuple[str, str]:
    """The text before and behind an object, without the other objects that give a verdict."""
    before = [other for other in verdicts if other[1] <= span[0]]
    after = [(start - span[1], stop - span[1]) for start, stop in verdicts if start >= span[1]]
    return outside(text[: span[0]], before), outside(text[span[1] :], after)


def without_heading(before: str) -> str:
    """The text before an object without the words that introduce it: its line, or the line above ending with `:`."""
    head, _, here = before.rpartition("\n")
    if here.strip():
        return head + "\n"
    above, _, last = head.rstrip().rpartition("\n")
    return above + "\n" if last.rstrip("*_ ").endswith(":") else before


def wrapped_alone(before: str, after: str) -> bool:
    """Whether there is nothing around an object but one matched wrapper: a list of one, marks, or a tag."""
    before, after = without_fences(before).strip(), without_fences(after).strip()
    if _WRAPPERS.get(before) == after:
        return True
    tag = _TAG.fullmatch(before)
    return tag is not None and after == f"</{tag[1]}>"


def outside(text: str, spans: list[tuple[int, int]]) -> str:
    pieces, end = [], 0
    for start, stop in spans:
        pieces.append(text[end:start])
        end = stop
    return "\n".join([*pieces, text[end:]])


def only_fences(rest: str) -> bool:
    return not without_fences(rest).strip()
