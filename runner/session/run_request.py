"""What `jurybox.run(...)` was called with, as the run that it means: config, judges, directory, and how it is done.

Hides that items may be a file, a frame or a whole config, that a judge may be a name, data or an object, and where a
run lives that was given no directory.
"""

import asyncio
import hashlib
import json
import operator
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from judges import Judge, JudgeError, load_judge, parse_judge
from runner.config import RunConfig, load_config, parse_config
from runner.dataset import Sample
from runner.dataset.in_memory import FILE, InMemoryItems, restate_errors
from runner.dataset.missing_columns import MissingColumnsError, in_python
from runner.endpoint.judge_model import judge_models
from runner.errors import ConfigError, InputError, Interrupted, StoppedEarly
from runner.ledger.run_directory import meaning_of
from runner.scheduling.cluster_address import parse_address

from .cancellation import StopSignal
from .inline_config import RunArguments, as_list, inline_config
from .judging import judge_and_show, require_keys
from .planning import Plan, plan_run
from .session import Session

_DATA = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".arrow", ".feather", ".gz", ".zst")
_CONFIG = ("items", "judges", "models")


@dataclass(frozen=True, slots=True)
class RunRequest:
    arguments: RunArguments
    config: RunConfig
    base: Path
    """What paths in the config are relative to."""
    directory: Path
    judges: list[Judge] | None = None
    """None: as the config names them."""
    in_memory: InMemoryItems | None = None
    """None: the items are in files."""

    @property
    def sample(self) -> Sample | None:
        size, seed = self.arguments.sample, self.arguments.seed
        return None if size is None else Sample(size, self.config.seed if seed is None else seed)

    def session(self) -> Session:
        """The run's directory, not entered yet."""
        return Session(
            self.config, self.base, self.directory, limit=self.arguments.limit, sample=self.sample, judges=self.judges
        )

    def carry_out(self, signal: StopSignal, run_loop: Callable[[Callable[[], None]], None]) -> None:
        """Judge what is left to judge, and publish. `run_loop` calls the part that runs an event loop."""
        with nullcontext() if self.in_memory is None else closing(self.in_memory), self.session() as session:
            try:
                if self.in_memory is not None:
                    self.in_memory.place(self.directory)
                plan = plan_run(session)
            except InputError as error:
                if isinstance(error, MissingColumnsError) and error.missing and self.arguments.judge is not None:
                    error = InputError(error.missing.describe(in_python))
                raise (error if self.in_memory is None else restate_errors(error, self.directory)) from None
            if not plan.complete and self.arguments.address is None:
                require_keys(self.config)
            try:
                if not plan.complete:
                    run_loop(lambda: self._judge(session, plan, signal))
            finally:
                if signal.left is None:
                    session.finish()
                else:
                    session.stay_until(signal.left)
            if session.publisher.trouble is not None:
                raise StoppedEarly(session.publisher.trouble)

    def _judge(self, session: Session, plan: Plan, signal: StopSignal) -> None:
        address = self.arguments.address
        local, quiet = self.arguments.local and address is None, not self.arguments.progress
        try:
            judge_and_show(session, plan, address=address, local=local, quiet=quiet, signal=signal)
        except asyncio.CancelledError:
            raise (signal.why or Interrupted("cancelled")) from None
        except ExceptionGroup as group:
            # A bug, as like as not in a judge's code: its own traceback, without those of our tasks.
            bug: Exception = group
            while isinstance(bug, ExceptionGroup):
                bug = bug.exceptions[0]
            raise bug from None


def run_request(arguments: RunArguments) -> RunRequest:
    """What the arguments of `jurybox.run` mean; InputError where they do not go together."""
    limit, sample = _count("limit", arguments.limit), _count("sample", arguments.sample)
    arguments = replace(arguments, limit=limit, sample=sample)
    check_limits(arguments)
    if arguments.address is not None:
        parse_address(arguments.address)
    if arguments.judge is None and arguments.model is None and _is_config(arguments.items):
        return _of_config(arguments)
    for name, value in (("judge", arguments.judge), ("model", arguments.model)):
        if value is None:
            raise InputError(f"{name}: is missing; items need a judge and a model (a config names its own)")
    return _of_items(arguments)


def check_limits(arguments: RunArguments) -> None:
    """InputError for two ways at once to judge only some of the items."""
    if arguments.limit is not None and arguments.sample is not None:
        raise InputError("limit and sample exclude each other")


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


def _is_config(items: Any) -> bool:
    if isinstance(items, Mapping):
        return any(key in items for key in _CONFIG)
    return isinstance(items, str | PathLike) and not fspath(items).lower().endswith(_DATA)


def _of_config(arguments: RunArguments) -> RunRequest:
    """A whole config. What goes with items alone is refused, since the config has a place for it."""
    if names := arguments.names_of_items():
        raise InputError(f"{names[0]}: goes with items, judge= and model=; here the config says it")
    if isinstance(arguments.items, Mapping):
        config, base = parse_config(arguments.items), Path()
    else:
        path = Path(arguments.items)
        config, base = load_config(path), path.resolve().parent
    return RunRequest(arguments, config, base, Path(arguments.out or config.out or f"runs/{config.name}"))


def _of_items(arguments: RunArguments) -> RunRequest:
    if names := sorted({"items", "judges", "models", "out"} & set(arguments.settings)):
        raise InputError(f"{names[0]}: is not set this way; see help(jurybox.run)")
    entries, judges = _judges(arguments.judge)
    in_file = isinstance(arguments.items, str | PathLike)
    name = arguments.name or (None if in_file else judges[0].name)
    named = replace(arguments, items=arguments.items if in_file else FILE, judge=entries, name=name)
    if in_file:
        config = parse_config(inline_config(named), source="jurybox.run")
        return RunRequest(arguments, config, Path(), Path(arguments.out or f"runs/{config.name}"), judges)
    in_memory = InMemoryItems(arguments.items)
    try:
        config = parse_config(inline_config(named), source="jurybox.run")
        directory = Path(arguments.out or f"runs/{config.name}-{_digest(config, judges, in_memory)}")
    except BaseException:
        in_memory.close()
        raise
    placed = config.items.model_copy(update={"path": str(directory / FILE)})
    return RunRequest(arguments, config.model_copy(update={"items": placed}), Path(), directory, judges, in_memory)


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
            loaded = load_judge(fspath(judge), Path())
            return loaded if kind is Judge else parse_judge(loaded.source, fspath(judge), kind)
    except JudgeError as error:
        raise ConfigError(error.message) from None
    raise InputError(f"judge: a name, a path, a mapping or a judge is wanted, not {type(judge).__name__}")


def _judges(judge: Any) -> tuple[list[dict[str, Any]], list[Judge]]:
    """The entries of a config for the judges, and the judges."""
    entries, judges = [], []
    for each in as_list(judge):
        entry = dict(each) if isinstance(each, Mapping) and "use" in each else {"use": each}
        loaded = load_any(entry["use"])
        path = fspath(entry["use"]) if isinstance(entry["use"], str | PathLike) else "\n"
        entries.append(entry | {"use": loaded.name if "\n" in path else path})
        judges.append(loaded)
    return entries, judges


def _digest(config: RunConfig, judges: list[Judge], items: InMemoryItems) -> str:
    """Tells apart runs whose meaning differs; what may change in a directory (limits, endpoint, labels) is left out."""
    meaning = meaning_of(config, judges, judge_models(config, judges))
    parts = [items.digest, [judge.fingerprint for judge in judges], meaning]
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=5).hexdigest()
