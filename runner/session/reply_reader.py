"""Replies read without a run, by any judge: how one is read, as data, and lines of them as they come.

Hides which part of a reading needs no item, and how lines stay one to one: a line that is no reply is answered by a
line that says so. Memory does not grow with the number of lines.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from judges import MAX_BATCH, Item, Judge, JudgeError, Outcome, Reply, Scored, load_judge, reason_of
from runner.dataset.files import BOM, MAX_RECORD_BYTES
from runner.errors import InputError

CHUNK = 1 << 16
JUDGES = 100
"""How many judges are kept that lines name."""

_NO_ITEM = Item("", "", "", None, {})
_TEXTS = ("text", "finish_reason", "refusal", "reasoning", "response")


def reading_document(reading: Outcome, scores: Mapping[str, float] | None) -> dict[str, Any]:
    """How a reply is read, as data."""
    if isinstance(reading, Scored):
        head = {"state": "scored", "verdict": dict(reading.verdict), "scores": scores}
        return {**head, "stage": reading.provenance.stage, "reason": None, "notes": reading.provenance.notes}
    return _without_verdict(reading.state, reason_of(reading), scores)


def _without_verdict(state: str, reason: str | None, scores: Mapping[str, float] | None = None) -> dict[str, Any]:
    return {"state": state, "verdict": None, "scores": scores, "stage": None, "reason": reason, "notes": ()}


class Reader:
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
            reading, scores = self.judge.read(reply, count), None
            if isinstance(reading, Scored) and count == 1 and not self._by_item:
                (own,) = self.judge.outcomes(reading, (_NO_ITEM,))
                scores = self.judge.scores(own.verdict, _NO_ITEM) if isinstance(own, Scored) else None
        except Exception as error:
            if not self.judge.code:
                raise
            raise InputError(
                f"judge {self.judge.name!r}: its code cannot read this reply: {type(error).__name__}: {error}"
            ) from error
        return reading_document(reading, scores)


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


def read_lines(source: BinaryIO, defaults: ReplyDefaults) -> Iterator[bytes]:
    """A line of JSON for each line of `source`, as soon as that is there."""
    read = _line_reader(defaults)
    for number, line in enumerate(_lines(source), 1):
        yield as_json(read(number, line)) + b"\n"


def _lines(source: BinaryIO) -> Iterator[bytes | None]:
    """Lines without their ends; None stands for one that is too long, which is not kept."""
    while line := source.readline(MAX_RECORD_BYTES + 1):
        is_long = len(line) > MAX_RECORD_BYTES and not line.endswith(b"\n")
        rest = line if is_long else b""
        while rest and not rest.endswith(b"\n"):
            rest = source.readline(CHUNK)
        yield None if is_long else line.removesuffix(b"\n")


def as_json(answer: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(answer)
    except TypeError:
        # A lone surrogate, or a number beyond 64 bits.
        return json.dumps(answer).encode()


class _LineError(ValueError):
    """What is wrong with a line."""


def _line_reader(defaults: ReplyDefaults) -> Callable[[int, bytes | None], dict[str, Any]]:
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
        if name is None and defaults.reader is None:
            raise _LineError("judge is missing: neither the line nor --judge names one")
        if defaults.reader is not None and name in (None, defaults.reader.judge.name):
            return defaults.reader
        if not isinstance(name, str):
            raise _LineError("judge must be a name or a path")
        loaded = load(name)
        if isinstance(loaded, str):
            raise _LineError(loaded)
        return loaded

    def read(number: int, line: bytes | None) -> dict[str, Any]:
        try:
            row = _row(line if number > 1 or line is None else line.removeprefix(BOM))
            reader = reader_of(row)
            return reader.read(_reply(row, defaults.finish_reason), _count(row, reader, defaults.count))
        except (_LineError, InputError) as error:
            return _without_verdict("error", f"line {number}: {error}")

    return read


def _row(line: bytes | None) -> dict[str, Any]:
    if line is None:
        raise _LineError(f"is longer than {MAX_RECORD_BYTES >> 20} MiB")
    if not line.strip():
        raise _LineError("is empty")
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        problem = _LineError(f"is not JSON: {error}")
        if b"\\u" not in line:
            raise problem from None
        try:
            row = json.loads(line.decode())  # which takes an escaped lone surrogate: endpoints do send them
        except (ValueError, RecursionError):
            raise problem from None
    if not isinstance(row, dict):
        raise _LineError("is no JSON object")
    return row


def _reply(row: dict[str, Any], finish_reason: str) -> Reply:
    if "text" not in row:
        raise _LineError("text is missing: the reply, as a string or null")
    for name in _TEXTS:
        if not isinstance(row.get(name), str | None):
            raise _LineError(f"{name} must be a string or null")
    judged = (row["response"],) if row.get("response") else ()
    finish_reason = row.get("finish_reason") or finish_reason
    return Reply(row["text"], finish_reason, row.get("refusal"), row.get("reasoning"), judged)


def _count(row: dict[str, Any], reader: Reader, default: int | None) -> int:
    count = row.get("count")
    if count is None:
        return default if default is not None and reader.judge.is_list else 1
    if not isinstance(count, int) or isinstance(count, bool):
        raise _LineError("count must be a whole number")
    if fault := count_fault(count, reader.judge):
        raise _LineError(fault)
    return count
