"""What must hold after a disturbed job, whatever was done to it: reliability's invariants, by code that is not ours.

Rows are read with DuckDB and sqlite3, requests from the endpoint's own log. Each check returns what is wrong, in words.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from .inputs import CANARY, IN_FLIGHT, MODELS, PRICE
from .job import Course
from .ledger import query

Truth = Mapping[str, tuple[Any, ...]]
"""Key → state, verdict and scores as an undisturbed run has them."""

FREE = ("server_errors", "resets", "throttled", "hanging", "replay")
"""Faults whose requests bring no reply that is charged for."""
CENT = 1e-9
_ASKED = re.compile(r"Answer ([0-9]+) of ([a-z]+):")


@dataclass(frozen=True, slots=True)
class Bought:
    """What the disturbances cost, counted at the endpoint."""

    requests: int
    again: int
    """Requests for a trial that had been answered soundly before."""
    unrecorded: int
    """Replies that were charged for and are in no attempt."""
    in_flight: int
    """Requests that were open at the endpoint when something died that took them along, over all of these."""
    reserved: int
    """Requests that the ledger says may have been made besides its attempts: those that were sent by whoever died and
    not acknowledged, and what more was reserved ahead."""
    charged_usd: float
    recorded_usd: float
    reserved_usd: float
    """What more the ledger says may have been spent: reserved durably, and never settled."""


def rows(out: Path, files: str = "results/*.parquet") -> dict[str, tuple[Any, ...]]:
    """The published rows: key → state, verdict, scores."""
    found = _rows(f"SELECT key, state, verdict, scores FROM '{out}/{files}'")
    assert len({row[0] for row in found}) == len(found), "a key stands twice in the published rows"
    return {row[0]: tuple(map(_plain, row[1:])) for row in found}


def bought(course: Course, prompts: Mapping[str, int]) -> Bought:
    """`prompts` are those of an undisturbed run, with how many sound replies each took there."""
    log = course.log
    # Harmless requests about no trial are as many as there are doubts.
    sound = Counter(entry["prompt"] for entry in log if entry["fault"] is None and _ASKED.search(entry["body"]))
    charged = sum(1 for entry in log if entry["fault"] not in FREE and entry["status"] in (200, None))
    [(answered, recorded)] = query(
        course.out, "SELECT count(*) FILTER (WHERE state = 'ok'), coalesce(sum(cost_usd), 0.0) FROM attempts"
    )
    [(reserved, nano_usd)] = query(
        course.out, "SELECT coalesce(sum(requests), 0), coalesce(sum(nano_usd), 0) FROM reserved"
    )
    at = [done.at for done in course.losses]
    return Bought(
        requests=len(log),
        again=sum(max(0, sound[prompt] - usual) for prompt, usual in prompts.items()),
        unrecorded=charged - answered,
        in_flight=sum(entry["time"] <= moment <= entry["time"] + entry["seconds"] for moment in at for entry in log),
        reserved=reserved,
        charged_usd=(course.tokens["prompt"] * PRICE["input"] + course.tokens["completion"] * PRICE["output"]) / 1e6,
        recorded_usd=recorded,
        reserved_usd=nano_usd / 1e9,
    )


def complaints(course: Course, truth: Truth, cost: Bought) -> list[str]:
    """Everything that is not as it must be."""
    if course.problems:
        return course.problems
    found = [*_one_end_each(course), *_kept(course), *_not_asked(course), *_as_reported(course), *_secret(course)]
    if course.mirror is not None and rows(next(course.mirror.iterdir()), "results/*/*.parquet") != truth:
        found.append("the mirror does not hold what the run directory holds")
    published = rows(course.out)
    if published != truth:
        differing = [key for key in truth.keys() | published.keys() if truth.get(key) != published.get(key)]
        examples = [(key, truth.get(key), published.get(key)) for key in differing[:3]]
        found.append(f"{len(differing)} trials end otherwise than undisturbed: {examples}")
    if cost.recorded_usd > cost.charged_usd + CENT:
        found.append(f"{cost.recorded_usd} USD are recorded, the endpoint has charged {cost.charged_usd}")
    if cost.charged_usd > cost.recorded_usd + cost.reserved_usd + CENT:
        more = f"{cost.recorded_usd} recorded and {cost.reserved_usd} reserved"
        found.append(f"the endpoint has charged {cost.charged_usd} USD, more than {more}")
    places = IN_FLIGHT * len(MODELS[course.ordeal.job]) * len(course.losses)
    if max(cost.again, cost.unrecorded) > places:
        lost = f"{cost.again} requests were repeated, {cost.unrecorded} paid replies are in no attempt"
        found.append(f"{lost}; {places} could be in flight at {len(course.losses)} deaths")
    if cost.unrecorded > cost.reserved:
        found.append(f"{cost.unrecorded} paid replies are in no attempt; {cost.reserved} requests are reserved")
    return found


def _one_end_each(course: Course) -> Iterator[str]:
    trials = course.ordeal.trials
    [(planned, done)] = query(course.out, "SELECT sum(trials), sum(done) FROM shards")
    [(judged, keys)] = query(course.out, "SELECT count(*), count(DISTINCT key) FROM judgments")
    if not planned == done == judged == keys == trials:
        yield f"{trials} trials: {planned} planned, {done} done, {judged} judged under {keys} keys"
    if query(course.out, "SELECT * FROM pending"):
        yield "trials still wait in the ledger of a complete run"
    if twice := query(course.out, "SELECT request_id FROM attempts GROUP BY request_id, sent_at HAVING count(*) > 1"):
        yield f"{len(twice)} sends are recorded twice"
    spent = query(course.out, "SELECT sum(requests), sum(cost_usd) FROM spend")[0]
    counted = query(course.out, "SELECT count(*), sum(cost_usd) FROM attempts")[0]
    if spent[0] != counted[0] or abs(spent[1] - counted[1]) > CENT:
        yield f"the ledger's spend {spent} is not that of its attempts {counted}"


def _kept(course: Course) -> Iterator[str]:
    for earlier, later in zip(course.readings, course.readings[1:], strict=False):
        yield from earlier.lost(later)
    stored = course.readings[-1].senders
    if not course.acknowledged:
        yield "no worker has told of an acknowledgement"
    for sender, seq in course.acknowledged.items():
        if stored.get(sender, 0) < seq:
            yield f"{sender}: batch {seq} was acknowledged, {stored.get(sender, 0)} is the last that is stored"


def _not_asked(course: Course) -> Iterator[str]:
    """No start asks for what was in the ledger before it."""
    names = _rows(f"SELECT key, item_id, judge, model_id FROM '{course.out}/results/*.parquet'")
    trials = {bytes.fromhex(key): trial for key, *trial in names}
    asked = [(entry["time"], trial) for entry in course.log for trial in _trials(entry)]
    for number, (begun, reading) in enumerate(course.begun, 1):
        judged = {tuple(trials[key]) for key in course.readings[reading].judged} if reading >= 0 else set()
        if again := {trial for time, trial in asked if time > begun and trial in judged}:
            yield f"{len(again)} trials that were judged before start {number} are asked after it: {sorted(again)[:3]}"


def _trials(entry: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Item, judge and model of each trial that a request asks about."""
    messages = json.loads(entry["body"])["messages"]
    judge = "answer-correctness" if messages[0]["role"] == "system" else "yes-no"
    for number, system in _ASKED.findall(messages[-1]["content"]):
        yield f"q{number}-{system}", judge, entry["model"]


def _as_reported(course: Course) -> Iterator[str]:
    report = json.loads(course.report)
    if (report["planned"], report["done"], report["complete"]) != (course.ordeal.trials, course.ordeal.trials, True):
        yield f"the report says {report['done']} of {report['planned']}, complete: {report['complete']}"
    states = ("scored", "malformed", "refused", "failed", "poisoned")
    counts = ", ".join(f"count(*) FILTER (WHERE state = '{state}')" for state in states)
    table = f"'{course.out}/results/*.parquet'"
    found = _rows(f"SELECT judge, model, system, count(*), {counts} FROM {table} GROUP BY ALL")
    names = ("judge", "model", "system", "planned", *states)
    reported = [tuple(entry[name] for name in names) for entry in report["results"]]
    if sorted(found) != sorted(reported):
        yield f"by the published rows {sorted(found)}, by the report {sorted(reported)}"
    means = _rows(
        f"SELECT judge, model, system, score, avg(scores[score]), count(*) FROM (SELECT *, unnest(map_keys(scores)) AS "
        f"score FROM {table} WHERE state = 'scored') GROUP BY ALL"
    )
    for judge, model, system, score, mean, n in means:
        [line] = [e for e in report["results"] if (e["judge"], e["model"], e["system"]) == (judge, model, system)]
        value, of = line["scores"][score]["value"], line["scores"][score]["n"]
        if abs(value - mean) > CENT or of != n:
            yield f"{judge} × {model}, {system}: {score} is {mean} of {n} by the rows, {value} of {of} by the report"


def _secret(course: Course) -> Iterator[str]:
    for path in holding(course.places, CANARY):
        yield f"{path} holds the key"


def holding(places: list[Path], secret: str) -> list[Path]:
    """The files at and below these places that hold the secret."""
    found = []
    for path in {file for place in places for file in place.rglob("*")}:
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if secret.encode() in file.read():
                    found.append(path)
    return found


def _rows(sql: str) -> list[tuple[Any, ...]]:
    found = duckdb.sql(sql)
    assert found is not None
    return found.fetchall()


def _plain(value: Any) -> Any:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else value
