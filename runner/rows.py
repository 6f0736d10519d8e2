"""What every reader of a file format gives: a place in the file and a row, or what is wrong with it.

A fault is a value here: whether it stops the run is for the caller to say.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
import zlib
from dataclasses import dataclass
from typing import Any

MAX_ROW_BYTES = 64 * 1024 * 1024
"""Longest line, field or array element that is read as an item: no model takes a tenth of it."""
MAX_RECORD_BYTES = 256 * 1024 * 1024
"""The same where an item is a small part of it: logs of evaluations."""

CHUNK = 1 << 20
BOM = b"\xef\xbb\xbf"
DAMAGE = (EOFError, OSError, zlib.error)
"""What reading a damaged file raises, a cut or corrupt gzip above all."""
REST_LOST = "the rest of the file cannot be read"

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a row; `record` is the row itself where it could be read all the same, to name its id."""

    text: str
    record: Record | None = None


Row = tuple[int, Record | Fault]
"""Line of the file (JSON, CSV: counted from 1, where the row starts) or number of the row (Parquet), and the row."""


class UnfitError(ValueError):
    """A value that has no place in an item, though the format would allow it."""


def scalar(value: Any) -> str:
    """A single value that JSON lacks, as text: ISO dates and times, exact decimals by their digits; else UnfitError."""
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | uuid.UUID | datetime.timedelta):
        return str(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise UnfitError(f"a binary value is not UTF-8 at its byte {error.start}") from None
    raise UnfitError(f"a value of type {type(value).__name__} has no place in an item")


def not_utf8(byte: int) -> Fault:
    """Bytes that are no text; `byte` counts from the file's start, unzipped."""
    return Fault(f"not UTF-8 at byte {byte} of the file (counted from 0)")


def damaged(error: BaseException) -> Fault:
    """The file breaks off, or cannot be unzipped any further."""
    return Fault(f"damaged file: {error}; {REST_LOST}")
