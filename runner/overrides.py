"""`--set a.b=value`: one key of a config's plain data set on the command line, before the data is checked."""

from __future__ import annotations

from typing import Any

from judges import JudgeError
from judges.strict_yaml import parse_value

from .errors import ConfigError


def apply_override(data: dict[str, Any], override: str) -> None:
    """Set one key of a config's data, as `--set a.b=value` says it."""
    path, equals, raw = override.partition("=")
    if not equals or not path:
        raise ConfigError(f"--set {override}: must look like a.b=value")
    try:
        value = parse_value(raw, f"--set {path}")
    except JudgeError as error:
        raise ConfigError(error.message) from None
    target: Any = data
    parts = path.split(".")
    for depth, part in enumerate(parts):
        if not isinstance(target, list | dict):
            raise ConfigError(f"--set {override}: {'.'.join(parts[:depth])} is not a mapping")
        if isinstance(target, list) and (not part.isdigit() or int(part) >= len(target)):
            raise ConfigError(f"--set {override}: {'.'.join(parts[:depth])} has no entry {part!r}")
        key: Any = int(part) if isinstance(target, list) else part
        if depth == len(parts) - 1:
            target[key] = value
        else:
            target = target[key] if isinstance(target, list) else target.setdefault(key, {})
