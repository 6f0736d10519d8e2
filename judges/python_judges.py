"""Judges whose reading or scoring is Python: what code one has, and how a judge of a file gets into another process.

The prompts, routes and scales of such a judge stay data, so a run can be reported on without its code; the code's text
is part of its meaning, so that a changed line is another judge. A judge of a file travels as that file's text.
"""

import hashlib
import inspect
import json
import math
import sys
import textwrap
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from .strict_yaml import JudgeError

OPEN = ("fault", "missing", "outcomes", "read", "render", "render_batch", "route", "scores")
"""What a subclass of Judge may do in its own way. All else is asked of a run's judges without their code."""

_TEXT = "__judge_text__"
_JSON: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}


def check_scores_method(scores: Callable[..., dict[str, float]]) -> Callable[..., dict[str, float]]:
    """The method `scores` of a judge, held to the judge's scales, since reports rely on them."""

    @wraps(scores)
    def within(self: Any, *arguments: Any, **named: Any) -> dict[str, float]:
        return _check_scores(self, scores(self, *arguments, **named))

    return within


def check_verdict(judge: Any, types: Mapping[str, str], verdict: Mapping[str, Any], item: Any) -> None:
    """Raises where a verdict that a judge's code made is none of this judge, or its scores are off their scales.

    `types` are the JSON types of the verdict's fields.
    """
    json.dumps(dict(verdict), allow_nan=False)
    if set(verdict) != set(types):
        raise JudgeError(f"judge {judge.name!r}: a verdict has the fields {list(types)}, not {list(verdict)}")
    for name, value in verdict.items():
        kinds = _JSON[types[name]]
        if not isinstance(value, kinds) or (isinstance(value, bool) and types[name] != "boolean"):
            raise JudgeError(f"judge {judge.name!r}: the verdict's {name} must be a JSON {types[name]}, not {value!r}")
    if judge.choices and (strangers := set(verdict.values()) - set(judge.choices)):
        raise JudgeError(f"judge {judge.name!r}: {strangers.pop()!r} is none of its labels")
    _check_scores(judge, judge.scores(verdict, item))


def code_of(kind: type, base: type) -> str:
    """The source of what `kind` changes of `base`; of a judge's file all of it. Empty for `base` itself."""
    return "\n".join(_source(each, base) for each in kind.__mro__ if each is not base and issubclass(each, base))


def load_object(text: str, where: str, name: str) -> Any:
    """What the name stands for in a Python file of that text. The same text is carried out once in a process."""
    digest = hashlib.blake2b(f"{where}\0{text}".encode(), digest_size=8).hexdigest()
    key = f"jurybox_judge_{digest}"
    module = sys.modules.get(key)
    if module is None:
        module = ModuleType(key)
        module.__file__ = where
        setattr(module, _TEXT, text)
        # Before its code runs: dataclasses and pickle look up the module of a class by its name.
        sys.modules[key] = module
        try:
            exec(compile(text, where, "exec"), module.__dict__)
        except Exception as error:
            del sys.modules[key]
            raise JudgeError(f"{where}: {_describe_error(error, where)}") from error
    try:
        return getattr(module, name)
    except AttributeError:
        raise JudgeError(f"{where}: has no {name!r}") from None


def text_of_file(path: Path) -> str:
    """The text of a judge's file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise JudgeError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise JudgeError(f"{path}: not UTF-8 at byte {error.start}") from None


def _check_scores(judge: Any, scores: Mapping[str, Any]) -> dict[str, float]:
    checked = {}
    for name, value in scores.items():
        scale = judge.scales().get(name)
        if scale is None:
            raise JudgeError(f"judge {judge.name!r}: there is no score {name!r}; its data names {list(judge.scales())}")
        checked[name] = float(value)
        low, high = (0.0, 1.0) if scale.binary else (scale.low, scale.high)
        inside = (low is None or checked[name] >= low) and (high is None or checked[name] <= high)
        if not (inside and math.isfinite(checked[name])) or (scale.binary and checked[name] not in (0.0, 1.0)):
            raise JudgeError(f"judge {judge.name!r}: the score {name!r} cannot be {value!r}; its data says {scale}")
    return checked


def _describe_error(error: Exception, where: str) -> str:
    """The error and the last line of the file that it came from."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == where:
            line = trace.tb_lineno
        trace = trace.tb_next
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{f'line {line}: ' if line else ''}{type(error).__name__}: {message}"


def _source(kind: type, base: type) -> str:
    own = vars(kind)
    closed = [name for name in own if name == "__init__" or (not name.startswith("__") and hasattr(base, name))]
    if closed := [name for name in closed if name not in OPEN]:
        raise JudgeError(
            f"the class {kind.__qualname__} defines {closed[0]!r}: a judge in Python may define {', '.join(OPEN)} and "
            "names of its own; all else stands in its data"
        )
    text = getattr(sys.modules.get(kind.__module__), _TEXT, None)
    if isinstance(text, str):
        return text
    try:
        try:
            return textwrap.dedent(inspect.getsource(kind))
        except (OSError, TypeError):
            # A class of a notebook: only its functions know the cell that they were written in.
            parts = [_function(value) or f"{name} = {value!r}" for name, value in own.items() if name[:2] != "__"]
            return "\n".join([f"class {kind.__qualname__}:", *parts])
    except (OSError, TypeError):
        raise JudgeError(
            f"the source of the class {kind.__qualname__} cannot be found: write it in a file or a notebook's cell, "
            "so that a changed line is seen as another judge"
        ) from None


def _function(value: Any) -> str | None:
    plain = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
    return inspect.getsource(plain) if inspect.isfunction(plain) else None
