"""Measures the readers on real replies, under damage, and against the clock.

  scripts/reading.py real [--data FOLDER] [--show N]   the share read, the agreement with what its authors extracted
  scripts/reading.py sweep [--replies N]               every truncation and every edit of one character of valid replies
  scripts/reading.py speed [--seconds S]               clean replies a second on one core

`real` prints every disagreement (a sample where there are more than N), so that a person can see whose mistake it is.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from judges import Reading, Reply, Scored, load_judge  # noqa: E402
from judges.reading import read  # noqa: E402
from judges.reply_forms import ChoiceReads, ObjectReads, ScoresReads  # noqa: E402

Reader = Callable[[Reply], Reading]

OUTPUTS = ChoiceReads.model_validate(
    {
        "kind": "choice",
        "verdict": "winner",
        "labels": {f"Output ({letter})": {} for letter in "ab"},
        # The prompts with reasoning first ask for this sentence at the end.
        "phrases": {f"Output ({letter})": [f"Output ({letter}) is better"] for letter in "ab"},
    }
)
PAIR = ScoresReads(kind="scores", names=["Assistant 1", "Assistant 2"], low=1, high=10, step=0.5)
RATING = ScoresReads(kind="scores", verdict="rating", low=1, high=10, step=0.5)


@dataclass(frozen=True)
class Stored:
    """A reply with what its authors extracted from it; None where they found nothing."""

    reply: Reply
    extracted: Any


@dataclass(frozen=True)
class Corpus:
    """Real replies of one judge, and how its verdict is written in the authors' terms."""

    name: str
    reader: Reader
    rows: list[Stored]
    value: Callable[[Scored], Any]


def say(text: str) -> None:
    """A line on stdout, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a JSONL file, gzipped or not."""
    packed = path.read_bytes()
    for line in (gzip.decompress(packed) if path.suffix == ".gz" else packed).splitlines():
        yield json.loads(line)


def corpora(data: Path) -> Iterator[Corpus]:
    """The real replies of the data folder."""
    yes_no = load_judge("yes-no", ROOT).read

    def word(found: Scored) -> str:
        return "yes" if found.verdict["correct"] else "no"

    # The file has the label that was right, not the one given; the one given is what follows `Judgement:`.
    rows = [
        Stored(Reply(text), next((w for w in ("yes", "no") if f"judgement: {w}" in text.lower()), None))
        for text in (row["judgement"] for row in lines(data / "judge_raw/nemo_skills.jsonl"))
    ]
    yield Corpus("nemo_skills", yes_no, rows, word)
    for column in ("gpt4", "davinci"):
        rows = [
            Stored(Reply(row[f"{column}_raw"]), (row[f"{column}_label"] or "").lower() or None)
            for row in lines(data / "human_labels/nq301.jsonl")
        ]
        yield Corpus(f"nq301 {column}", yes_no, rows, word)
    rows = []
    for row in lines(data / "judge_raw/llmbar.jsonl.gz"):
        if row["raw"] is None or "Rating" in row["prompting"]:
            continue
        first = "1" if row["swap"] == "swap = False" else "2"
        stored = row["parsed_winner"]
        extracted = None if stored not in ("1", "2") else "Output (a)" if stored == first else "Output (b)"
        rows.append(Stored(Reply(row["raw"], row["finish"]), extracted))
    yield Corpus("llmbar", lambda reply: read(OUTPUTS, reply), rows, lambda found: found.verdict["winner"])
    rows = [Stored(Reply(row["text"]), row["score"]) for row in lines(data / "judge_raw/vicuna_reviews.jsonl")]
    yield Corpus(
        "vicuna_reviews",
        lambda reply: read(PAIR, reply),
        rows,
        lambda found: list(found.verdict.values()),
    )
    rows = [
        Stored(Reply(row["judgment"]), None if row["score"] in (None, -1) else row["score"])
        for row in lines(data / "judge_raw/arena_bench.jsonl.gz")
    ]
    yield Corpus("arena_bench", lambda reply: read(RATING, reply), rows, lambda found: found.verdict["scores"][0])


def real(data: Path, show: int, unread: int) -> None:
    """Share read, agreement and disagreements of each corpus."""
    for corpus in corpora(data):
        stages: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        apart: list[tuple[Stored, Any, str]] = []
        lost: list[tuple[Stored, str]] = []
        agreed = both = 0
        for row in corpus.rows:
            reading = corpus.reader(row.reply)
            if not isinstance(reading, Scored):
                reason = str(getattr(reading, "reason", reading.state))
                reasons[reason] += 1
                if row.extracted is not None:
                    lost.append((row, reason))
                continue
            stages[reading.provenance.stage] += 1
            ours = corpus.value(reading)
            if row.extracted is None or ours != row.extracted:
                apart.append((row, ours, reading.provenance.stage))
            if row.extracted is not None:
                both += 1
                agreed += ours == row.extracted
        total = len(corpus.rows)
        scored = sum(stages.values())
        say(
            f"\n== {corpus.name}: {total:,} replies, {scored:,} read ({scored / total:.1%}), of {both:,} with an"
            f" extracted value {agreed:,} agree, {len(apart):,} disagreements"
        )
        say(f"   read at {dict(stages.most_common())}")
        say(f"   not read: {dict(reasons.most_common())}; {len(lost):,} of them have an extracted value")
        rng = random.Random(7)
        for row, ours, stage in rng.sample(apart, min(show, len(apart))):
            say(f"   ours {ours!r} ({stage}), theirs {row.extracted!r}: {_short(row.reply.text)}")
        for row, reason in rng.sample(lost, min(unread, len(lost))):
            say(f"   unread ({reason}), theirs {row.extracted!r}: {_short(row.reply.text)}")


def _short(text: str | None) -> str:
    shown = text or ""
    return repr(shown if len(shown) <= 600 else f"{shown[:250]} […] {shown[-350:]}")


GRADED = load_judge("correct-and-score", ROOT)
YES_NO = load_judge("yes-no", ROOT)
SCORE = load_judge("score-0-5", ROOT)
CHOICE = load_judge("choice-ab", ROOT)
# Damage is worst where half a score is a score too: 10 loses a digit and is 1.
TO_TEN = ObjectReads.model_validate(
    {
        "kind": "object",
        "verdict": ["correct", "score"],
        "lines": True,
        "schema": {
            "type": "object",
            "properties": {
                "reason": {"type": "string"},
                "correct": {"type": "boolean"},
                "score": {"type": "integer", "minimum": 0, "maximum": 10},
            },
            "required": ["correct", "score"],
        },
    }
)
THREE_TO_TEN = ScoresReads(kind="scores", low=0, high=10).counted(3)
REASONS = (
    "The date agrees.",
    'It says "no".',
    "All 10 points; none is missing.",
    "Point {a} isn't there.",
    "ok\n- one",
)


@dataclass(frozen=True)
class Valid:
    """A valid reply: how it is read, and how the same reply with another verdict would look."""

    reader: Reader
    render: Callable[[dict[str, Any]], str]
    verdict: dict[str, Any]


def valid(kind: str, number: int) -> Valid:
    """A valid reply of the kind, the same for the same number."""
    rng = random.Random(f"{kind} {number}")
    if kind == "object":
        return _valid_object(rng, number)
    if kind == "yesno":
        forms = ("{}", "**{}**.", "Final answer: {}", "The two were compared.\n\n{}", "{}\n\nThe names are given.")
        word_form = (*forms, '{"answer": "{}"}', "<think>yes or no</think>{}")[number % 7]
        return Valid(
            YES_NO.read,
            lambda verdict: word_form.replace("{}", "yes" if verdict["correct"] else "no"),
            {"correct": rng.random() < 0.5},
        )
    if kind == "choice":
        marked = ("{}", "[[{}]]", "Answer: {}", "Both were read.\n\nAnswer: {}", '{"choice": "{}"}', "**{}**")
        form = marked[number % 6]
        return Valid(CHOICE.read, lambda verdict: form.replace("{}", verdict["choice"]), {"choice": rng.choice("AB")})
    separator = rng.choice([",", ", ", "; ", "\n"])
    writers: tuple[Callable[[list[int]], str], ...] = (
        lambda scores: separator.join(map(str, scores)),
        json.dumps,
        lambda scores: f"Scores: {separator.join(map(str, scores))}",
        lambda scores: "\n".join(f"Q{place}: {score}" for place, score in enumerate(scores, 1)),
        lambda scores: json.dumps({"scores": scores}),
    )
    write = writers[number % len(writers)]
    return Valid(
        lambda reply: read(THREE_TO_TEN, reply),
        lambda verdict: write(verdict["scores"]),
        {"scores": [rng.choice([0, 1, 4, 9, 10, 10]) for _ in range(3)]},
    )


def _valid_object(rng: random.Random, number: int) -> Valid:
    reason, indent = rng.choice(REASONS), rng.choice([None, 1])
    forms: tuple[Callable[[dict[str, Any]], str], ...] = (
        lambda body: json.dumps(body, indent=indent),
        lambda body: f"```json\n{json.dumps(body, indent=indent)}\n```",
        lambda body: f"Here is my evaluation:\n{json.dumps(body)}",
        lambda body: f"[{json.dumps(body)}]",
        repr,
        lambda body: json.dumps(body, indent=indent)[:-1] + ",}",
        lambda body: json.dumps({"result": body}),
        lambda body: json.dumps(json.dumps(body)),
        lambda body: f"correct: {str(body['correct']).lower()}\nscore: {body['score']}\nreason: none\n",
    )
    form = forms[number % len(forms)]
    before = rng.random() < 0.5

    def render(verdict: dict[str, Any]) -> str:
        return form({"reason": reason} | verdict if before else verdict | {"reason": reason})

    return Valid(
        lambda reply: read(TO_TEN, reply), render, {"correct": rng.random() < 0.5, "score": rng.choice([1, 4, 10, 10])}
    )


KINDS = ("object", "yesno", "choice", "scores")
ALPHABET = "abtrueflsyno0149\"'\\{}[]:,./-#* \n"


def told(reading: Reading) -> dict[str, Any] | None:
    """The verdict; None where there is none."""
    return dict(reading.verdict) if isinstance(reading, Scored) else None


def strictly(reading: Reading) -> bool:
    """Whether the reply is byte for byte what was asked for."""
    return isinstance(reading, Scored) and reading.provenance.stage == "strict"


def squeezed(text: str) -> str:
    """A reply without what may stand in it in more than one way: blanks, `1.0`, `-0`, a last comma or stop."""
    text = re.sub(r"(?<=[0-9])(?:\.0?|e0)(?=[\s,;}\]\"]|$)", "", text)
    text = re.sub(r",(?=\s*[}\]]|\s*$)", "", text.replace("-0", "0"))
    return re.sub(r"\s|(?<=[^0-9])0(?=[0-9])", "", text).casefold()


def damage(kind: str, numbers: Iterable[int], keep: float = 1.0) -> tuple[Counter[str], list[str]]:
    """What becomes of valid replies that are cut or changed in one character, and each that became another verdict.

    A change that leaves what somebody with another verdict would have written is nobody's mistake. `keep`: the share
    of the damages that is tried.
    """
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    chosen = random.Random(kind)
    for number in numbers:
        sound = valid(kind, number)
        text = sound.render(sound.verdict)
        counts["replies"] += 1
        if told(sound.reader(Reply(text))) != sound.verdict:
            wrong.append(f"not read whole: {text!r}")
            continue
        cuts = [("cut, " + finish, text[:end], finish) for end in range(len(text)) for finish in ("stop", "length")]
        for what, damaged, finish in [*cuts, *(("edit", edited, "stop") for edited in edits(text))]:
            if keep < 1 and chosen.random() >= keep:
                continue
            reading = sound.reader(Reply(damaged, finish))
            found = told(reading)
            if found is None or found == sound.verdict:
                counts[f"{what}: {'nothing' if found is None else 'same'}"] += 1
            elif strictly(reading) or squeezed(sound.render(found)) == squeezed(damaged):
                counts[f"{what}: a valid reply"] += 1
            else:
                counts[f"{what}: OTHER"] += 1
                wrong.append(f"{what}: {sound.verdict} read as {found}: {damaged!r}")
    return counts, wrong


def sweep(replies: int) -> None:
    """Every truncation and every edit of one character; prints each that is read as another value."""
    for kind in KINDS:
        counts, wrong = damage(kind, range(replies))
        say(f"== {kind}: {dict(sorted(counts.items()))}")
        for line in wrong:
            say(f"   {line}")


def edits(text: str) -> Iterator[str]:
    """Every deletion, replacement and insertion of one character of a small alphabet."""
    for place in range(len(text) + 1):
        if place < len(text):
            yield text[:place] + text[place + 1 :]
        for new in ALPHABET:
            yield text[:place] + new + text[place:]
            if place < len(text) and text[place] != new:
                yield text[:place] + new + text[place + 1 :]


def speed(seconds: float) -> None:
    """Clean replies a second through `Judge.read`, on one core."""
    for name, judge, text in (
        ("yes-no", YES_NO, "yes"),
        ("score-0-5", SCORE, "4"),
        ("choice-ab", CHOICE, "B"),
        ("correct-and-score", GRADED, '{"reason": "The date is the reference\'s date.", "correct": true, "score": 4}'),
        ("correct-and-score, fenced", GRADED, '```json\n{"reason": "It agrees.", "correct": true, "score": 4}\n```'),
        ("correct-and-score, broken", GRADED, "{'reason': 'It agrees.', 'correct': True, 'score': 4}"),
        ("yes-no, prose", YES_NO, "The dates agree, and so do the places.\n\nFinal answer: **yes**"),
    ):
        reply, done, start = Reply(text), 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            for _ in range(100):
                judge.read(reply)
            done += 100
        say(f"{name:28} {done / (time.perf_counter() - start):>10,.0f} replies/s")


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["real", "sweep", "speed"])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--show", type=int, default=50, help="disagreements printed of each corpus")
    parser.add_argument("--unread", type=int, default=0, help="replies printed that their authors read and we do not")
    parser.add_argument("--replies", type=int, default=200, help="valid replies of each kind that are damaged")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each speed is measured")
    args = parser.parse_args()
    if args.what == "real":
        real(args.data, args.show, args.unread)
    elif args.what == "sweep":
        sweep(args.replies)
    else:
        speed(args.seconds)


if __name__ == "__main__":
    main()
