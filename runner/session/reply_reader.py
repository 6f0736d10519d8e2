"""Replies read without a run, by any judge: how one is read, as data, and lines of them as they come.

Hides which part of a reading needs no item, and how lines stay one to one: a line that is no reply is answered by a
line that says so. Memory does not grow with the number of lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import orjson

from judges import MAX_BATCH, Item, Judge, JudgeError, Malformed, Refused, Reply, Scored, load_judge
from runner.dataset.files import BOM, MAX_RECORD_BYTES
from runner.errors import InputError

CHUNK = 1 << 16
JUDGES = 100
"""How many judges are kept that lines name."""

_NO_ITEM = Item("", "", "", None, {})
_TEXTS = ("finish_reason", "refusal", "reasoning")


class Source(Protocol):
    """Bytes as they come in."""

    def read1(self, size: int, /) -> bytes:
        """What is there, up to `size`; it waits only where nothing is. Empty at the end."""


class Reader:
    """Reads replies by one judge."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        # What a trace or a judge's own code makes of a verdict depends on the item.
        self._by_item = "scoring" in judge.meaning or type(judge).scores is not Judge.scores

    def read(self, reply: Reply, count: int = 1) -> dict[str, Any]:
        """How the reply is read: state, verdict, scores, stage, reason and notes. InputError: the judge's code fails.

        `scores` is what the verdict is worth, where that needs no item; a list of several scores is one for each item,
        and stands in the verdict alone.
        """
        try:
            return self._read(reply, count)
        except Exception as error:
            if not self.judge.code:
                raise
            raise InputError(
                f"judge {self.judge.name!r}: its code cannot read this reply: {type(error).__name__}: {error}"
            ) from error

    def _read(self, reply: Reply, count: int) -> dict[str, Any]:
        reading = self.judge.read(reply, count)
        match reading:
            case Scored(verdict, provenance):
                scores = None
                if count == 1 and not self._by_item:
                    (own,) = self.judge.outcomes(reading, (_NO_ITEM,))
                    scores = self.judge.scores(own.verdict, _NO_ITEM) if isinstance(own, Scored) else None
                head = {"state": "scored", "verdict": verdict, "scores": scores, "stage": provenance.stage}
                return {**head, "reason": None, "notes": provenance.notes}
            case Malformed(code, _):
                return _without_verdict("malformed", code.value)
            case Refused(by, _):
                return _without_verdict("refused", by)


def count_fault(count: int, judge: Judge | None) -> str | None:
    """Why no reply, or none of the judge's, can hold so many scores."""
    if not 1 <= count <= MAX_BATCH:
        return f"count must be 1 to {MAX_BATCH}, the most items that are asked about in one request"
    if count > 1 and judge is not None and not judge.is_list:
        return f"count is for judges whose reply is a list of scores; {judge.name} reads one verdict"
    return None


@dataclass(frozen=True, slots=True)
class ReplyDefaults:
    """What holds for the lines that do not say otherwise."""

    reader: Reader | None = None
    count: int | None = None
    finish_reason: str = "stop"


def read_lines(source: Source, defaults: ReplyDefaults) -> Iterator[bytes]:
    """A line of JSON for each line of `source`, in blocks: what came in together goes out together."""
    number = 0
    read = _line_reader(defaults)
    for lines in _lines(source):
        answers = []
        for line in lines:
            number += 1
            answers.append(as_json(read(number, line)))
        yield b"\n".join([*answers, b""])


def as_json(answer: dict[str, Any]) -> bytes:
    """As one line of JSON."""
    try:
        return orjson.dumps(answer)
    except TypeError:
        # A lone surrogate, or a number beyond 64 bits.
        return json.dumps(answer).encode()


class _LineError(ValueError):
    """What is wrong with a line."""


def _line_reader(defaults: ReplyDefaults) -> Any:
    @lru_cache(JUDGES)
    def load(name: str) -> Reader | str:
        # A Python judge is code, and a line of data must not run code.
        if ".py" in name and not name.endswith((".yaml", ".yml")):
            return f"the judge {name!r} is Python: only --judge may name it"
        try:
            return Reader(load_judge(name, Path()))
        except JudgeError as error:
            return str(error)

    def reader_of(row: dict[str, Any]) -> Reader:
        name = row.get("judge")
        if name is None:
            if defaults.reader is None:
                raise _LineError("judge is missing: neither the line nor --judge names one")
            return defaults.reader
        if not isinstance(name, str):
            raise _LineError("judge must be a name or a path")
        if defaults.reader is not None and name == defaults.reader.judge.name:
            return defaults.reader
        loaded = load(name)
        if isinstance(loaded, str):
            raise _LineError(loaded)
        return loaded

    def read(number: int, line: bytes | None) -> dict[str, Any]:
        try:
            row = _row(line if number > 1 or line is None else line.removeprefix(BOM))
            reader = reader_of(row)
            return reader.read(_reply(row, defaults.finish_reason), _count(row, reader, defaults.count))
        except _LineError as error:
            return _without_verdict("error", f"line {number}: {error}")
        except InputError as error:
            return _without_verdict("error", f"line {number}: {error.message}")

    return read


def _without_verdict(state: str, reason: str) -> dict[str, Any]:
    return {"state": state, "verdict": None, "scores": None, "stage": None, "reason": reason, "notes": ()}


def _row(line: bytes | None) -> dict[str, Any]:
    if line is None:
        raise _LineError(f"is longer than {MAX_RECORD_BYTES >> 20} MiB")
    if not line.strip():
        raise _LineError("is empty")
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        row = _with_surrogates(line, error)
    if not isinstance(row, dict):
        raise _LineError("is no JSON object")
    return row


def _with_surrogates(line: bytes, error: orjson.JSONDecodeError) -> Any:
    """The line as JSON where all that is unusual is an escaped lone surrogate, which endpoints do send."""
    if b"\\u" in line:
        try:
            return json.loads(line.decode())
        except (ValueError, RecursionError):
            pass
    raise _LineError(f"is not JSON: {error}") from None


def _reply(row: dict[str, Any], finish_reason: str) -> Reply:
    try:
        text = row["text"]
    except KeyError:
        raise _LineError("text is missing: the reply, as a string or null") from None
    if text is not None and not isinstance(text, str):
        raise _LineError("text must be a string or null")
    if row.keys().isdisjoint(_TEXTS):
        return Reply(text, finish_reason)
    for name in _TEXTS:
        if not isinstance(row.get(name), str | None):
            raise _LineError(f"{name} must be a string or null")
    finish_reason = row.get("finish_reason") or finish_reason
    judged = (row["response"],) if row.get("response") else ()
    return Reply(text, finish_reason, row.get("refusal"), row.get("reasoning"), judged)


def _count(row: dict[str, Any], reader: Reader, default: int | None) -> int:
    count = row.get("count")
    if count is None:
        return default if default is not None and reader.judge.is_list else 1
    if not isinstance(count, int) or isinstance(count, bool):
        raise _LineError("count must be a whole number")
    if fault := count_fault(count, reader.judge):
        raise _LineError(fault)
    return count


def _lines(source: Source) -> Iterator[list[bytes | None]]:
    """Whole lines without their ends, those of a block together; None stands for one that is too long."""
    begun: list[bytes] = []
    size = 0
    while block := source.read1(CHUNK):
        first, *others = block.split(b"\n")
        size += len(first)
        # What is too long is counted, and no more of it kept.
        if size <= MAX_RECORD_BYTES:
            begun.append(first)
        if others:
            yield [b"".join(begun) if size <= MAX_RECORD_BYTES else None, *others[:-1]]
            begun, size = [others[-1]], len(others[-1])
    if size:
        yield [b"".join(begun) if size <= MAX_RECORD_BYTES else None]
