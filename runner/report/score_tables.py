"""The report's tables of scores: shares of yes, means, values and choices, and all of them by slice."""

from collections.abc import Iterator, Sequence

from runner.stats.metrics import Line, Result
from runner.stats.summaries import ScoreSummary

from .formatting import NONE, Table, TableColumn, interval, names, number, numbers, percent
from .model import Report

CORRECT = "correct"
"""The score whose share of yes is an accuracy; any other is a share, and nothing more is claimed of it."""
SIDE_BY_SIDE = 5
"""Systems or models next to each other in a table of slices or values."""
MANY_SCORES = 3
"""From so many scores of a judge, its systems stand next to each other all the same."""
SINGLE = 3
"""Up to so many judge × model × system in all, each has its slices in a table of its own, with intervals."""

NO_GROUP = "(no group)"

Entry = tuple[Result, str, ScoreSummary]


def score_tables(report: Report) -> list[Table]:
    """What the run was made for."""
    graded = [entry for entry in entries(report) if entry[2].kind == "graded"]
    shares = (_shares(report, correct) for correct in (True, False))
    return [*shares, _means(report, graded), _high_scores(report, graded), _choices(report)]


def entries(report: Report) -> Iterator[Entry]:
    """Every score over all trials of each judge × model × system."""
    for result in report.results:
        for name, score in result.overall.scores.items():
            yield result, name, score


def measure(score: str, summary: ScoreSummary) -> str:
    if summary.kind == "graded":
        return "mean"
    return "accuracy" if score == CORRECT else "share"


def _key(result: Result) -> tuple[str, str, str]:
    return result.judge, result.model, result.system


def _official(line: Line) -> str:
    return number(line.official.value if line.official else None)


def _clusters(report: Report) -> str:
    """The end of a note: that intervals are clustered, where there is something to cluster."""
    return " · intervals: clustered by question" * report.several_to_a_question


def _shares(report: Report, correct: bool) -> Table:
    scores = [each for each in entries(report) if each[2].kind == "binary" and (each[1] == CORRECT) == correct]
    published = any(result.overall.official for result, _, _ in scores)
    bounded = any(result.overall.unscored for result, _, _ in scores)
    rows = [
        (
            *_key(result), *([] if correct else [name]), number(score.value), interval(score),
            number(score.worst), interval(score.strict), *([number(score.best)] if bounded else []),
            *([_official(result.overall)] if published else []),
        )
        for result, name, score in scores
    ]  # fmt: skip
    columns = names("judge", "model", "system", *([] if correct else ["score"]))
    columns += numbers("accuracy" if correct else "share", "95 % interval", "strict", "95 % strict")
    columns += numbers(*["best"] * bounded, *["official"] * published)
    note = (
        "accuracy: over scored trials · strict: trials judged without a score count as wrong"
        if correct
        else "share: of yes among the scored trials · strict: trials judged without a score count as no"
    )
    note += _clusters(report) + " · best: they count as yes" * bounded
    note += " · official: the published reading, over all trials with a reply" * published
    return Table("Accuracy" if correct else "Yes or no", tuple(columns), tuple(rows), note)


def _means(report: Report, scores: Sequence[Entry]) -> Table:
    rows = [
        (
            *_key(result), name, number(score.value), interval(score), number(score.sd),
            number(score.worst), number(score.best), f"{score.n:,}",
        )
        for result, name, score in scores
    ]  # fmt: skip
    columns = [*names("judge", "model", "system", "score"), *numbers("mean", "95 % interval", "sd", "worst", "best")]
    note = (
        "mean: over scored trials, with Student's interval · worst, best: the mean if every trial "
        "judged without a score were at that end of the scale · sd: standard deviation"
    )
    if any(score.n > 1 and score.low is None for _, _, score in scores):
        note += " · no interval where all scores are the same"
    return Table("Mean scores", (*columns, TableColumn("n")), tuple(rows), note + _clusters(report))


def _high_scores(report: Report, scores: Sequence[Entry]) -> Table:
    rows = [
        (
            *_key(result), f"{name} ≥ {score.threshold:g}",
            number(score.share.value), interval(score.share), number(score.strict.value), f"{score.n:,}",
        )
        for result, name, score in scores
        if score.threshold is not None and score.share and score.strict
    ]  # fmt: skip
    columns = [*names("judge", "model", "system", "score"), *numbers("share", "95 % interval", "strict", "n")]
    note = "share: of the scored trials · strict: trials judged without a score do not reach it"
    return Table("High scores", tuple(columns), tuple(rows), note + _clusters(report))


def _choices(report: Report) -> Table:
    rows = [
        (*_key(result), label, f"{share.hits:,}", number(share.value), interval(share))
        for result in report.results
        for label, share in result.choices.items()
    ]
    columns = [*names("judge", "model", "system", "choice"), *numbers("trials", "share", "95 % interval")]
    return Table("Choices", tuple(columns), tuple(rows), "share: of the scored trials" + _clusters(report))


def value_tables(report: Report) -> Iterator[Table]:
    """How often each value was given, for scores on a scale of few steps."""
    for judge, results in _by_judge(report):
        for score in dict.fromkeys(name for result in results for name in result.values):
            title = f"Scores given: {judge}" + (f" · {score}" if len(results[0].overall.scores) > 1 else "")
            for part in _side_by_side(results):
                given = [result.values.get(score, {}) for result in part]
                rows = tuple(
                    (f"{value:g}", *(_count_share(counts.get(value, 0), sum(counts.values())) for counts in given))
                    for value in sorted({value for counts in given for value in counts})
                )
                note = "scored trials with each score, and their share of all scored ones"
                yield Table(title, (*names(score), *numbers(*_heads(part, results))), rows, note)


def _count_share(count: int, whole: int) -> str:
    return f"{count:,} ({count / whole:.1%})" if whole else f"{count:,}"


def _by_judge(report: Report) -> Iterator[tuple[str, list[Result]]]:
    for judge in dict.fromkeys(result.judge for result in report.results):
        yield judge, [result for result in report.results if result.judge == judge]


def _side_by_side(results: Sequence[Result]) -> Iterator[Sequence[Result]]:
    return (results[start : start + SIDE_BY_SIDE] for start in range(0, len(results), SIDE_BY_SIDE))


def _heads(part: Sequence[Result], results: Sequence[Result]) -> list[str]:
    """Headers for results next to each other: what tells them apart."""
    models = len({result.model for result in results}) > 1
    systems = len({result.system for result in results}) > 1 or not models
    return ["\n".join([result.model] * models + [result.system] * systems) for result in part]


def slice_tables(report: Report) -> Iterator[Table]:
    """Every score by group and slice, where there are several."""
    for judge, results in _by_judge(report):
        split = [result for result in results if len(result.groups) > 1 or result.slices]
        scores = dict.fromkeys(name for result in split for name in result.overall.scores)
        for score in scores:
            ending = f" · {score}" if len(scores) > 1 else ""
            if len(report.results) <= SINGLE and len(scores) < MANY_SCORES:
                yield from (_slices_of(report, result, score, ending) for result in split)
            else:
                yield from (_slices_beside(judge, part, split, score, ending) for part in _side_by_side(split))


def _slices_of(report: Report, result: Result, score: str, ending: str) -> Table:
    whole = result.overall.scores[score]
    binary = whole.kind == "binary"
    published = binary and result.overall.official is not None

    def row(name: str, line: Line) -> tuple[str, ...]:
        entry = line.scores[score]
        cells = [number(entry.value), interval(entry), number(entry.worst)]
        if not binary:
            cells += [number(entry.best), *([number(entry.share.value)] if entry.share else [])]
        return (name, f"{line.planned:,}", *cells, *([_official(line)] if published else []))

    columns = [*names("slice"), *numbers("planned", measure(score, whole), "95 % interval")]
    columns += numbers("strict") if binary else numbers("worst", "best")
    columns += numbers(*([] if whole.threshold is None else [f"≥ {whole.threshold:g}"]), *["official"] * published)
    sums = [row("overall", result.overall)]
    if macro := result.macro.get(score):
        cells = ["task-averaged", NONE, number(macro.value), interval(macro), number(macro.strict)]
        cells += [NONE] * (len(columns) - len(cells) - published)
        sums.append((*cells, *([number(result.macro_official)] if published else [])))
    sums += [row(name, line) for name, line in result.slices.items()]
    rows = [row(NO_GROUP if name is None else name, line) for name, line in result.groups.items()]
    note = (_macro_note(result) + _clusters(report)).removeprefix(" · ")
    title = f"Slices: {result.judge} × {result.model} × {result.system}{ending}"
    return Table(title, tuple(columns), (*rows, *sums), note, sums=len(sums))


def _slices_beside(judge: str, part: Sequence[Result], results: Sequence[Result], score: str, ending: str) -> Table:
    def cell(line: Line | None) -> str:
        return NONE if line is None or score not in line.scores else number(line.scores[score].value)

    groups = dict.fromkeys(name for result in results for name in result.groups)
    slices = dict.fromkeys(name for result in results for name in result.slices)
    rows = [
        (NO_GROUP if name is None else name, *(cell(result.groups.get(name)) for result in part)) for name in groups
    ]
    sums = [("overall", *(cell(result.overall) for result in part))]
    if any(result.macro for result in results):
        macros = (result.macro.get(score) for result in part)
        sums.append(("task-averaged", *(number(macro.value if macro else None) for macro in macros)))
    sums += [(name, *(cell(result.slices.get(name)) for result in part)) for name in slices]
    columns = (*names("slice"), *numbers(*_heads(part, results)))
    note = f"{measure(score, part[0].overall.scores[score])}, over scored trials{_macro_note(part[0])}"
    return Table(f"Slices: {judge}{ending}", columns, (*rows, *sums), note, sums=len(sums))


def _macro_note(result: Result) -> str:
    return " · task-averaged: unweighted mean over the groups" if result.macro else ""


def trials(report: Report) -> Table:
    """How the trials ended; no rows where all have a score."""
    states = ("planned", "scored", "malformed", "refused", "failed", "poisoned", "not_done")
    # `poisoned` is as rare as it is alarming: a column only where there is one.
    shown = [name for name in states if name != "poisoned" or any(result.overall.poisoned for result in report.results)]
    rows = [
        (*_key(result), *(f"{getattr(result.overall, name):,}" for name in shown))
        for result in report.results
        if any(each.overall.scored < each.overall.planned for each in report.results)
    ]
    columns = [*names("judge", "model", "system"), *numbers(*(name.replace("_", " ") for name in shown))]
    return Table("Trials", tuple(columns), tuple(rows))


def coverage(report: Report) -> Table:
    """How many of the questions each system answered; no rows where that is all of them, or says nothing."""
    parts = report.coverage if report.comparable else ()
    rows = [
        (part.system, f"{part.answered:,}", f"{part.total:,}", percent(part.answered / part.total))
        for part in parts
        if part.total and any(each.answered < each.total for each in parts)
    ]
    columns = [*names("system"), *numbers("answered", "questions", "share")]
    return Table(f"Coverage of the {report.questions}", tuple(columns), tuple(rows))


def reasons(report: Report) -> Table:
    rows = [
        (*_key(result), state, reason, f"{count:,}")
        for result in report.results
        for state, held in result.reasons.items()
        for reason, count in held.items()
    ]
    columns = [*names("judge", "model", "system", "state", "reason"), *numbers("trials")]
    return Table("Why trials have no score", tuple(columns), tuple(rows))
