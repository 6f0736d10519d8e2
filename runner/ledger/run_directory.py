"""A run's directory: where its files are, which process works in it, and what the run in it means.

Hides the lock, the manifest, the rule by which a changed config may continue a run or would silently mix two meanings,
and how a difference of two long values is cut to the part that matters.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from judges import Judge, parse_judge
from runner.config import RunConfig, parse_config
from runner.endpoint.judge_model import JudgeModel
from runner.env_secrets import LEFT_OUT, referenced_variables
from runner.errors import InputError, MeaningChanged, RunLocked
from runner.filesystem import is_full, replace_file, translate_full_disk
from runner.object_storage import publish_url

from .database import wal_path

_SHORT = 120
_CONTEXT = 40
_WORD = 20
_NOTHING = object()


def describe_differences(path: str, before: Any, now: Any) -> Iterator[str]:
    """A line for each value that differs, with its path; mappings are looked into."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*before, *now]):
            if before.get(key, _NOTHING) != now.get(key, _NOTHING):
                yield from describe_differences(f"{path}.{key}", before.get(key, _NOTHING), now.get(key, _NOTHING))
        return
    was, is_ = _text(before), _text(now)
    if len(was) <= _SHORT and len(is_) <= _SHORT:
        yield f"{path}: was {was}, is {is_}"
    else:
        yield f"{path}: {excerpt(was, is_)}"


def excerpt(before: str, now: str) -> str:
    """`…text [was] → [is] text…`, from the first word that differs, with a little of what stands around it."""
    start = _word_start(before, _common(before, now))
    end = _word_start(before[::-1], _common(before[start:][::-1], now[start:][::-1]))
    was, is_ = before[start : len(before) - end], now[start : len(now) - end]
    opening = ("…" if start > _CONTEXT else "") + _flat(before[_word_start(before, max(0, start - _CONTEXT)) : start])
    closing = _flat(before[start + len(was) :][:_CONTEXT]) + ("…" if end > _CONTEXT else "")
    return f"{opening}[{_cut(was)}] → [{_cut(is_)}]{closing}"


def _word_start(text: str, place: int) -> int:
    """Where the word at a place starts; the place itself where no blank is near, as in a language without blanks."""
    near = (start for start in range(place, max(-1, place - _WORD), -1) if start == 0 or text[start - 1].isspace())
    return next(near, place)


def _common(one: str, other: str) -> int:
    """How many characters both start with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))


def _text(value: Any) -> str:
    if value is _NOTHING:
        return "not set"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    flat = _flat(text)
    return flat if len(flat) <= _SHORT else flat[: _SHORT - 1] + "…"


def _flat(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", lambda character: json.dumps(character[0])[1:-1], text)


FORMAT = 1
REBUILT = "run.db.rebuilt"
_FIRST_FILES = {"lock", ".writable", "given.jsonl", "given.new", ".items.new", ".manifest.json.new"}
_FIRST_FILES |= {REBUILT, f"{REBUILT}-wal", f"{REBUILT}-shm"}
"""What a first session that was killed may leave before there is a ledger."""
_OF_THE_DISK = {"lost+found"}


def jurybox_version() -> str:
    """The installed version; `unknown` where the source is run without an installation."""
    try:
        return version("jurybox")
    except PackageNotFoundError:
        return "unknown"


class RunDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest_file = path / "manifest.json"
        self.items = path / "items"
        self.ledger = path / "run.db"
        self.left_abruptly = False
        """Whether who held the directory last was killed, or left at once. Known while it is held."""

    def create(self) -> None:
        """Make the directory (mode 0700), or take an empty one; RunLocked where it is none of ours or not writable."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            begun = self.manifest_file.exists() or self.ledger.exists()
            self._check_links()
            if not begun:
                self._check_only_run_files()
            effective = os.access in os.supports_effective_ids
            for file in (self.path / "lock", self.ledger, self.manifest_file):
                if file.exists() and not os.access(file, os.R_OK | os.W_OK, effective_ids=effective):
                    raise RunLocked(f"{file}: cannot be read and written by this user; was the run another user's?")
            probe = self.path / ".writable"
            probe.touch(mode=0o600)
            probe.unlink()
        except FileExistsError:
            raise RunLocked(f"{self.path}: is no directory") from None
        except OSError as error:
            if is_full(error):
                raise
            raise RunLocked(f"{self.path}: cannot be written: {error.strerror}") from None
        try:
            if not begun and self.path.stat().st_mode & 0o777 != 0o700:
                self.path.chmod(0o700)
        except OSError as error:
            problem = f"belongs to another user, so that nobody else can be kept out of it ({error.strerror})"
            raise RunLocked(f"{self.path}: {problem}; use --out for a directory of your own") from None

    def _check_links(self) -> None:
        """What is written under a link lands where nobody said that it should."""
        if links := sorted(entry.name for entry in self.path.iterdir() if entry.is_symlink()):
            way = "put the file itself there, or use --out for another directory"
            raise RunLocked(f"{self.path / links[0]}: is a symbolic link, and a run directory holds none: {way}")

    def _check_only_run_files(self) -> None:
        others = sorted(entry.name for entry in self.path.iterdir() if entry.name not in _FIRST_FILES | _OF_THE_DISK)
        if others:
            names = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
            way = "use --out for a new or empty directory, where a run can keep to itself"
            raise RunLocked(f"{self.path}: holds other files ({names}) and no run; {way}")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the directory for this process. The lock ends with the process, however that ends."""
        file = self.path / "lock"
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise RunLocked(f"{file}: cannot be opened: {error.strerror}") from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
                way = "wait for it, or use --out for another directory"
                raise RunLocked(f"{self.path}: another jurybox works here (process {holder}); {way}") from None
            before = os.read(descriptor, 1)
            # Two signs, since each alone is also left by some ends that were in order.
            self.left_abruptly = bool(before) and wal_path(self.ledger).exists()
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            try:
                yield
            finally:
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def worker_pid(self) -> int | None:
        """The process of this machine that works here; None: there is none."""
        try:
            with (self.path / "lock").open("rb") as file:
                pid = int(file.read(32))
                os.kill(pid, 0)
                # Only now, since a lock that is free would be ours for a moment.
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return pid
        except (OSError, ValueError):
            return None
        return None

    def manifest(self) -> dict[str, Any] | None:
        try:
            text = self.manifest_file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"{self.manifest_file}: cannot be read: {error.strerror}") from None
        try:
            manifest: dict[str, Any] = json.loads(text)
        except ValueError:
            raise InputError(f"{self.manifest_file}: is not valid JSON; restore it or start anew with --out") from None
        if manifest.get("format") != FORMAT:
            raise InputError(
                f"{self.manifest_file}: is of format {manifest.get('format')} (jurybox {manifest.get('jurybox')}), and"
                f" this jurybox reads format {FORMAT} only; use the jurybox that wrote it, or start anew with --out"
            )
        return manifest

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        with translate_full_disk(self.path), replace_file(self.manifest_file) as file:
            file.write(json.dumps(manifest, indent=2, ensure_ascii=False).encode())

    def require_ledger(self, manifest: Mapping[str, Any]) -> None:
        """InputError, with the way out, where a run was here and its ledger is lost."""
        if self.ledger.exists():
            return
        way = "put back a copy of it, or begin anew with the run's own command"
        if (written := manifest["config"].get("publish")) is not None:
            place = publish_url(written, Path(manifest.get("base", ".")), manifest["name"])
            way = f"the run's own command makes it anew from {place}, and judges only what was not published there"
        raise InputError(f"{self.path}: run.db is lost; {way}")

    def open(self) -> tuple[RunConfig, list[Judge]]:
        """Config and judges of the run that is here, as of its last session; InputError where there is none."""
        manifest = self.manifest()
        if manifest is None:
            raise InputError(f"{self.path}: holds no run (no manifest.json)")
        self.require_ledger(manifest)
        where = str(self.manifest_file)
        config = parse_config(manifest["config"], source=where)
        # Code is never carried out from here: to look at a run is not to trust it.
        judges = manifest["judges"].values()
        return config, [parse_judge(entry["source"], where, code=entry.get("code", "")) for entry in judges]


def manifest_of(
    config: RunConfig, judges: Sequence[Judge], judge_models: Mapping[tuple[str, str], JudgeModel]
) -> dict[str, Any]:
    """What the manifest says of a run: config without secrets, judges with their source, and the meaning."""
    return {
        "format": FORMAT,
        "jurybox": jurybox_version(),
        "name": config.name,
        "config": _without_secrets(config),
        "judges": {
            judge.name: {"fingerprint": judge.fingerprint, "source": judge.source}
            | ({"code": judge.code} if judge.code else {})
            for judge in judges
        },
        "meaning": meaning_of(config, judges, judge_models),
    }


def _without_secrets(config: RunConfig) -> dict[str, Any]:
    """Secrets stand in no config, but headers and queries can hold anything: all but a `${NAME}` stays out."""
    data = config.model_dump(mode="json", exclude_defaults=True)
    reformat = data.get("retry", {}).get("reformat")
    for model in [*data["models"], *([reformat] if isinstance(reformat, dict) else [])]:
        for part in ("headers", "query"):
            for name, value in model.get("extra", {}).get(part, {}).items():
                if not any(referenced_variables(value)):
                    model["extra"][part][name] = LEFT_OUT
    return data


def meaning_of(
    config: RunConfig, judges: Sequence[Judge], judge_models: Mapping[tuple[str, str], JudgeModel]
) -> dict[str, Any]:
    """What may not change under an old name, flat: path → value."""
    items = config.items
    meaning: dict[str, Any] = {"items.fields": items.fields, "items.empty_response": items.empty_response or "judge"}
    meaning["items.join.on"] = items.join.on if items.join else None
    for judge in judges:
        for part, value in judge.meaning.items():
            if part == "templates":
                meaning |= {f"judges.{judge.name}.templates.{name}": text for name, text in value.items()}
            elif part not in ("route", "on_unrouted"):
                # A route that sends an item to another template makes another trial of it, by its key: an addition.
                meaning[f"judges.{judge.name}.{part}"] = value
    for model in config.models:
        meaning[f"models.{model.name}.model"] = model.model
        meaning[f"models.{model.name}.revision"] = model.revision
    for (judge_name, model_name), judge_model in judge_models.items():
        meaning[f"sampling of {judge_name} × {model_name}"] = judge_model.settings
        if judge_model.batch is not None:
            meaning[f"batch of {judge_name} × {model_name}"] = judge_model.batch
    return meaning


def changed_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What a config says otherwise than the one before, both as the manifest has them: a line each."""
    by_name = ({**config, "models": {model["name"]: model for model in config["models"]}} for config in (before, now))
    return list(describe_differences("config", *by_name))


def check_same_meaning(directory: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """MeaningChanged, with a diff, where a name that both know means something else now."""
    changed = [key for key in before if key in now and before[key] != now[key]]
    if changed:
        differences = [line for key in changed for line in describe_differences(key, before[key], now[key])]
        lines = "".join(f"\n  {line}" for line in differences)
        way = "Give what changed a new name, or use --out for another directory."
        raise MeaningChanged(f"{directory}: holds a run that means something else:{lines}\n{way}")
