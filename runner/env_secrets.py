"""`${NAME}` in what a model's `extra` sends: a variable of the environment, filled in by the process that sends it.

So a secret stands in no config, run directory, trial key or argument of Ray's. Hides how one that was written out all
the same is recognized.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from .errors import ConfigError

LEFT_OUT = "(left out)"
"""Stands in a manifest's config where a value may be a secret."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])")
_SECRETS = frozenset(
    ["key", "keys", "apikey", "accesskey", "secretkey", "token", "secret", "secrets", "password", "passwd", "pwd",
     "passphrase", "authorization", "bearer", "jwt", "credential", "credentials", "cookie", "connectionstring"]
)  # fmt: skip
# prompt_cache_key, eos_token: what a request says openly.
_OPEN = frozenset(["cache", "bos", "eos", "pad", "unk", "sep", "cls", "mask", "stop", "start", "end"])
_SECRET_VALUE = re.compile(
    r"(?i)^(?:bearer|basic) +\S{8,}$|\bsk-[\w-]{16,}|://[^/@\s]*:[^@\s]+@|;(?:password|pwd|(?:shared)?accesskey|accountkey)="
)

# Some of these could be the name of a variable, too, and any of them the name of a file.
_KEY = re.compile(r"(?=.*\d)(?:sk|gsk|hf|xai|nvapi)[-_][\w-]{16,}")

_Value = TypeVar("_Value")


def find_secret(value: object, name: str = "", place: str = "") -> str | None:
    """Where a value, by its name or its look, is a secret that is written out; None if nowhere."""
    if isinstance(value, Mapping):
        parts = [(str(key), entry, str(key)) for key, entry in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(name, entry, str(number)) for number, entry in enumerate(value)]
    elif isinstance(value, str) and value not in ("", LEFT_OUT) and not _VARIABLE.search(value):
        return place if _names_secret(name) or _SECRET_VALUE.search(value) else None
    else:
        return None
    places = (find_secret(entry, own, f"{place}.{part}" if place else part) for own, entry, part in parts)
    return next(filter(None, places), None)


def looks_like_key(value: str) -> bool:
    """Whether the value looks like a provider's API key."""
    return _KEY.fullmatch(value) is not None


def referenced_variables(value: object) -> list[str]:
    """The names of all variables that the value refers to."""
    names: list[str] = []

    def note(name: str) -> str:
        names.append(name)
        return ""

    expand_variables(value, note)
    return names


def read_variable(name: str) -> str:
    """A variable's value; ConfigError where it is not set, or cannot be sent."""
    value = os.environ.get(name, "").strip()
    if not value:
        raise ConfigError(f"the environment variable {name} is not set; extra refers to it as ${{{name}}}")
    if not all(" " <= char <= "~" for char in value):
        raise ConfigError(f"the environment variable {name} has odd characters in it")
    return value


def expand_variables(value: _Value, read: Callable[[str], str] = read_variable) -> _Value:
    """The value with every `${NAME}` in it replaced by what `read` says; ConfigError as of `read_variable`."""
    expanded: Any = value
    if isinstance(value, Mapping):
        expanded = {key: expand_variables(entry, read) for key, entry in value.items()}
    elif isinstance(value, list | tuple):
        expanded = [expand_variables(entry, read) for entry in value]
    elif isinstance(value, str):
        expanded = _VARIABLE.sub(lambda match: read(match[1]), value)
    return cast(_Value, expanded)


def _names_secret(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    is_secret = bool(words) and words[-1] in _SECRETS and _OPEN.isdisjoint(words[-2:-1])
    return is_secret or words[-2:] == ["connection", "string"]
