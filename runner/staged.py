"""What staging leaves: the staged items read in slices by row number, and the summary that says what they are.

Hides the layout of the directory, and how one is switched for another so that a crash leaves one of them whole.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ItemError
from .sample import Drawn
from .stagedfiles import RowGroups, open_private, sync

if TYPE_CHECKING:
    import polars

REJECTS = "rejects.jsonl"
_STAGE = "stage.json"
LAYOUT = 2
"""Version 2 has the signs of each item and control items; 1 is still read."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What stage.json holds: what was staged from what, and what was left out."""

    signature: dict[str, Any]
    """What `input_signature` gave when the inputs were read."""
    rows: int
    duplicates: int
    """Rows left out since another row of the same (system, id) says the same."""
    rejects: int
    """Bad rows left out under `on_bad: skip`, each listed in rejects.jsonl."""
    coverage: dict[str, tuple[int, int]]
    """System → (distinct questions with a staged row, questions)."""
    empty: dict[str, int]
    """System → staged rows whose response is empty or null."""
    judges: dict[str, dict[str, Any]]
    """Judge → `trials`, `unrouted`, `cautions` (text → items), `fingerprint`."""
    files: list[int] = field(default_factory=list)
    """Rows of each Parquet file."""
    sample: Drawn | None = None
    """The rows are a sample of those that there were."""
    controls: int = 0
    """Control items, in the rows after those of the items."""
    several: dict[str, int] = field(default_factory=dict)
    """System → questions to which it has several answers, where there are any."""
    signs: str | None = None
    """Version of the list of signs by which judged text is suspected of steering a judge; None: none was used."""


class Staged:
    """Staged items, read in slices by row number."""

    def __init__(self, directory: Path, summary: Summary) -> None:
        self.directory = directory
        self.summary = summary
        self.signature = summary.signature
        self.rows = summary.rows
        """Items; the rows of control items follow theirs."""
        self.controls = summary.controls
        self.signs = summary.signs
        self.duplicates = summary.duplicates
        self.rejects = summary.rejects
        self.coverage = summary.coverage
        self.several = summary.several
        self.empty = summary.empty
        self.judges = summary.judges
        self.sample = summary.sample
        self._end = summary.rows + summary.controls
        self._files = RowGroups(directory, summary.files)

    def frame(self, first_row: int, rows: int, columns: list[str] | None = None) -> polars.DataFrame:
        """The rows from `first_row` on, as many as there are up to `rows`, all columns unless some are named.

        Slices that follow one another are cheap: the last few row groups stay decoded.
        """
        import polars

        parts = self._files.slices(first_row, max(0, min(rows, self._end - first_row)), columns)
        frames = [polars.DataFrame(polars.from_arrow(part)) for part in parts]
        return polars.concat(frames, rechunk=False)

    def is_control(self, row: int) -> bool:
        """Whether a row is a control item's."""
        return row >= self.rows

    def trial_counts(self, judge: str, first_row: int, rows: int) -> int:
        """How many of those rows the judge routes."""
        column = f"template:{judge}"
        parts = self._files.slices(first_row, max(0, min(rows, self._end - first_row)), [column])
        return sum(part.num_rows - part.column(column).null_count for part in parts)


def save_summary(directory: Path, summary: Summary) -> None:
    """Write stage.json, the last file of a staged directory."""
    path = directory / _STAGE
    with open_private(path) as file:
        json.dump({"version": LAYOUT, **asdict(summary)}, file, ensure_ascii=False, indent=1)
    sync(path)


def load_staged(directory: Path) -> Staged:
    """The staged items of a directory that `stage` wrote."""
    restore(directory)
    try:
        data: Mapping[str, Any] = json.loads((directory / _STAGE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ItemError(f"{directory}: holds no staged items ({error})") from None
    if data.get("version") not in (1, LAYOUT):
        raise ItemError(f"{directory}: was staged by another version of jurybox")
    known = {name: value for name, value in data.items() if name != "version"}
    known["coverage"] = {system: (answered, total) for system, (answered, total) in data["coverage"].items()}
    known["sample"] = None if data.get("sample") is None else Drawn(**data["sample"])
    return Staged(directory, Summary(**known))


def new_directory(directory: Path) -> Path:
    """An empty directory beside `directory`, to be switched for it once it is whole."""
    restore(directory)
    fresh = directory.with_name(f"{directory.name}.new")
    for left in (fresh, _old(directory)):
        if left.exists():
            shutil.rmtree(left)
    fresh.mkdir(mode=0o700, parents=True)
    return fresh


def switch(fresh: Path, directory: Path) -> None:
    """Put `fresh` in the place of `directory`. Between the two renames the old one is found again by `restore`."""
    sync(fresh)
    old = _old(directory)
    if directory.exists():
        directory.rename(old)
    fresh.rename(directory)
    sync(directory.parent)
    if old.exists():
        shutil.rmtree(old)


def restore(directory: Path) -> None:
    """Undo a switch that a crash cut in half."""
    if not directory.exists() and _old(directory).exists():
        _old(directory).rename(directory)


def _old(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.old")
