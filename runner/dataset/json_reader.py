"""Rows of JSON: one object a line, or the elements of one array, alone or within an object, by the same strict decoder.

Hides how values keep their type, how every fault keeps its place, and that memory does not grow with the file.
"""

from __future__ import annotations

import codecs
import io
import json
import math
import re
from collections.abc import Iterator
from typing import Any

from .files import (
    BOM,
    CHUNK,
    DAMAGE,
    MAX_ROW_BYTES,
    REST_LOST,
    Record,
    Row,
    RowError,
    UnsupportedValueError,
    describe_damage,
    describe_encoding_error,
)

_SPACE = re.compile(r"[ \t\r\n]*")
_EXPONENT = len("e+")
"""What may stand between the end of a number cut short and the window's end."""
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def json_lines(file: io.BufferedReader[Any], nan_is_null: bool = False) -> Iterator[Row]:
    """One JSON object a line; blank lines are passed over. `nan_is_null`: as Python writes what was not measured."""
    offset = 0
    line = 0
    while True:
        try:
            raw = file.readline(MAX_ROW_BYTES + 1)
            long = len(raw) > MAX_ROW_BYTES
            start, offset, line = offset, offset + len(raw), line + 1
            while long and not raw.endswith(b"\n") and (raw := file.readline(CHUNK)):
                offset += len(raw)
        except DAMAGE as error:
            yield line + 1, describe_damage(error)
            return
        if long:
            yield line, RowError(f"the line is longer than {MAX_ROW_BYTES:,} bytes")
            continue
        if not raw:
            return
        if line == 1 and raw.startswith(BOM):
            raw, start = raw[3:], start + 3
        if raw.isspace():
            continue
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            yield line, describe_encoding_error(start + error.start)
            continue
        yield line, json_record(text, nan_is_null)


def json_array(file: io.BufferedReader[Any]) -> Iterator[Row]:
    """The objects of one JSON array, an element at a time, by the same decoder as lines: ijson knows neither line
    numbers nor keys given twice."""
    return _ArrayStream(file, _STRICT).read(None, {})


def json_member(file: io.BufferedReader[Any], name: str, before: Record) -> Iterator[Row]:
    """The objects of an array that is a member of the file's one object; what stands before it goes into `before`.

    NaN is read as null, and nothing after the array is looked at.
    """
    return _ArrayStream(file, _NAN_IS_NULL).read(name, before)


class _ArrayStream:
    """A window of text over the file, moved on element by element."""

    def __init__(self, file: io.BufferedReader[Any], decoder: json.JSONDecoder) -> None:
        self._file = file
        self._decode = decoder.raw_decode
        # Bytes that are no UTF-8 become lone surrogates, so that only the element that holds them is at fault.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._text = ""
        self._at = 0
        self._ended = False
        self._damage: BaseException | None = None
        self._offset = 0
        self.line = 1

    def read(self, member: str | None, before: Record) -> Iterator[Row]:
        """The rows; what ends them early becomes a RowError at its line."""
        try:
            if self._next() == "\ufeff":
                self._move(1)
            yield from self._array() if member is None else self._member(member, before)
        except DAMAGE as error:
            yield self.line, describe_damage(error)
        except json.JSONDecodeError as error:
            yield self.line, RowError(f"not JSON: {error.msg}; {REST_LOST}")

    def _array(self) -> Iterator[Row]:
        if self._next() != "[":
            raise json.JSONDecodeError("the file holds no array (one object a line: items.format: jsonl)", "", 0)
        self._move(1)
        if self._next() == "]":
            self._move(1)
        else:
            yield from self._elements()
        if self._next():
            raise json.JSONDecodeError("something follows the array", "", 0)

    def _member(self, name: str, before: Record) -> Iterator[Row]:
        mark = self._next()
        if mark != "{":
            raise json.JSONDecodeError("the file holds no object", "", 0)
        while mark != "}":
            self._move(1)
            self._next()
            key = self._take_value()
            if not isinstance(key, str) or self._next() != ":":
                raise json.JSONDecodeError("expecting a name and ':'", "", 0)
            self._move(1)
            if key == name and self._next() == "[":
                self._move(1)
                if self._next() != "]":
                    yield from self._elements()
                return
            self._next()
            before[key] = self._take_value()
            mark = self._next()
            if mark not in (",", "}"):
                raise json.JSONDecodeError("expecting ',' or '}' after a member", "", 0)
        raise json.JSONDecodeError(f"the object has no array {name!r}", "", 0)

    def _take_value(self) -> Any:
        """The value at hand; moves on behind it."""
        end, value, problem = self._value()
        if problem is not None:
            raise json.JSONDecodeError(problem, "", 0)
        self._move(end - self._at)
        return value

    def _elements(self) -> Iterator[Row]:
        while True:
            self._next()
            end, value, problem = self._value()
            text = self._text[self._at : end]
            if problem is None:
                row = _check_record(value, text)
            else:
                row = RowError(problem, value if isinstance(value, dict) else None)
            try:
                text.encode()
            except UnicodeEncodeError as error:
                before = text[: error.start].encode("utf-8", "surrogateescape")
                row = describe_encoding_error(self._offset + len(before))
            yield self.line, row
            self._move(end - self._at)
            mark = self._next()
            if mark not in (",", "]"):
                raise json.JSONDecodeError("expecting ',' or ']' after an element", "", 0)
            self._move(1)
            if mark == "]":
                return

    def _value(self) -> tuple[int, Any, str | None]:
        """Where the value at hand ends, the value, and why it has no place in an item.

        The window grows, doubling, until all of it is there.
        """
        while True:
            try:
                try:
                    value, end = self._decode(self._text, self._at)
                except UnsupportedValueError as error:
                    value, end = _LENIENT.raw_decode(self._text, self._at)
                    return end, value, str(error)
                if not isinstance(value, int | float) or self._ended or len(self._text) - end > _EXPONENT:
                    return end, value, None
                # A number at the window's end may go on after it.
            except json.JSONDecodeError as error:
                # Cut off by the window's end, or wrong? A cut string is reported where it starts, all else where it is.
                cut = error.msg.startswith("Unterminated string") or error.pos > len(self._text) - 16
                if self._ended or not cut:
                    self._move(error.pos - self._at)
                    raise
            except RecursionError:
                raise json.JSONDecodeError("nested too deeply", "", 0) from None
            except ValueError as error:
                raise json.JSONDecodeError(str(error), "", 0) from None
            if len(self._text) - self._at > MAX_ROW_BYTES:
                raise json.JSONDecodeError(f"an element is longer than {MAX_ROW_BYTES:,} bytes", "", 0)
            self._fill(max(CHUNK, len(self._text) - self._at))

    def _fill(self, size: int) -> None:
        if self._damage is not None:
            raise self._damage
        parts = []
        while size > 0 and self._damage is None and not self._ended:
            try:
                parts.append(self._file.read1(size))
                self._ended = not parts[-1]
                size -= len(parts[-1])
            except DAMAGE as error:  # reported after the elements before it
                self._damage = error
        data = self._decoder.decode(b"".join(parts), final=self._ended)
        self._text = self._text[self._at :] + data
        self._at = 0

    def _move(self, count: int) -> None:
        text = self._text[self._at : self._at + count]
        self.line += text.count("\n")
        self._offset += len(text.encode("utf-8", "surrogateescape"))
        self._at += count

    def _next(self) -> str:
        """The next character that is not white space, or nothing at the end."""
        while True:
            match = _SPACE.match(self._text, self._at)
            self._move((match.end() if match else self._at) - self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._fill(CHUNK)


def json_record(text: str, nan_is_null: bool = False) -> Record | RowError:
    """The object that the text is."""
    try:
        value = (_NAN_IS_NULL if nan_is_null else _STRICT).decode(text)
    except json.JSONDecodeError as error:
        return RowError(f"not JSON: {error.msg} (column {error.colno})")
    except UnsupportedValueError as error:
        value = _LENIENT.decode(text)
        return RowError(str(error), value if isinstance(value, dict) else None)
    except RecursionError:
        return RowError("not usable JSON: nested too deeply")
    except ValueError as error:
        return RowError(f"not usable JSON: {error}")
    return _check_record(value, text)


def _check_record(value: Any, text: str) -> Record | RowError:
    if not isinstance(value, dict):
        return RowError(f"not a JSON object but {_kind(value)}")
    if _ESCAPED_SURROGATE.search(text):
        for name, entry in value.items():
            try:
                json.dumps([name, entry], ensure_ascii=False).encode()
            except UnicodeEncodeError:
                return RowError(f"column {name!a} holds half of a surrogate pair (as \\ud83d alone)", value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> Record:
    record = dict(pairs)
    if len(record) != len(pairs):
        for name, value in pairs:
            # By their JSON, since True == 1 == 1.0 in Python.
            if json.dumps(value) != json.dumps(record[name]):
                raise UnsupportedValueError(f"the key {name!a} is given twice with different values")
    return record


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise UnsupportedValueError(f"the number {text[:40]} is too large")
    return value


def _constant(text: str) -> Any:
    raise UnsupportedValueError(f"{text} is not a value of JSON")


_STRICT = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
_NAN_IS_NULL = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=lambda text: None)
_LENIENT = json.JSONDecoder()


def _kind(value: Any) -> str:
    kinds = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
