"""Two systems of a run side by side, as frames: how far they are apart, and the questions that flip.

Over everything that is judged so far, published or not, a frame at a time: what is kept is a row for each
question, and the texts of those that flip.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import orjson
import polars as pl

from judges import Judge
from runner.config import RunConfig
from runner.dataset import Staged
from runner.errors import InputError
from runner.ledger.ledger import Ledger
from runner.publishing.result_frames import judgment_frames
from runner.stats.counting import explode_map
from runner.stats.paired import compare_two

_ROWS = 20_000
_KEYS = ["judge", "model", "score"]
DIFFERENCE_COLUMNS: dict[str, Any] = {
    **dict.fromkeys([*_KEYS, "first", "second"], pl.String), "questions": pl.Int64,
    **dict.fromkeys(["first_value", "second_value", "difference", "low", "high"], pl.Float64),
    "test": pl.String, "p": pl.Float64, "won": pl.Int64, "lost": pl.Int64, "questions_to_settle": pl.Int64,
}  # fmt: skip
"""Column → type of `compare`: a row for each judge × model × score."""
FLIP_COLUMNS: dict[str, Any] = {
    "question_id": pl.String, **dict.fromkeys(_KEYS, pl.String),
    **dict.fromkeys(["first_value", "second_value", "difference"], pl.Float64),
    **dict.fromkeys(["question", "reference", "first_response", "second_response"], pl.String),
    **dict.fromkeys(["first_item_id", "second_item_id"], pl.String),
}  # fmt: skip
"""Column → type of `flips`: a row for each question, judge × model and score."""

Parts = tuple[RunConfig, Mapping[str, Judge], Staged, Ledger]
"""What a run is made of."""


def compare(run: Parts, first: str, second: str) -> pl.DataFrame:
    _check_systems(run, first, second)
    scales = {judge.name: judge.scales() for judge in run[1].values()}
    sums = _sums(_frames(run), (first, second)).rename({"score": "name", "question_id": "question"})
    pairs = [asdict(pair) for pair in compare_two(sums, scales, first, second)]
    rows = [[pair[name] for name in DIFFERENCE_COLUMNS] for pair in pairs]
    return pl.DataFrame(rows, schema=DIFFERENCE_COLUMNS, orient="row")


def flips(run: Parts, first: str, second: str) -> pl.DataFrame:
    """The questions where the two have different values: what the first has won most by stands first."""
    _check_systems(run, first, second)
    sums = _sums(_frames(run), (first, second)).with_columns(value=pl.col("total") / pl.col("n"))
    sides = [sums.filter(pl.col("system") == system).drop("system", "n", "total") for system in (first, second)]
    both = (
        sides[0]
        .rename({"value": "first_value"})
        .join(sides[1].rename({"value": "second_value"}), on=[*_KEYS, "question_id"])
    )
    differing = both.with_columns(difference=pl.col("first_value") - pl.col("second_value")).filter(
        pl.col("difference") != 0
    )
    texts = _texts(run[2], (first, second), set(differing["question_id"]))
    of_first, of_second = (
        texts.filter(pl.col("system") == system).rename({"item_id": f"{name}_item_id", "response": f"{name}_response"})
        for name, system in (("first", first), ("second", second))
    )
    differing = differing.join(of_first.drop("system"), on="question_id")
    differing = differing.join(of_second.drop("system", "question", "reference"), on="question_id")
    return differing.select(*FLIP_COLUMNS).sort(["difference", *_KEYS, "question_id"], descending=[True, *[False] * 4])


def _check_systems(run: Parts, first: str, second: str) -> None:
    staged = run[2]
    known = sorted(staged.coverage)
    for system in (first, second):
        if system not in known:
            near = difflib.get_close_matches(system, known, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise InputError(f"no system {system!r}: {meant}")
    if first == second:
        raise InputError(f"{first!r} is compared with itself: name two systems of {', '.join(known)}")
    if staged.facts.unnamed_questions:
        raise InputError("the rows have neither question nor question_id: map one, so that systems can be paired")


def _frames(run: Parts) -> Iterator[pl.DataFrame]:
    config, judges, staged, ledger = run
    frames = judgment_frames(staged, ledger, config, judges)
    return (frame.filter(~pl.col("is_control")) for frame in frames)


def _sums(frames: Iterable[pl.DataFrame], systems: tuple[str, str]) -> pl.DataFrame:
    """judge, model, system, score, question_id, n and total of the scored trials of these systems."""
    keys = ["judge", "model", "system", "score", "question_id"]
    total = pl.DataFrame(schema={**dict.fromkeys(keys, pl.String), "n": pl.Int64, "total": pl.Float64})
    for frame in frames:
        scored = frame.filter((pl.col("state") == "scored") & pl.col("system").is_in(systems))
        entries = explode_map(scored, "scores", "score")
        sums = entries.group_by(keys).agg(n=pl.len().cast(pl.Int64), total=pl.col("value").sum())
        total = pl.concat([total, sums]).group_by(keys).agg(pl.col("n", "total").sum())
    return total.sort(keys)


def _texts(staged: Staged, systems: tuple[str, str], questions: set[str]) -> pl.DataFrame:
    """question_id, system, item_id, question, reference and response; of several answers the first."""
    rows: dict[tuple[str, str], tuple[str | None, ...]] = {}
    for first in range(0, staged.rows, _ROWS):
        frame = staged.frame(first, min(_ROWS, staged.rows - first), ["question_id", "system", "id", "fields"])
        own = frame.filter(pl.col("system").is_in(systems)).select("question_id", "system", "id", "fields")
        for question, system, item_id, data in own.iter_rows():
            if question in questions and (question, system) not in rows:
                fields = orjson.loads(data)
                texts = (_text(fields.get(name)) for name in ("question", "reference", "response"))
                rows[question, system] = question, system, item_id, *texts
    names = ["question_id", "system", "item_id", "question", "reference", "response"]
    return pl.DataFrame(list(rows.values()), schema=dict.fromkeys(names, pl.String), orient="row")


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()
