"""What `jurybox.run(...)` was called with, as the run that it means: config, judges, directory, and how it is done.

Hides that items may be a file, a frame or a whole config, that a judge may be a name, data or an object, and where a
run lives that was given no directory.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import operator
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from judges import Judge, JudgeError, load_judge, parse_judge
from runner.config import RunConfig, load_config, parse_config
from runner.dataset import Sample
from runner.dataset.in_memory import FILE, InMemoryItems, restate_errors
from runner.endpoint.judge_model import judge_models
from runner.errors import ConfigError, InputError, Interrupted, StoppedEarly
from runner.ledger.run_directory import meaning_of
from runner.scheduling.cluster_address import parse_address

from .cancellation import StopSignal
from .inline_config import adhoc_config
from .session import Session, local_pool, missing_keys, ray_pool

_DATA = (".jsonl", ".ndjson", ".csv", ".parquet", ".gz")
_CONFIG = ("items", "judges", "models")


@dataclass(frozen=True, slots=True)
class RunArguments:
    """The arguments of `jurybox.run` that say what is judged."""

    items: Any
    judge: Any = None
    model: Any = None
    base_url: str | None = None
    api_key_env: str | None = None
    limits: Mapping[str, Any] | None = None
    batch: int | None = None
    sampling: Mapping[str, Any] | None = None
    fields: Mapping[str, str] | None = None
    labels: Mapping[str, Any] | None = None
    name: str | None = None
    settings: Mapping[str, Any] | None = None
    limit: int | None = None
    sample: int | None = None


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run ready to be carried out."""

    config: RunConfig
    base: Path
    directory: Path
    judges: list[Judge] | None = None
    """None: as the config names them."""
    given: InMemoryItems | None = None
    """None: the items are in files."""
    limit: int | None = None
    sample: int | None = None

    def carry_out(
        self,
        switch: StopSignal,
        judging: Callable[[Callable[[], None]], None],
        *,
        local: bool = True,
        address: str | None = None,
        progress: bool = False,
    ) -> None:
        """Judge what is left to judge, and publish. `judging` is handed the part that runs an event loop."""
        sample = None if self.sample is None else Sample(self.sample, self.config.seed)
        if address is not None:
            parse_address(address)
            local = False
        with (
            nullcontext() if self.given is None else closing(self.given),
            Session(
                self.config, self.base, self.directory, limit=self.limit, sample=sample, judges=self.judges
            ) as session,
        ):
            try:
                if self.given is not None:
                    self.given.place(self.directory)
                plan = session.plan()
            except InputError as error:
                raise (error if self.given is None else restate_errors(error, self.directory)) from None
            if plan.complete:
                session.finish()
                _require_published(session)
                return
            if address is None and (problems := missing_keys(self.config)):
                raise InputError(problems[0])

            def judge() -> None:
                from .progress import Progress

                accounts = {model.name: model.account_name for model in self.config.models}
                try:
                    with Progress(quiet=not progress, accounts=accounts) as shown:
                        session.judge(
                            plan,
                            make_pool=lambda: local_pool(session) if local else ray_pool(session, address),
                            watch=shown.update,
                            switch=switch,
                        )
                except asyncio.CancelledError:
                    raise (switch.why or Interrupted("cancelled")) from None
                except ExceptionGroup as group:
                    # A bug, as like as not in a judge's code: its own traceback, without those of our tasks.
                    raise _first(group) from None

            try:
                judging(judge)
            finally:
                if switch.left is None:
                    session.finish()
                else:
                    session.stay_until(switch.left)
            _require_published(session)


def _require_published(session: Session) -> None:
    if session.publishing.trouble is not None:
        raise StoppedEarly(session.publishing.trouble)


def _first(group: ExceptionGroup[Exception]) -> Exception:
    error: Exception = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def run_request(asked: RunArguments, out: str | PathLike[str] | None) -> RunRequest:
    """What the arguments mean; InputError where they do not go together."""
    limit, sample = _count("limit", asked.limit), _count("sample", asked.sample)
    if limit is not None and sample is not None:
        raise InputError("limit and sample exclude each other")
    return replace(_call_of(asked, out), limit=limit, sample=sample)


def _count(name: str, value: Any) -> int | None:
    """How many items; a whole number of any library will do."""
    if value is None:
        return None
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if count < 1 or isinstance(value, bool):
        raise InputError(f"{name}: must be a whole number from 1 on, not {value!r}")
    return count


def _call_of(asked: RunArguments, out: str | PathLike[str] | None) -> RunRequest:
    if asked.judge is None and asked.model is None and _is_config(asked.items):
        return _configured(asked, out)
    for name, value in (("judge", asked.judge), ("model", asked.model)):
        if value is None:
            raise InputError(f"{name}: is missing; items need a judge and a model (a config names its own)")
    entries, judges = _judges(asked)
    models = [_model(model, asked) for model in _several(asked.model)]
    in_file = isinstance(asked.items, str | PathLike)
    settings = dict(asked.settings or {})
    if taken := sorted({"items", "judges", "models", "out"} & set(settings)):
        raise InputError(f"{taken[0]}: is not set this way; see help(jurybox.run)")
    data = adhoc_config(
        fspath(asked.items) if in_file else FILE,
        judges=entries,
        models=models,
        base_url=asked.base_url,
        api_key_env=asked.api_key_env,
        fields=asked.fields,
        labels=asked.labels,
        name=asked.name or (None if in_file else judges[0].name),
        **settings,
    )
    if in_file:
        config = parse_config(data, source="jurybox.run")
        return RunRequest(config, Path(), Path(out or f"runs/{config.name}"), judges)
    given = InMemoryItems(asked.items)
    try:
        config = parse_config(data, source="jurybox.run")
        directory = Path(out or f"runs/{config.name}-{_digest(config, judges, given)}")
    except BaseException:
        given.close()
        raise
    placed = config.items.model_copy(update={"path": str(directory / FILE)})
    return RunRequest(config.model_copy(update={"items": placed}), Path(), directory, judges, given)


def load_any(judge: Any, kind: type[Judge] = Judge) -> Judge:
    """A judge by name, path, YAML text or data; or the judge itself."""
    if isinstance(judge, Judge):
        return judge
    try:
        if isinstance(judge, Mapping):
            return parse_judge(judge, f"judge {judge.get('name', '')}".strip(), kind)
        if isinstance(judge, str) and "\n" in judge:
            return parse_judge(judge, "judge", kind)
        if isinstance(judge, str | PathLike):
            found = load_judge(fspath(judge), Path())
            return found if kind is Judge else parse_judge(found.source, fspath(judge), kind)
    except JudgeError as error:
        raise ConfigError(error.message) from None
    raise InputError(f"judge: a name, a path, a mapping or a judge is wanted, not {type(judge).__name__}")


def _is_config(items: Any) -> bool:
    if isinstance(items, Mapping):
        return any(key in items for key in _CONFIG)
    return isinstance(items, str | PathLike) and not fspath(items).lower().endswith(_DATA)


def _configured(asked: RunArguments, out: str | PathLike[str] | None) -> RunRequest:
    """A whole config. What goes with items alone is refused, since the config has a place for it."""
    given = {
        "base_url": asked.base_url, "api_key_env": asked.api_key_env, "limits": asked.limits, "batch": asked.batch,
        "sampling": asked.sampling, "fields": asked.fields, "labels": asked.labels, "name": asked.name,
        **(asked.settings or {}),
    }  # fmt: skip
    if used := [name for name, value in given.items() if value is not None]:
        raise InputError(f"{used[0]}: goes with items, judge= and model=; here the config says it")
    if isinstance(asked.items, Mapping):
        parsed, base = parse_config(asked.items), Path()
    else:
        parsed, base = load_config(Path(asked.items)), Path(asked.items).resolve().parent
    return RunRequest(parsed, base, Path(out if out is not None else parsed.out or f"runs/{parsed.name}"))


def _judges(asked: RunArguments) -> tuple[list[dict[str, Any]], list[Judge]]:
    """The entries of a config for the judges, and the judges."""
    entries, judges = [], []
    for judge in _several(asked.judge):
        own = dict(judge) if isinstance(judge, Mapping) and "use" in judge else {"use": judge}
        loaded = load_any(own["use"])
        own["use"] = fspath(own["use"]) if isinstance(own["use"], str | PathLike) else loaded.name
        if "\n" in own["use"]:
            own["use"] = loaded.name
        if asked.batch is not None:
            own.setdefault("batch", asked.batch)
        if asked.sampling is not None:
            own.setdefault("sampling", dict(asked.sampling))
        entries.append(own)
        judges.append(loaded)
    return entries, judges


def _model(model: Any, asked: RunArguments) -> str | dict[str, Any]:
    """A model of a config: an id alone stays one unless limits are given; a mapping is filled up."""
    if not isinstance(model, str | Mapping):
        raise InputError(f"model: an id or a mapping is wanted, not {type(model).__name__}")
    if isinstance(model, str) and asked.limits is None:
        return model
    if isinstance(model, str):
        made = adhoc_config(None, judges=[], models=[model], base_url=asked.base_url, api_key_env=asked.api_key_env)
        return {**made["models"][0], "limits": dict(asked.limits or {})}
    own = {key: value for key, value in model.items()}
    if "model" in own:
        own = {"name": own["model"], **own}
    for key, value in (("base_url", asked.base_url), ("api_key_env", asked.api_key_env), ("limits", asked.limits)):
        if value is not None and not (key == "api_key_env" and "api_key_file" in own):
            own.setdefault(key, dict(value) if isinstance(value, Mapping) else value)
    return own


def _several(value: Any) -> list[Any]:
    """One or several, as a list."""
    if isinstance(value, str | Mapping | Judge | PathLike) or not isinstance(value, Iterable):
        return [value]
    return list(value)


def _digest(config: RunConfig, judges: list[Judge], given: InMemoryItems) -> str:
    """Tells apart runs whose meaning differs; what may change in a directory (limits, endpoint, labels) is left out."""
    told = [
        given.digest,
        [judge.fingerprint for judge in judges],
        meaning_of(config, judges, judge_models(config, judges)),
    ]
    return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=5).hexdigest()
