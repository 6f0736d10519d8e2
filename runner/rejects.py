"""Rows that make no item: listed and left out, or collected for one error that names the first few."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from .errors import ItemError
from .staged import REJECTS
from .stagedfiles import open_private, sync

SHOWN = 10
_ID_CHARACTERS = 80


class Rejects:
    """Takes every bad row. Under `on_bad: stop` it raises at the tenth, or when the rows are through."""

    def __init__(self, directory: Path, on_bad: Literal["stop", "skip"]) -> None:
        self._stop = on_bad == "stop"
        self._path = directory / REJECTS
        self._file = open_private(self._path)
        self._first: list[str] = []
        self.count = 0

    def add(self, file: str, line: int, item_id: str | None, problem: str) -> None:
        """A bad row and where it stands."""
        self.count += 1
        if len(self._first) < SHOWN:
            # An id may hold what no terminal prints, such as half a surrogate pair.
            shown = "" if item_id is None else f" {item_id[:_ID_CHARACTERS]}:"
            text = f"{file}:{line}:{shown} {problem}"
            self._first.append(text.encode("utf-8", "backslashreplace").decode())
        self._file.write(json.dumps({"file": file, "line": line, "id": item_id, "problem": problem}) + "\n")
        if self._stop and self.count == SHOWN:
            self.check(through=False)

    def check(self, through: bool = True) -> None:
        """Raise if rows were rejected and the config says to stop. `through`: all rows have been looked at."""
        if self._stop and self.count:
            head = f"{self.count} bad row{'s' * (self.count > 1)}" if through else f"the first {SHOWN} bad rows"
            raise ItemError(
                f"{head}; nothing was asked\n{self.listing()}\n"
                "Mend them, or set items.on_bad: skip to leave them out (they are then listed and counted)"
            )

    def listing(self) -> str:
        """The first bad rows, a line each."""
        return "\n".join(f"  {line}" for line in self._first)

    def close(self) -> None:
        """End the list."""
        self._file.close()
        sync(self._path)
