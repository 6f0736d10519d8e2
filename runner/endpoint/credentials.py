"""The secrets that a model's requests carry: its key, and what its `extra` takes from variables.

Read in the process that sends them, and handed to the client alone.
"""

import os
import re
from pathlib import Path

from runner.config import Extra, Model
from runner.env_secrets import expand_variables, read_variable, referenced_variables
from runner.errors import ConfigError

_SECRET = re.compile(r"(?i)key|token|secret|auth|password|cookie")


def check_key(model: Model) -> str | None:
    """What is wrong with the model's key on this machine; None if nothing is."""
    try:
        read_key(model)
        read_extra(model)
    except ConfigError as error:
        return error.message
    return None


def read_key(model: Model) -> str | None:
    """The model's key from its variable or file; None where the config names neither."""
    if model.api_key_env:
        source, lacks = f"the environment variable {model.api_key_env}", "not set"
        key = os.environ.get(model.api_key_env, "").strip()
    elif model.api_key_file:
        source, lacks = f"the file {model.api_key_file}", "empty"
        try:
            key = Path(model.api_key_file).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            words = getattr(error, "strerror", None) or "not UTF-8"
            raise ConfigError(f"model {model.name!r}: {source} with the API key cannot be read: {words}") from None
    else:
        return None
    if not key:
        raise ConfigError(f"model {model.name!r}: {source} is {lacks}; it must hold the API key")
    if not all("!" <= char <= "~" for char in key):
        raise ConfigError(f"model {model.name!r}: {source} holds no API key: it has blanks or odd characters in it")
    return key


def read_extra(model: Model) -> Extra:
    """The model's extras with the variables that they name filled in."""
    try:
        # Not validated anew: what stands there now are secrets.
        return Extra.model_construct(**expand_variables(model.extra.model_dump()))
    except ConfigError as error:
        raise ConfigError(f"model {model.name!r}: {error.message}") from None


def secrets_of(model: Model, key: str | None, extra: Extra) -> tuple[str, ...]:
    """What must stand in no message, the longest first: what comes from variables, and what is named like a secret."""
    variables = [read_variable(name) for name in referenced_variables(model.extra.model_dump())]
    named = [value for name, value in (*extra.headers.items(), *extra.query.items()) if _SECRET.search(name)]
    return tuple(sorted(filter(None, {key, *variables, *named}), key=len, reverse=True))
