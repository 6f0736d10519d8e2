"""Samples of lm-evaluation-harness (`--log_samples`) as rows: a row for each document, filter and repeat.

Hides what of a sample is which canonical column, and that the evaluated model is named in another file: the results
that the harness writes beside the samples.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any

from .errors import ConfigError
from .jsonrows import json_lines
from .rows import DAMAGE, Fault, Record, Row
from .stored import Stored

LIKELIHOODS = (
    "the sample holds log-likelihoods, no answer in words; only generate_until tasks can be judged: "
    "name the files of the others alone in items.path"
)
_NAME = re.compile(r"samples_(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+))?\.jsonl(?:\.gz)?")
_LEFT_OUT = ("arguments", "target", "resps", "filtered_resps")


def named_as_lm_eval(name: str) -> bool:
    """Whether the harness names its samples so."""
    return _NAME.fullmatch(name) is not None


def opens_as_lm_eval(head: bytes) -> bool:
    """Whether a file that starts so holds samples of the harness, as far as its first line is there."""
    first = head.lstrip().partition(b"\n")[0]
    return re.match(rb'\{\s*"doc_id"\s*:', first) is not None and b'"resps"' in first


def lm_eval_rows(file: io.BufferedReader[Any], stored: Stored, named: frozenset[str]) -> Iterator[Row]:
    """A row for each answer, with its line. `named`: columns that the config names."""
    told = _NAME.fullmatch(re.split(r"[/\\]", stored.name)[-1])
    task = told["task"] if told else ""
    model = _model(stored, told["date"]) if told and told["date"] else None
    left_out = [name for name in _LEFT_OUT if name not in named]
    for line, sample in json_lines(file, nan_is_null=True):
        if isinstance(sample, Fault):
            yield line, sample
            continue
        answers = _answers(sample.get("filtered_resps"))
        if "doc_id" not in sample or "resps" not in sample:
            yield line, Fault("no sample of lm-evaluation-harness: it has no doc_id and resps", sample)
            continue
        if answers is None:
            yield line, Fault(LIKELIHOODS, sample)
            continue
        row = {name: value for name, value in sample.items() if name not in left_out}
        row["task"] = task
        row["question_id"] = f"{task}/{sample['doc_id']}" if task else str(sample["doc_id"])
        row["question"] = _prompt(sample.get("arguments"))
        row["reference"] = _reference(sample.get("target"))
        row["raw_response"] = next(iter(_answers(sample["resps"]) or ()), None)
        if model is not None:
            row["system"] = model
        applied = sample.get("filter", "none")
        item_id = row["question_id"] if applied == "none" else f"{row['question_id']}/{applied}"
        for number, answer in enumerate(answers or [""]):
            repeat = {"id": item_id if len(answers) < 2 else f"{item_id}/{number}", "response": answer}
            yield line, {**row, **repeat}


def _answers(responses: Any) -> list[str] | None:
    """The texts of a list of texts, or of lists of them (repeats); None where there are other things."""
    if not isinstance(responses, list):
        return None
    flat = [entry for part in responses for entry in (part if isinstance(part, list) else [part])]
    if any(not isinstance(entry, str) for entry in flat):
        return None
    return None if any(_is_likelihood(part) for part in responses) else flat


def _is_likelihood(part: Any) -> bool:
    """A log-likelihood, once written as text, is a pair [number, is greedy], in `resps` within one more list."""
    if isinstance(part, list) and len(part) == 1:
        return _is_likelihood(part[0])
    if not isinstance(part, list) or len(part) != 2 or part[1] not in ("True", "False"):
        return False
    return re.fullmatch(r"-?(\d+\.\d+(e-?\d+)?|inf)", str(part[0])) is not None


def _prompt(arguments: Any) -> Any:
    """The prompt as it was sent, examples and all. Older versions write a list of pairs, newer ones names."""
    if isinstance(arguments, dict):
        first = arguments.get("gen_args_0")
        return first.get("arg_0") if isinstance(first, dict) else None
    first = arguments[0] if isinstance(arguments, list) and arguments else None
    return first[0] if isinstance(first, list) and first else None


def _reference(target: Any) -> Any:
    return "\n".join(map(str, target)) if isinstance(target, list) else target


def _model(stored: Stored, date: str) -> str | None:
    """The model that the results of the same evaluation name; None where they are not beside the samples."""
    beside = stored.beside(f"results_{date}.json")
    if beside is None:
        return None
    try:
        with beside.open() as file:
            results: Record = json.load(file)
    except (ValueError, *DAMAGE) as error:
        raise ConfigError(f"{beside.name}: cannot be read, to see which model was evaluated: {error}") from None
    model = results.get("model_name") if isinstance(results, dict) else None
    return model if isinstance(model, str) and model else None
