"""What is said of an endpoint's refusal that only the user can mend: where, in whose words, what to look at.

Pure. Holds no secret: a `base_url` has neither credentials nor a query, and the provider's words come without keys.
"""

from __future__ import annotations

from .completion import EndpointError
from .config import Model
from .policy import ErrorKind


def to_mend(model: Model, error: EndpointError, about: str = "") -> str:
    """One line: address, status, model, the provider's words, the setting. `about`: what is known besides."""
    status = "refuses" if error.status is None else f"answers HTTP {error.status}"
    what = f"{model.name}: {about}" if about else model.name
    return (
        f"{what}: {model.base_url} {status} for the model {model.model}: {error.message} "
        f"(look at {_setting(model, error.kind)})"
    )


def _setting(model: Model, kind: ErrorKind) -> str:
    match kind:
        case ErrorKind.AUTH:
            return _key(model)
        case ErrorKind.FORBIDDEN:
            return f"what the key may do, {_key(model)}"
        case ErrorKind.QUOTA:
            return f"the credit of the key's account, {_key(model)}"
        case ErrorKind.UNKNOWN_MODEL:
            return f"model: {model.model} and base_url"
    # Some say by a 400 that the key is not valid, or its credit used up.
    has_key = model.api_key_env or model.api_key_file
    return "sampling, structured and extra" + (f", or {_key(model)}" if has_key else "")


def _key(model: Model) -> str:
    if model.api_key_env:
        return f"api_key_env: {model.api_key_env}"
    if model.api_key_file:
        return f"api_key_file: {model.api_key_file}"
    if model.extra.headers or model.extra.query:
        return "extra, since api_key_env is not set"
    return "api_key_env, which is not set: no key is sent"
