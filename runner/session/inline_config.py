"""The arguments of a run, from the command line or from Python, and the config that they stand for without a file.

Pure. What comes out is an ordinary config mapping, checked by `parse_config` like any other.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any
from urllib.parse import urlsplit

from runner.errors import InputError

OPENAI_HOST = "api.openai.com"
OPENAI_KEY = "OPENAI_API_KEY"

_ENDING = re.compile(r"(\.(jsonl|ndjson|json|csv|tsv|parquet|arrow|feather|eval))?(\.(gz|zst))?$", re.IGNORECASE)
_WILD = re.compile(r"[*?\[]")
_OF_ITEMS = (
    *("judge", "model", "base_url", "api_key_env", "limits", "batch", "sampling"),
    *("reference", "on", "fields", "labels", "name"),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunArguments:
    """What a run is called with. `jurybox.run` and the options of `jurybox run` say what each argument means."""

    items: Any
    """Paths of items or of a config; from Python also a config's mapping, or rows in memory."""
    judge: Any = None
    model: Any = None
    base_url: str | None = None
    api_key_env: str | None = None
    limits: Mapping[str, Any] | None = None
    batch: int | None = None
    sampling: Mapping[str, Any] | None = None
    reference: str | None = None
    on: str | None = None
    fields: Mapping[str, str] | None = None
    labels: Mapping[str, Any] | None = None
    name: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of a config."""
    overrides: Sequence[str] = ()
    out: str | PathLike[str] | None = None
    limit: int | None = None
    sample: int | None = None
    seed: int | None = None
    local: bool = False
    address: str | None = None
    progress: bool = True

    def names_of_items(self) -> list[str]:
        """The arguments in use that go with items alone: a config has a place of its own for each."""
        own = [name for name in _OF_ITEMS if getattr(self, name) not in (None, [], {})]
        return own + [name for name, value in self.settings.items() if value is not None]


def as_list(value: Any) -> list[Any]:
    if isinstance(value, str | Mapping | PathLike) or not isinstance(value, Iterable):
        return [value]
    return list(value)


def inline_config(arguments: RunArguments) -> dict[str, Any]:
    """The config of a run without a file. Items are paths, globs or URLs; judges are names or a config's entries.

    A model that is an id alone is one of OpenAI's, or of `base_url`. OPENAI_API_KEY is named as its key only where the
    requests go to OpenAI: no other endpoint gets a key unless `api_key_env` names one.
    """
    paths = [str(path) for path in as_list(arguments.items)]
    items: dict[str, Any] = {"path": paths[0] if len(paths) == 1 else paths}
    join = {"path": arguments.reference, "on": arguments.on}
    if any(value is not None for value in join.values()):
        items["join"] = {key: value for key, value in join.items() if value is not None}
    if arguments.fields:
        items["fields"] = dict(arguments.fields)
    if arguments.labels:
        items["labels"] = {
            label: {"field": entry} if isinstance(entry, str) else dict(entry)
            for label, entry in arguments.labels.items()
        }
    return {
        "name": arguments.name or run_name(paths),
        "items": items,
        "judges": [_judge(entry, arguments) for entry in as_list(arguments.judge)],
        "models": [_model(entry, arguments) for entry in as_list(arguments.model)],
        **arguments.settings,
    }


def run_name(paths: Sequence[str]) -> str:
    """What a run of these items is called: the first file's name without its ending; of a glob its folder's."""
    path = re.split(r"[?#]", paths[0])[0] if paths and "://" in paths[0] else "".join(paths[:1])
    parts = re.split(r"[/\\]", path)
    while parts and _WILD.search(parts[-1]):
        parts.pop()
    stem = _ENDING.sub("", parts[-1]) if parts else ""
    return stem if stem.strip(".") else "items"


def _judge(entry: str | Mapping[str, Any], arguments: RunArguments) -> dict[str, Any]:
    own = {"use": entry} if isinstance(entry, str) else dict(entry)
    return _defaults(batch=arguments.batch, sampling=arguments.sampling) | own


def _model(entry: Any, arguments: RunArguments) -> dict[str, Any]:
    if not isinstance(entry, str | Mapping):
        raise InputError(f"model: an id or a mapping is wanted, not {type(entry).__name__}")
    base_url, key = arguments.base_url, arguments.api_key_env
    if isinstance(entry, str):
        own: dict[str, Any] = {"name": entry, "model": entry}
        if base_url is None or urlsplit(base_url).hostname == OPENAI_HOST:
            key = key or OPENAI_KEY
    else:
        own = {"name": entry["model"], **entry} if "model" in entry else dict(entry)
        key = None if "api_key_file" in own else key
    return _defaults(base_url=base_url, api_key_env=key, limits=arguments.limits) | own


def _defaults(**values: Any) -> dict[str, Any]:
    """The values that are there, mappings as data of their own."""
    present = {name: value for name, value in values.items() if value is not None}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in present.items()}
