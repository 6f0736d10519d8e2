"""A run without a config file: the config that items, judges and models given by name stand for.

Pure. What it makes is an ordinary config mapping, checked by `parse_config` like any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any
from urllib.parse import urlsplit

OPENAI_HOST = "api.openai.com"
OPENAI_KEY = "OPENAI_API_KEY"

_ENDING = re.compile(r"(\.(jsonl|ndjson|json|csv|parquet|eval))?(\.gz)?$", re.IGNORECASE)
_WILD = re.compile(r"[*?\[]")


def adhoc_config(
    items: str | PathLike[str] | Sequence[str | PathLike[str]] | None,
    *,
    judges: Sequence[str | Mapping[str, Any]],
    models: Sequence[str | Mapping[str, Any]],
    base_url: str | None = None,
    api_key_env: str | None = None,
    reference: str | None = None,
    on: str | None = None,
    fields: Mapping[str, str] | None = None,
    labels: Mapping[str, Any] | None = None,
    name: str | None = None,
    out: str | PathLike[str] | None = None,
    **top: Any,
) -> dict[str, Any]:
    """The config mapping of a run without a file.

    `items` is a path, glob or URL, or several; None leaves `items.path` to the caller. A model given by its id alone is
    one of OpenAI's, or of `base_url`. OPENAI_API_KEY is named as its key only where the requests go to OpenAI: no other
    endpoint gets a key unless `api_key_env` names one. `labels`: name → column (true or false), or a config's mapping.
    `top`: further keys of the config, such as `repeats` or `budget`.
    """
    paths = [] if items is None else [items] if isinstance(items, str | PathLike) else list(items)
    written = [str(path) for path in paths]
    made: dict[str, Any] = {}
    if written:
        made["path"] = written[0] if len(written) == 1 else written
    if reference is not None or on is not None:
        made["join"] = {key: value for key, value in (("path", reference), ("on", on)) if value is not None}
    if fields:
        made["fields"] = dict(fields)
    if labels:
        made["labels"] = {
            label: {"field": entry} if isinstance(entry, str) else dict(entry) for label, entry in labels.items()
        }
    config: dict[str, Any] = {
        "name": name or run_name(written),
        "items": made,
        "judges": list(judges),
        "models": [_model(model, base_url, api_key_env) for model in models],
        **top,
    }
    if out is not None:
        config["out"] = str(out)
    return config


def run_name(paths: Sequence[str]) -> str:
    """What a run of these items is called: the first file's name without its ending; of a glob its folder's."""
    path = re.split(r"[?#]", paths[0])[0] if paths and "://" in paths[0] else "".join(paths[:1])
    parts = re.split(r"[/\\]", path)
    while parts and _WILD.search(parts[-1]):
        parts.pop()
    stem = _ENDING.sub("", parts[-1]) if parts else ""
    return stem if stem.strip(".") else "items"


def _model(model: str | Mapping[str, Any], base_url: str | None, api_key_env: str | None) -> dict[str, Any]:
    if not isinstance(model, str):
        return dict(model)
    made = {"name": model, "model": model}
    if base_url is not None:
        made["base_url"] = base_url
    if api_key_env is not None:
        made["api_key_env"] = api_key_env
    elif base_url is None or urlsplit(base_url).hostname == OPENAI_HOST:
        made["api_key_env"] = OPENAI_KEY
    return made
