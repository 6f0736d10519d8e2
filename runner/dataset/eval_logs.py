"""Logs of evaluations as rows: of inspect_ai (`.eval`, a zip, and `.json`), of lm-evaluation-harness (`.jsonl`).

Hides the layouts, zip members packed with Zstandard, which part of a sample is which canonical column, that the
transcript of a sample, often a hundred times its answer, is left out unless the config names it, and that the harness
names the evaluated model in another file, the results beside the samples.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from runner.errors import ConfigError

from .files import DAMAGE, MAX_RECORD_BYTES, REST_LOST, Record, Row, RowError
from .json_reader import json_lines, json_member, json_record
from .remote_files import InputFile

ZIPPED = b"PK\x03\x04"
_OPENING = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:\s*"\w+"\s*,\s*"eval"\s*:\s*\{')
_SAMPLE = re.compile(r"samples/.+\.json")
_HEADERS = ("header.json", "_journal/start.json")
"""Where the log says what was evaluated: the second holds it already while the evaluation runs."""
_ATTACHMENT = "attachment://"
_ZSTANDARD = 93
_MEMBER = struct.Struct("<4s22xHH")
_TRANSCRIPT = {"messages", "events", "events_data", "store", "timelines", "error_retries", "attachments"}
_INSPECT_LEFT_OUT = frozenset({"input", "target", "output", *_TRANSCRIPT})
"""Parts of a sample that repeat what stands in another column, or that grow with the transcript."""
_BAD_ZIP = (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, *DAMAGE)


def opens_as_inspect(head: bytes) -> bool:
    """Whether a file that starts so is a log."""
    return head.startswith(ZIPPED) or _OPENING.match(head) is not None


def inspect_rows(file: io.BufferedReader[Any], named: frozenset[str]) -> Iterator[Row]:
    """A row for each sample and epoch, numbered (.eval) or with its line (.json). `named`: columns of the config."""
    zipped = file.peek(4)[:4] == ZIPPED
    header: Record = {}
    left_out = _INSPECT_LEFT_OUT - named
    for place, sample in _zip_samples(file, header) if zipped else json_member(file, "samples", header):
        if isinstance(sample, RowError):
            yield place, sample
            continue
        spec = header.get("eval")
        if not isinstance(spec, dict) or not isinstance(spec.get("model"), str):
            yield place, RowError(f"no log of inspect_ai: it does not say which model was evaluated; {REST_LOST}")
            return
        yield place, _inspect_row(sample, spec, left_out)


def _inspect_row(sample: Record, spec: Record, left_out: frozenset[str]) -> Record | RowError:
    """A sample's columns: its own, the canonical ones, and task and model, which the log says of all of its samples."""
    number, epoch = sample.get("id"), sample.get("epoch", 1)
    if not isinstance(number, int | str):
        return RowError("no sample of inspect_ai: it has no id", sample)
    attachments = sample.get("attachments") or {}
    row = {name: value for name, value in sample.items() if name not in left_out}
    # Ids are those of a task's data set, mostly 1 to n: two tasks of one model would share them.
    task = str(spec.get("task") or "")
    question_id, epochs = f"{task}/{number}", (spec.get("config") or {}).get("epochs") or 1
    row |= {
        "sample_id": number,
        "question_id": question_id,
        "id": question_id if epochs == epoch == 1 else f"{question_id}/{epoch}",
        "system": spec["model"],
        "task": task,
        "question": _question(sample, attachments),
        "reference": _join_targets(sample.get("target")),
        "response": _response(sample.get("output"), attachments),
    }
    if isinstance(row.get("error"), dict):
        row["error"] = {"message": row["error"].get("message")}
    return row


def _question(sample: Record, attachments: Record) -> str:
    """The input as a judge is to read it: without system messages, several turns each with its role."""
    content = sample.get("input")
    if isinstance(content, list):
        turns = [message for message in content if isinstance(message, dict) and message.get("role") != "system"]
        texts = [_text(message.get("content"), attachments, "[{}]") for message in turns]
        roles = [str(message.get("role")).capitalize() for message in turns]
        labelled = (f"{role}: {text}" for role, text in zip(roles, texts, strict=True))
        question = texts[0] if len(turns) == 1 else "\n\n".join(labelled)
    else:
        question = _text(content, attachments, "[{}]")
    if choices := sample.get("choices"):
        # As multiple_choice() of inspect_ai puts them to the model.
        lines = (f"{chr(ord('A') + place)}) {choice}" for place, choice in enumerate(choices))
        question = question + "\n\n" + "\n".join(lines)
    return question


def _join_targets(target: Any) -> Any:
    """The target; of several accepted ones a line each."""
    return "\n".join(map(str, target)) if isinstance(target, list) else target


def _response(output: Any, attachments: Record) -> str:
    """The completion; empty where the sample failed before there was one."""
    if not isinstance(output, dict):
        return ""
    if completion := output.get("completion"):
        return _text(completion, attachments, "")
    choices = output.get("choices")
    message = choices[0].get("message") if isinstance(choices, list) and choices else None
    return _text(message.get("content"), attachments, "") if isinstance(message, dict) else ""


def _text(content: Any, attachments: Record, other: str) -> str:
    """The text of a message's content; parts that are no text become `other`, or nothing."""
    if isinstance(content, str):
        text = attachments.get(content.removeprefix(_ATTACHMENT)) if content.startswith(_ATTACHMENT) else None
        return content if text is None else str(text)
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [
        _text(part.get("text"), attachments, other) if part.get("type") == "text" else other.format(part.get("type"))
        for part in parts
        if part.get("type") != "reasoning"
    ]
    return "\n".join(text for text in texts if text)


def _zip_samples(file: io.BufferedReader[Any], header: Record) -> Iterator[Row]:
    """The samples of a .eval file, numbered from 1; what the log says of them goes into `header` first."""
    number = 0
    try:
        with zipfile.ZipFile(file) as archive:
            members = {info.filename: info for info in archive.infolist()}  # of a name given twice the last stands
            head = next((members[name] for name in _HEADERS if name in members), None)
            if head is None:
                yield 1, RowError(f"no log of inspect_ai: the zip holds no header.json; {REST_LOST}")
                return
            content = _read_member(file, archive, head)
            if isinstance(content, RowError):
                yield 1, RowError(f"{head.filename}: {content.text}; {REST_LOST}")
                return
            header.update(content)
            for name, info in members.items():
                if _SAMPLE.fullmatch(name):
                    number += 1
                    yield number, _read_member(file, archive, info)
    except _BAD_ZIP as error:
        yield number + 1, RowError(f"damaged log: {' '.join(str(error).split())}; {REST_LOST}")


def _read_member(file: io.BufferedReader[Any], archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Record | RowError:
    if max(info.file_size, info.compress_size) > MAX_RECORD_BYTES:
        return RowError(f"{info.filename} is longer than {MAX_RECORD_BYTES:,} bytes")
    try:
        data = _decompress(file, info) if info.compress_type == _ZSTANDARD else archive.read(info)
        text = data.decode()
    except _BAD_ZIP as error:
        return RowError(f"{info.filename} is damaged: {' '.join(str(error).split())}")
    return json_record(text, nan_is_null=True)


def _decompress(file: io.BufferedReader[Any], info: zipfile.ZipInfo) -> bytes:
    """A member packed with Zstandard, as inspect_ai writes since 2025 and zipfile reads only from Python 3.14 on."""
    import pyarrow

    file.seek(info.header_offset)
    mark, name, extra = _MEMBER.unpack(file.read(_MEMBER.size))
    if mark != ZIPPED:
        raise zipfile.BadZipFile("it does not stand where the zip says")
    file.seek(name + extra, io.SEEK_CUR)
    with pyarrow.CompressedInputStream(io.BytesIO(file.read(info.compress_size)), "zstd") as stream:
        data: bytes = stream.read(info.file_size + 1)
    if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
        raise zipfile.BadZipFile("its length or checksum is not what the zip says")
    return data


LIKELIHOODS = (
    "the sample holds log-likelihoods, no answer in words; only generate_until tasks can be judged: "
    "name the files of the others alone in items.path"
)
_LM_EVAL_NAME = re.compile(r"samples_(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+))?\.jsonl(?:\.gz)?")
_LM_EVAL_LEFT_OUT = ("arguments", "target", "resps", "filtered_resps")


def named_as_lm_eval(name: str) -> bool:
    """Whether the harness names its samples so."""
    return _LM_EVAL_NAME.fullmatch(name) is not None


def opens_as_lm_eval(head: bytes) -> bool:
    """Whether a file that starts so holds samples of the harness, as far as its first line is there."""
    first = head.lstrip().partition(b"\n")[0]
    return re.match(rb'\{\s*"doc_id"\s*:', first) is not None and b'"resps"' in first


def lm_eval_rows(file: io.BufferedReader[Any], source: InputFile, named: frozenset[str]) -> Iterator[Row]:
    """A row for each document, filter and repeat, with its line. `named`: columns that the config names."""
    name = _LM_EVAL_NAME.fullmatch(re.split(r"[/\\]", source.name)[-1])
    task = name["task"] if name else ""
    model = _evaluated_model(source, name["date"]) if name and name["date"] else None
    left_out = [name for name in _LM_EVAL_LEFT_OUT if name not in named]
    for line, sample in json_lines(file, nan_is_null=True):
        if isinstance(sample, RowError):
            yield line, sample
            continue
        answers = _answers(sample.get("filtered_resps"))
        if "doc_id" not in sample or "resps" not in sample:
            yield line, RowError("no sample of lm-evaluation-harness: it has no doc_id and resps", sample)
            continue
        if answers is None:
            yield line, RowError(LIKELIHOODS, sample)
            continue
        question_id = f"{task}/{sample['doc_id']}" if task else str(sample["doc_id"])
        row = {name: value for name, value in sample.items() if name not in left_out} | {
            "task": task,
            "question_id": question_id,
            "question": _prompt(sample.get("arguments")),
            "reference": _join_targets(sample.get("target")),
            "raw_response": next(iter(_answers(sample["resps"]) or ()), None),
            **({} if model is None else {"system": model}),
        }
        filter_name = sample.get("filter", "none")
        item_id = question_id if filter_name == "none" else f"{question_id}/{filter_name}"
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


def _evaluated_model(source: InputFile, date: str) -> str | None:
    """The model that the results of the same evaluation name; None where they are not beside the samples."""
    beside = source.beside(f"results_{date}.json")
    if beside is None:
        return None
    try:
        with beside.open() as file:
            results: Record = json.load(file)
    except (ValueError, *DAMAGE) as error:
        raise ConfigError(f"{beside.name}: cannot be read, to see which model was evaluated: {error}") from None
    model = results.get("model_name") if isinstance(results, dict) else None
    return model if isinstance(model, str) and model else None
