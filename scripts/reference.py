"""Writes the parts of README.md and docs/ that follow from the program, so that they cannot tell another story.

    .venv/bin/python scripts/reference.py             write everything anew; needs no network and no key
    .venv/bin/python scripts/reference.py --check     say what is stale, and end with status 1

A page holds `<!-- generated: NAME -->` … `<!-- end -->` where something follows from the code; `PARTS` has the names.
How a command's output is shown stands in scripts/pages.py: it is written anew where it says something else than before,
not where only its figures differ. The schemas of docs/schemas are written whole.
"""

from __future__ import annotations

import argparse
import enum
import inspect
import re
import sys
import tempfile
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

import polars as pl  # noqa: E402
import typer.main  # noqa: E402
from pages import ROOT, Shown, block_of, carry_out, pages, words  # noqa: E402

import judges  # noqa: E402
import jurybox  # noqa: E402
from runner.cli.app import app  # noqa: E402
from runner.publishing.result_columns import IDENTITY, ITEM_TEXTS, LABEL, OUTCOME, REMARK, SCORE  # noqa: E402
from runner.publishing.result_frames import ATTEMPT_COLUMNS, COLUMNS  # noqa: E402
from runner.session.json_schema import json_schema, schema_text  # noqa: E402

BLOCK = re.compile(r"(<!-- generated: (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
SCHEMAS: tuple[typing.Literal["config", "judge"], ...] = ("config", "judge")

MEANINGS = {
    "key": "the trial's key: a digest of all that may change its answer",
    "run": "the run's name",
    "revision": "the revision that the row belongs to; `retry` and `rescore` make new ones",
    "item_id": "the item's `id`; with `system` it is the item's identity",
    "question_id": "what the answers of several systems have in common",
    "system": "whose answer it is",
    "item_group": "the category that results are split by",
    "judge": "the judge's name",
    "judge_fingerprint": "digest of all that the judge means",
    "template": "the template that the item was routed to",
    "model": "the judge model's short name",
    "model_id": "the model id that was asked for",
    "served_model": "the model that the endpoint says has answered",
    "system_fingerprint": "the endpoint's `system_fingerprint`",
    "repeat": "which repeat, from 0",
    "state": "`scored`, `malformed`, `refused`, `failed`, `poisoned`; null while not judged",
    "reason": "why there is no score, in a word",
    "verdict": "what the reply says, as JSON: the fields that count",
    "scores": "all scores in one, for whoever does not know their names",
    "labels": "all human labels in one; what is no text stands as JSON writes it",
    "judge_reply": "the judge's raw reply",
    "reasoning_text": "the reasoning that the endpoint gave apart",
    "refusal_text": "the endpoint's words where the model declined",
    "finish_reason": "why the reply ended, in the endpoint's word",
    "stage": "the step that led to the outcome: `strict`, `tolerant:…`, `repaired`, `reformat`, `rejudge:k`,"
    " `bisect:k`, `empty`",
    "notes": "what was coerced or left out on the way",
    "parser_version": "the version of the reader that read the reply",
    "structured": "how the endpoint enforced the reply's form: `enforced:json_schema`, `enforced:vllm`, `json_object`,"
    " `ignored`, `refused`, `off`",
    "request_id": "the request that decided",
    "batch_size": "items in the judge's requests, as configured",
    "batch_position": "place in the request that decided, from 1",
    "bisect_depth": "how often that request had been halved",
    "official_reading": "the published reading, of judges that declare one",
    "attempts": "requests for this trial",
    "input_tokens": "tokens of the prompts; of a batch, the trial's share",
    "cached_tokens": "those of them that the endpoint had cached",
    "output_tokens": "tokens of the replies",
    "reasoning_tokens": "those of them that were reasoning",
    "cost_usd": "USD; null where no price is known",
    "latency_s": "seconds from sending to the last byte, of the deciding request",
    "injection_suspect": "whether the judged text imitates a reply or orders the judge about",
    "is_control": "whether it is a control item, which is part of no result",
    "judged_at": "when the outcome was recorded",
    "worker": "the worker that asked",
    "slices": "the judge's own slices that the item belongs to",
    "injection_signs": "what made the text suspect",
    "attempt_id": "number of the request in the ledger",
    "keys": "the keys of the trials that the request carried",
    "try": "which sending of the request, from 1",
    "error": "the kind of error and the endpoint's words: `throttled: …`, `server: …`, `timeout: …`",
    "status": "HTTP status",
    "retry_after_s": "seconds that the endpoint asked to wait",
    "late_duplicate": "whether the trial was already settled when the reply came",
    "sent_at": "when it was sent",
    "reading": "how the reply was read: as in `stage`, or `malformed`, `refused`; null where none came",
    "same_verdict": "of a check (`retry.reread`): whether it came to the trial's verdict; null where either has none",
}
"""Column → what it says."""
OF_ITEMS = {
    **{name: ("string", "the item's; what is no text stands as JSON writes it") for name in ITEM_TEXTS},
    "FIELD": ("by its values", "every other column of the item's row"),
}
"""Columns of the run's own items → type and what they say."""
OF_VERDICTS = {
    f"{SCORE}NAME": ("int64 or double", "the judge's score; yes is 1; null where the trial, or its judge, has none"),
    f"{LABEL}NAME": ("bool, int64, double or string", "the human label of the config, by its type"),
    f"{REMARK}NAME": ("string", "a text that the judge's object holds beside the verdict, such as its `reason`"),
}
OF_ATTEMPTS = {
    "request_id": "the request's own id",
    "state": "`ok` where a reply came, `error` where none did",
    "stage": "the step that sent the request: `first`, `rejudge:k`, …, `reread:PLACE`",
    "input_tokens": "tokens of the prompt",
    "output_tokens": "tokens of the reply",
    "latency_s": "seconds from sending to the last byte",
}
"""What columns of these names say of a request."""


def command(name: str) -> Iterator[str]:
    """A command's words, arguments and options."""
    found = COMMANDS[name]
    signature = inspect.signature(found.callback, eval_str=True).parameters
    rows: dict[str, list[str]] = {}
    arguments = []
    for parameter in found.params:
        kind, info, *_ = typing.get_args(signature[parameter.name].annotation)
        option = parameter.opts[0]
        if not option.startswith("--"):
            shown = info.metavar or "|".join(_choices(kind)) or option.upper()
            arguments.append(shown if parameter.required else f"[{shown}]")
            words_of = " or ".join(f"`{word}`" for word in shown.split("|"))
            rows.setdefault("argument", []).append(f"| {words_of} | {_cell(info.help)} |")
            continue
        choices = _choices(kind)
        named = info.metavar or (option.lstrip("-").upper() if choices else _metavar(kind))
        takes = "" if kind is bool else f" {named}"
        one_of = f" One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else ""
        required = " **Required.**" if parameter.required else ""
        default = parameter.default
        if isinstance(default, enum.Enum):
            default = default.value
        usual = "" if default in (None, False, 0, 0.0) or callable(default) else f" Default: `{default}`."
        rows.setdefault(info.rich_help_panel or "option", []).append(
            f"| `{option}{takes}` | {_cell(info.help)}{one_of}{required}{usual} |"
        )
    yield "```text"
    yield " ".join(["jurybox", name, *arguments, "[OPTIONS]"])
    yield "```"
    yield ""
    yield " ".join(found.help.split())
    yield from ("", re.sub(r": (.*)", r": `\1`", found.epilog))
    for panel, lines in rows.items():
        yield from ("", f"| {panel[0].lower() + panel[1:]} | |", "|---|---|", *lines)


def _choices(kind: Any) -> list[str]:
    return list(typing.get_args(kind)) if typing.get_origin(kind) is typing.Literal else []


def _metavar(kind: Any) -> str:
    kinds = set(typing.get_args(kind)) if isinstance(kind, types.UnionType) else {kind}
    return "N" if kinds & {int, float} else "PATH" if Path in kinds else "TEXT"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def keys(kind: typing.Literal["config", "judge"]) -> Iterator[str]:
    """Every key of a file, by the mapping that it stands in: type, default, meaning."""
    schema = json_schema(kind)
    places = {"": ""}
    _walk(schema, schema["$defs"], "", places)
    for name, place in places.items():
        record = schema["$defs"][name] if name else schema
        yield from ("", f"### `{place}`" if place else "### Top level", "", record["description"], "")
        yield from ("| key | type | default | meaning |", "|---|---|---|---|")
        for key, value in record["properties"].items():
            default = "**required**" if key in record.get("required", []) else _default(value.get("default"))
            own = value.get("description") or re.split(r"(?<=\.) ", _described(value, schema["$defs"]))[0]
            yield f"| `{key}` | {_type(value, places)} | {default} | {_cell(own)} |"


def _walk(record: Mapping[str, Any], definitions: Mapping[str, Any], place: str, places: dict[str, str]) -> None:
    """Put definition → the first place where it may stand into `places`, what stands within it right after it."""
    for key, value in record["properties"].items():
        for name, below in _records(value, f"{place}.{key}".lstrip(".")):
            if name not in places:
                places[name] = below
                _walk(definitions[name], definitions, below, places)


def _described(value: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """What is said of the only mapping that a value may hold."""
    names = {name for name, _ in _records(value, "")}
    return str(definitions[names.pop()]["description"]) if len(names) == 1 else ""


def _records(value: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
    """The mappings that a value may hold: name of the definition, and where it stands."""
    if "$ref" in value:
        yield value["$ref"].rpartition("/")[2], place
    variants = [each for each in (*value.get("anyOf", ()), *value.get("oneOf", ()))]
    named = "discriminator" in value
    for each in variants:
        for name, below in _records(each, place):
            yield name, f"{below} ({name.removesuffix('Reads').lower()})" if named else below
    if "items" in value:
        yield from _records(value["items"], f"{place}[]")
    if isinstance(value.get("additionalProperties"), Mapping):
        yield from _records(value["additionalProperties"], f"{place}.NAME")


def _type(value: Mapping[str, Any], places: Mapping[str, str]) -> str:
    if name := value.get("$ref", "").rpartition("/")[2]:
        place = places[name]
        return f"[`{place}`](#{re.sub(r'[^a-z0-9_ -]', '', place.lower()).replace(' ', '-')})"
    if variants := [each for each in (*value.get("anyOf", ()), *value.get("oneOf", ())) if each != {"type": "null"}]:
        kinds = dict.fromkeys(_type(each, places) for each in variants if each.get("const") is not False)
        if "number" in kinds:
            kinds.pop("whole number", None)
        return " or ".join(kinds)
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"] if each is not False)
    if value.get("type") == "array":
        return f"list of {_type(value['items'], places)}"
    if value.get("type") == "object":
        inner = value.get("additionalProperties")
        return f"mapping to {_type(inner, places)}" if isinstance(inner, Mapping) and inner else "mapping"
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true`, `false`"}
    bounds = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = [f"{sign} {value[bound]}" for bound, sign in bounds.items() if bound in value]
    return ", ".join([words.get(value.get("type", ""), "anything"), *limits])


def _default(value: Any) -> str:
    if value is None or value == "" or isinstance(value, Mapping | list):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def columns(name: str) -> Iterator[str]:
    """The columns of the results or of the attempts."""
    yield from ("| column | type | meaning |", "|---|---|---|")
    own = {list(IDENTITY)[-1]: OF_ITEMS, list(OUTCOME)[-1]: OF_VERDICTS} if name == "results" else {}
    for column, kind in {"results": COLUMNS, "attempts": ATTEMPT_COLUMNS}[name].items():
        if column not in MEANINGS:
            raise SystemExit(f"scripts/reference.py: MEANINGS does not say what the column {column!r} holds")
        meaning = OF_ATTEMPTS.get(column, MEANINGS[column]) if name == "attempts" else MEANINGS[column]
        yield f"| `{column}` | `{_arrow(kind)}` | {meaning} |"
        for more, (kinds, says) in own.get(column, {}).items():
            yield f"| `{more}` | {kinds if ' ' in kinds else f'`{kinds}`'} | {says} |"


def _arrow(kind: Any) -> str:
    if isinstance(kind, pl.List):
        inner: Any = kind.inner
        if isinstance(inner, pl.Struct):
            return f"map<{', '.join(_arrow(field.dtype) for field in inner.fields)}>"
        return f"list<{_arrow(inner)}>"
    if isinstance(kind, pl.Datetime):
        return "timestamp[us, UTC]"
    return {pl.String: "string", pl.Int64: "int64", pl.Float64: "double", pl.Boolean: "bool"}[kind]


def python(module: types.ModuleType) -> Iterator[str]:
    """The public names of a module with their signatures and docstrings."""
    for name in sorted(module.__all__, key=lambda name: (isinstance(getattr(module, name), type), name.lower())):
        value = getattr(module, name)
        if inspect.isclass(value):
            yield from ("", f"### `{module.__name__}.{name}`", "", *_prose(value))
            if issubclass(value, jurybox.JuryboxError):
                yield from ("", f"As a command it ends with status {value.exit_status}.")
            else:
                for method, function in vars(value).items():
                    if inspect.isfunction(function) and not method.startswith("_"):
                        yield from ("", f"#### `{name}.{method}`", "", *_signature(method, function), *_prose(function))
        elif inspect.isfunction(value):
            yield from ("", f"### `{module.__name__}.{name}`", "", *_signature(name, value), *_prose(value))


def _signature(name: str, function: Callable[..., Any]) -> list[str]:
    found = inspect.signature(function)
    parts = [str(parameter) for key, parameter in found.parameters.items() if key != "self"]
    parts = [re.sub(r"<class '[\w.]*?(\w+)'>", r"\1", part).replace("'", "") for part in parts]
    first = next((at for at, each in enumerate(found.parameters.values()) if each.kind is each.KEYWORD_ONLY), None)
    if first is not None:
        parts.insert(first, "*")
    end = f") -> {found.return_annotation}".replace("'", "") if found.return_annotation is not found.empty else ")"
    line = f"{name}({', '.join(parts)}{end}"
    lines = [line] if len(line) <= 88 else [f"{name}(", *(f"    {part}," for part in parts), end]
    return ["```python", *lines, "```", ""]


def _prose(value: Any) -> list[str]:
    """A docstring as Markdown: what stands as `name: text` at a line's start is an entry of a list."""
    text = inspect.getdoc(value) or ""
    if inspect.isclass(value) and text.startswith(f"{value.__name__}("):
        return []
    lines: list[str] = []
    for line in text.splitlines():
        if entry := re.match(r"((?:\w+, )*\w+): (.*)", line):
            if lines and not lines[-1].startswith(("- ", "  ")) and lines[-1]:
                lines.append("")
            line = f"- **{entry[1]}**: {entry[2]}"
        elif line.startswith("    "):
            line = f"  {line.strip()}"
        lines.append(line)
    return lines


def judge_table() -> Iterator[str]:
    """The shipped judges: what each judges, and what its verdict holds."""
    yield from ("| judge | what it judges | a verdict holds |", "|---|---|---|")
    for name in judges.library_names():
        judge = judges.load_judge(name, ROOT)
        first = re.split(r"(?<=[.?;])\s", judge.description)[0].rstrip(".;")
        fields = ", ".join(f"`{field}`" for field in judge.scales())
        yield f"| `{name}` | {_cell(first)} | {fields} |"


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    **{f"command {name}": partial(command, name) for name in COMMANDS},
    **{f"keys {kind}": partial(keys, kind) for kind in SCHEMAS},
    **{f"columns {name}": partial(columns, name) for name in ("results", "attempts")},
    "python": partial(python, jurybox),
    "judges": judge_table,
}


def generated(text: str) -> str:
    """A page with what follows from the code written anew."""

    def renewed(block: re.Match[str]) -> str:
        if block[2] not in PARTS:
            raise SystemExit(f"scripts/reference.py: nothing is called {block[2]!r}; there is {', '.join(PARTS)}")
        body = "\n".join(PARTS[block[2]]()).strip("\n")
        return f"{block[1]}\n{body}\n\n{block[4]}"

    return BLOCK.sub(renewed, text)


def with_outputs(text: str) -> str:
    """A page with its commands' outputs as they are now, where their words have changed."""
    with tempfile.TemporaryDirectory() as folder:
        found = carry_out(text, Path(folder))
    for done in reversed(found):
        if isinstance(shown := done.step, Shown):
            block = block_of(done.printed, shown.lines)
            if words(block) != words(text[shown.start : shown.end]):
                text = text[: shown.start] + block + text[shown.end :]
    return text


def stale(*, with_commands: bool) -> dict[Path, str]:
    """File → what it should hold, of those that hold something else; `with_commands`: outputs too."""
    found = {}
    for page in pages():
        text = page.read_text("utf-8")
        wanted = generated(text)
        if with_commands and "<!-- output " in wanted:
            wanted = with_outputs(wanted)
        if wanted != text:
            found[page] = wanted
    for kind in SCHEMAS:
        path = ROOT / "docs" / "schemas" / f"{kind}.schema.json"
        if not path.is_file() or path.read_text("utf-8") != schema_text(kind):
            found[path] = schema_text(kind)
    return found


def main() -> None:
    """Write what is stale, or say what is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 where something is stale")
    check = parser.parse_args().check
    found = stale(with_commands=True)
    for path, text in found.items():
        sys.stdout.write(f"{'stale' if check else 'written'}: {path.relative_to(ROOT)}\n")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    raise SystemExit(bool(check and found))


if __name__ == "__main__":
    main()
