"""How often the report's 95 % intervals hold the truth, and how often its tests cry wolf: `python scripts/coverage.py`.

Questions are drawn that differ in how hard they are and in how the judge errs on them, with several answers to each by
two systems; what is counted and measured is the product's own. The truth is what the same measures say of a very large
draw. Tests are given trials without the difference that they look for, and are called at 5 %.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import polars as pl
from numpy.typing import NDArray

from judges import Scale
from runner.labels import Label
from runner.publishing.result_columns import LABELS, SCORES
from runner.publishing.result_frames import COLUMNS
from runner.stats.agreement import agreement
from runner.stats.batch_effects import batch_effects
from runner.stats.counting import Counts, add, count, count_echoes
from runner.stats.injection_stats import injection_stats
from runner.stats.metrics import results
from runner.stats.parse_stats import parse_paths

SCALES = {
    "binary": {"j": {"correct": Scale(binary=True)}},
    "graded": {"j": {"score": Scale(False, 0, 5, 1, at_least=4)}},
}
LABELLED = {
    "binary": {"correct": Label(field="h")},
    "graded": {
        "grade": Label(field="h", type="ordinal", of="score", threshold=4),
        "good": Label(field="g", of="score"),
    },
}
GROUPS = ("g0", "g1", "g2")
CONCENTRATION = 1.5
"""Of the beta distribution over questions: the correlation of two answers to one is 1 / (1 + this)."""
LOST, ERRORS, BATCH = 0.05, 0.15, 10
TRUTH_QUESTIONS = 40_000
NONE = pl.lit([], pl.List(pl.String))
Array = NDArray[Any]


def draw(rng: np.random.Generator, kind: str, questions: int, each: int, p: float) -> pl.DataFrame:
    """A frame of judged trials: each question, of one group, answered `each` times by two systems."""
    n = 2 * questions * each
    question = np.tile(np.arange(questions), 2 * each)
    system = np.repeat(np.arange(2), questions * each)

    def by_question(mean: float) -> Array:
        return rng.beta(mean * CONCENTRATION, (1 - mean) * CONCENTRATION, questions)[question]

    if kind == "binary":
        human = (rng.random(n) < by_question(p) * np.where(system, 0.7, 1.0)).astype(float)
        judged = np.where(rng.random(n) < by_question(ERRORS), 1 - human, human)
    else:
        human = np.clip(np.rint(rng.normal(p, 1, questions)[question] - system + rng.normal(0, 1, n)), 0, 5)
        judged = np.clip(np.rint(human + rng.normal(0, 0.7, questions)[question] + rng.normal(0, 0.7, n)), 0, 5)
    # How a reply is written goes with the question, and with the system, of which one is better; not with what it says.
    tolerant = rng.random(n) < by_question(0.3) * np.where(system, 0.4, 1.0)
    suspect = rng.random(questions)[question] < 0.15
    lost = rng.random(n) < LOST
    data = {
        "item_id": np.arange(n).astype(str),
        "question_id": question.astype(str),
        "system": np.array(["A", "B"])[system],
        "group": np.array(GROUPS)[rng.integers(0, len(GROUPS), questions)[question]],
        "in_slice": rng.random(n) < 0.5,
        "lost": lost,
        "stage": np.where(tolerant, "tolerant:label", "strict"),
        "injection_suspect": suspect,
        "batch_position": np.tile(np.arange(BATCH) + 1, n // BATCH + 1)[rng.permutation(n)],
        "judged": judged,
        "human": human,
    }
    name, other = ("correct", "correct") if kind == "binary" else ("score", "grade")
    number, texts = pl.col("human"), {"true": pl.lit("true"), "false": pl.lit("false")}
    yes = pl.when(number > (0 if kind == "binary" else 3)).then(texts["true"]).otherwise(texts["false"])
    labels = [_entry(other, yes if kind == "binary" else number.cast(pl.Int64).cast(pl.String))]
    labels += [_entry("good", yes)] * (kind == "graded")
    scored = ~pl.col("lost")
    frame = pl.DataFrame(data).with_columns(
        pl.lit("j").alias("judge"),
        pl.lit("m").alias("model"),
        pl.lit("3").alias("parser_version"),
        pl.col("item_id").alias("request_id"),
        pl.when(scored).then(pl.lit("scored")).otherwise(pl.lit("malformed")).alias("state"),
        pl.when(scored).then(pl.concat_list(_entry(name, pl.col("judged")))).alias("scores").cast(SCORES),
        pl.concat_list(labels).alias("labels").cast(LABELS),
        pl.when("in_slice")
        .then(pl.concat_list(pl.lit("slice")))
        .otherwise(pl.lit([], pl.List(pl.String)))
        .alias("slices"),
        NONE.alias("notes"),
        pl.lit(BATCH, pl.Int64).alias("batch_size"),
        pl.lit(1, pl.Int64).alias("attempts"),
    )
    missing = [pl.lit(None, dtype).alias(column) for column, dtype in COLUMNS.items() if column not in frame.columns]
    return frame.with_columns(missing)


def _entry(key: str, value: pl.Expr) -> pl.Expr:
    return pl.struct(pl.lit(key).alias("key"), value.alias("value"))


def count_trials(kind: str, frame: pl.DataFrame) -> Counts:
    return add([count(frame, LABELLED[kind], SCALES[kind])])


Interval = tuple[float | None, float | None, float | None]


def intervals(kind: str, counts: Counts) -> Iterator[tuple[str, Interval]]:
    """Whatever is offered with an interval: its value and ends."""
    scales = SCALES[kind]
    [result] = [each for each in results(counts, scales, {"j": True}) if each.system == "A"]
    lines = {"overall": result.overall, "group": result.groups["g0"], "slice": result.slices["slice"]}
    for where, line in lines.items():
        [score] = line.scores.values()
        yield f"{where} {'share' if kind == 'binary' else 'mean'}", (score.value, score.low, score.high)
        if score.share and score.strict:
            high = "" if kind == "binary" else "high "
            yield f"{where} {high}strict", (score.strict.value, score.strict.low, score.strict.high)
            if high:
                yield f"{where} high share", (score.share.value, score.share.low, score.share.high)
    [macro] = result.macro.values()
    yield "macro", (macro.value, macro.low, macro.high)
    for entry in agreement(counts, LABELLED[kind], scales):
        if entry.system != "B":
            whose = "all" if entry.system is None else "one"
            about = entry.label if kind == "graded" else "agreement"
            for name, metric in entry.metrics.items():
                yield f"{about} {name}, {whose}", (metric.value, metric.low, metric.high)


def tests(kind: str, counts: Counts) -> Iterator[tuple[str, float | None]]:
    """What each test says of trials without a difference."""
    scales = SCALES[kind]
    [paths] = parse_paths(counts, scales, {})
    yield "strict against others", next((bias.p for bias in paths.biases), None)
    [stats] = injection_stats(counts, scales, {}, [])
    yield "suspects against others", next((each.p for each in stats.differences), None)
    if kind == "graded":
        [effect] = batch_effects(counts, scales, count_echoes((), {}))
        yield "place in batch", effect.by_place.p if effect.by_place else None


def simulate(kind: str, questions: int, each: int, p: float, draws: int) -> dict[str, str]:
    """Interval → how often it held the truth, and how often there was one; test → how often it was below 5 %."""
    rng = np.random.default_rng([questions, each, int(10 * p), kind == "graded"])
    large = count_trials(kind, draw(rng, kind, TRUTH_QUESTIONS, each, p))
    truth = {name: value for name, (value, _, _) in intervals(kind, large)}
    offered, held, made, alarms = (Counter[str]() for _ in range(4))
    for _ in range(draws):
        counts = count_trials(kind, draw(rng, kind, questions, each, p))
        for name, (_, low, high) in intervals(kind, counts):
            true = truth[name]
            if low is not None and high is not None and true is not None:
                offered[name] += 1
                held[name] += low <= true <= high
        for name, p_value in tests(kind, counts):
            made[name] += p_value is not None
            alarms[name] += p_value is not None and p_value < 0.05

    def cell(hits: int, n: int) -> str:
        return "–" if not n else f"{hits / n:.1%}" + (f" ({n / draws:.0%})" if n < 0.99 * draws else "")

    found = {name: cell(held[name], offered[name]) for name in truth}
    return found | {f"test: {name}": cell(alarms[name], made[name]) for name in made}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--questions", type=int, nargs="*", default=[30, 100, 300])
    parser.add_argument("--each", type=int, nargs="*", default=[1, 5], help="answers to a question by each system")
    parser.add_argument("--kinds", nargs="*", default=["binary:0.5", "binary:0.9", "graded:3"], help="kind:mean")
    arguments = parser.parse_args()
    grid = [(questions, each) for each in arguments.each for questions in arguments.questions]
    for name in arguments.kinds:
        kind, _, p = name.partition(":")
        found = []
        for questions, each in grid:
            started = time.monotonic()
            found.append(simulate(kind, questions, each, float(p), arguments.draws))
            sys.stderr.write(f"{name} {questions} × {each}: {time.monotonic() - started:.0f} s\n")
        rows = [[name, *(f"{questions} × {each}" for questions, each in grid)], ["---"] * (len(grid) + 1)]
        rows += [[row, *(part[row] for part in found)] for row in found[0]]
        sys.stdout.write("\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
