"""Counts of values, choices, notes and batches: what plain Python counts, however the trials are split into frames."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from judges import Scale
from runner.messages import BLOCK_MARKER
from runner.publishing.result_frames import ATTEMPT_COLUMNS, COLUMNS
from runner.stats.batch_effects import batch_effects
from runner.stats.counting import MAX_VALUES, Counts, add, count, count_echoes, values_of
from runner.stats.metrics import results

SCALES = {
    "graded": {"score": Scale(False, 0, 5, 1, at_least=4), "half": Scale(False, 1, 10, 0.5)},
    "shares": {"relevance": Scale(binary=False), "adherence": Scale(binary=True)},
    "chooser": {},
}
BATCHED = {"graded": {"score": SCALES["graded"]["score"]}}
CHOOSING = {"chooser": "choice"}
LABELS = {"chooser": ("A", "B", "tie")}
NO_ATTEMPTS = pl.DataFrame(schema=ATTEMPT_COLUMNS)


def trials(n: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    rows = []
    for number in range(n):
        judge = rng.choice(["graded", "shares", "chooser"])
        state = rng.choice(["scored"] * 4 + ["malformed", "refused", None])
        size = rng.choice([10, 10, 10, 4, 1]) if judge == "graded" else 1
        values: dict[str, float] = {}
        verdict: dict[str, Any] = {}
        match judge:
            case "graded":
                values = {"score": rng.randint(0, 5), "half": rng.randint(2, 20) / 2}
                verdict = values
            case "shares":
                values = {"relevance": rng.randint(0, 9) / 8, "adherence": rng.randint(0, 1)}
            case "chooser":
                verdict = {"choice": rng.choice("AB")}
        marked = judge == "graded" and size == 1 and rng.random() < 0.5
        notes = [name for name in ("key:score", "above_one:relevance", "read:strict") if rng.random() < 0.3]
        notes += [f"unknown_keys:{rng.randint(1, 4)}"] * (rng.random() < 0.3) + [BLOCK_MARKER] * marked
        scored = state == "scored"
        rows.append(
            {
                "judge": judge,
                "model": rng.choice(["m1", "m2"]),
                "repeat": 0,
                "system": rng.choice("AB"),
                "item_group": rng.choice(["g1", None]),
                "slices": ["extra"] if rng.random() < 0.3 else [],
                "state": state,
                "scores": [{"key": k, "value": float(v)} for k, v in values.items()] if scored else None,
                "verdict": json.dumps(verdict) if scored else None,
                "notes": notes if state else None,
                "request_id": f"r{number}" if state else None,
                "batch_size": size if state else None,
                "batch_position": rng.randint(1, size) if state else None,
                "bisect_depth": 0 if size == 10 else 1,
                "attempts": 1,
            }
        )
    return rows


def counted(rows: list[dict[str, Any]], *starts: int) -> Counts:
    ends = [*sorted(starts), len(rows)]
    parts = [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    total = add(
        count(pl.DataFrame([dict.fromkeys(COLUMNS) | row for row in part], schema=COLUMNS), {}, SCALES, CHOOSING)
        for part in parts
    )
    assert total is not None
    return total


def test_values_of_scales() -> None:
    assert values_of(Scale(False, 0, 5, 1)) == [0, 1, 2, 3, 4, 5]
    assert values_of(Scale(False, 1, 10, 0.5)) == [1 + half / 2 for half in range(19)]
    assert values_of(Scale(False, 0, 1, 0.1))[3] == 0.3
    assert len(values_of(Scale(False, 0, MAX_VALUES - 1, 1))) == MAX_VALUES
    for scale in (Scale(False, 0, MAX_VALUES, 1), Scale(False), Scale(True), Scale(False, None, 5, 1)):
        assert values_of(scale) == []


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.lists(st.integers(0, 80), max_size=4))
def test_counted_apart_and_added_is_counted_together(seed: int, starts: list[int]) -> None:
    rows = trials(80, seed)
    together, apart = counted(rows), counted(rows, *starts)
    for name, table in together.items():
        keys = [column for column in table.columns if column not in ("total", "squares")]
        # All scores here are eighths, which add up without rounding.
        assert apart[name].sort(keys).equals(table.sort(keys).select(apart[name].columns)), name


def test_results_are_what_plain_python_counts() -> None:
    rows = trials(4000, seed=1)
    found = {(r.judge, r.model, r.system): r for r in results(counted(rows), SCALES, {}, LABELS)}
    for (judge, model, system), result in found.items():
        of = [row for row in rows if (row["judge"], row["model"], row["system"]) == (judge, model, system)]
        sets = [(result.overall, of), (result.slices["extra"], [row for row in of if row["slices"]])]
        sets += [(line, [row for row in of if row["item_group"] == group]) for group, line in result.groups.items()]
        for line, expected in sets:
            held = [{entry["key"]: entry["value"] for entry in row["scores"] or ()} for row in expected]
            for name, scale in SCALES[judge].items():
                values = [scores[name] for scores in held if name in scores]
                entry = line.scores[name]
                assert (entry.kind == "binary") == scale.binary
                assert (entry.n, entry.value) == (len(values), sum(values) / len(values))
                assert (entry.unscored, entry.threshold) == (line.unscored, scale.at_least)
                assert (entry.share is None) == (not scale.binary and scale.at_least is None)
                if entry.share and entry.strict:
                    assert entry.share.hits == sum(value >= (scale.at_least or 1) for value in values)
                    assert (entry.share.n, entry.strict.n) == (len(values), len(values) + line.unscored)
        scored = [row for row in of if row["state"] == "scored"]
        assert set(result.values) == ({"score", "half"} if judge == "graded" else set())
        for name, values_found in result.values.items():
            given_ = Counter(entry["value"] for row in scored for entry in row["scores"] if entry["key"] == name)
            assert {value: n for value, n in values_found.items() if n} == dict(given_)
            assert list(values_found) == values_of(SCALES[judge][name])
        chosen = Counter(json.loads(row["verdict"]).get("choice") for row in scored)
        expected_choices = {label: (chosen[label], len(scored)) for label in LABELS.get(judge, ())}
        assert {label: (rate.hits, rate.n) for label, rate in result.choices.items()} == expected_choices


def test_shares_beyond_one_are_kept() -> None:
    rows = [
        {"judge": "shares", "model": "m", "system": "A", "state": "scored", "repeat": 0, "slices": []}
        | {"scores": [{"key": "relevance", "value": value}]}
        for value in (0.5, 1.5)
    ]
    [result] = results(counted(rows), SCALES, {})
    entry = result.overall.scores["relevance"]
    assert (entry.value, entry.best) == (1.0, 1.0)
    assert result.values == {}


def test_notes_are_summed_by_code() -> None:
    rows = trials(1000, seed=2)
    table = counted(rows)["notes"]
    found = {tuple(key): (n, total) for *key, n, total in table.select("judge", "model", "code", "n", "total").rows()}
    expected: dict[tuple[str, str, str], tuple[int, int]] = {}
    for row in rows:
        for note in row["notes"] or ():
            code, _, times = note.partition(":") if note.startswith("unknown_keys") else (note, "", "1")
            n, total = expected.get((row["judge"], row["model"], code), (0, 0))
            expected[row["judge"], row["model"], code] = n + 1, total + int(times)
    assert found == expected


def test_a_note_given_twice_is_one_judgment() -> None:
    row = {"judge": "graded", "model": "m", "system": "A", "state": "scored", "notes": ["odd:2", "odd:3", "odd"]}
    table = counted([row | {"slices": [], "repeat": 0}])["notes"]
    assert table.select("code", "n", "total").rows() == [("odd", 1, 6)]


def test_batches_are_what_plain_python_counts() -> None:
    rows = [row for row in trials(4000, seed=3) if row["judge"] == "graded"]
    found = batch_effects(counted(rows), BATCHED, count_echoes([NO_ATTEMPTS], {}))
    assert [(entry.judge, entry.model, entry.score) for entry in found] == [
        ("graded", "m1", "score"),
        ("graded", "m2", "score"),
    ]
    for entry in found:
        done = [row for row in rows if row["model"] == entry.model and row["state"]]
        marked = [row for row in done if BLOCK_MARKER in row["notes"]]
        assert entry.full == 10
        assert entry.marked is not None
        assert entry.marked.trials == len(marked)
        for parts, of, key in (
            (entry.sizes, [row for row in done if row not in marked], "batch_size"),
            (entry.places, [row for row in done if row["batch_size"] == 10], "batch_position"),
            (entry.depths, [row for row in done if row["bisect_depth"]], "bisect_depth"),
        ):
            assert {part.at: part.trials for part in parts} == Counter(row[key] for row in of)
            for part in parts:
                values = [row["scores"][0]["value"] for row in of if row[key] == part.at and row["scores"]]
                assert (part.score.n, part.score.value) == (len(values), sum(values) / len(values))
        assert entry.by_size is not None
        assert entry.by_size.groups == 3
        assert entry.by_place is not None
        assert entry.by_place.groups == 10


def test_trials_without_a_request_have_no_place() -> None:
    row = {"judge": "graded", "model": "m", "system": "A", "state": "scored", "batch_size": 1, "batch_position": 1}
    counts = counted([row | {"slices": [], "repeat": 0, "scores": [{"key": "score", "value": 0.0}]}])
    assert batch_effects(counts, BATCHED, count_echoes([NO_ATTEMPTS], {})) == []


def attempt(size: int, text: str | None, **changes: Any) -> dict[str, Any]:
    usual = {"judge": "graded", "model": "m", "state": "ok", "keys": ["k"] * size, "judge_reply": text}
    return dict.fromkeys(ATTEMPT_COLUMNS) | usual | changes


def test_replies_that_are_just_the_example() -> None:
    rows = [
        attempt(2, "2,3"),
        attempt(2, " 2, 3\n"),
        attempt(2, "3,2"),
        attempt(2, "2,3."),
        attempt(10, "2,3"),
        attempt(10, "1,2,3"),
        attempt(10, None, state="error"),
        attempt(0, "2,3", stage="probe"),
        attempt(2, "2,3", judge="other"),
    ]
    frames = [pl.DataFrame(rows[start : start + 2], schema=ATTEMPT_COLUMNS) for start in range(0, len(rows), 2)]
    table = count_echoes(frames, {"graded": "2,3"}).sort("size")
    assert table.rows() == [("graded", "m", 2, 4, 2), ("graded", "m", 10, 2, 1)]
