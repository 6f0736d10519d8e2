"""Judges by name or path: those of the library, the user's own YAML and Python files. The only I/O of this package."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, overload

import yaml
from pydantic import ValidationError

from .judge import Judge
from .python_judges import load_object, text_of_file
from .spec import JudgeSpec
from .strict_yaml import JudgeError, did_you_mean, parse_value, parse_yaml
from .validation_errors import explain

Kind = TypeVar("Kind", bound=Judge)


def library_names() -> list[str]:
    """The names of the judges that are shipped."""
    library = resources.files(__package__) / "library"
    return sorted(entry.name.removesuffix(".yaml") for entry in library.iterdir() if entry.name.endswith(".yaml"))


def load_judge(ref: str, base: Path) -> Judge:
    """The judge of the library with that name, or the one in a YAML file, or named in a Python file (`file.py:name`).

    Paths are relative to `base`. A Python file is carried out.
    """
    if ref.endswith((".yaml", ".yml")):
        path = base / ref
        return parse_judge(text_of_file(path), str(path))
    file, colon, name = ref.rpartition(":")
    if file.endswith(".py") or ref.endswith(".py"):
        if not colon or not name.isidentifier():
            raise JudgeError(f"{ref}: name the judge in the file as well, as in {file or ref}:judge")
        return _python_judge(base / file, name)
    names = library_names()
    if ref in names:
        text = (resources.files(__package__) / "library" / f"{ref}.yaml").read_text(encoding="utf-8")
        return parse_judge(text, f"library/{ref}.yaml")
    hint = did_you_mean(ref, names) or f"; the library has {', '.join(names)}"
    raise JudgeError(f"unknown judge {ref!r}{hint} (a judge of your own is named by its path, ending in .yaml)")


@overload
def parse_judge(data: str | Mapping[str, Any], where: str, *, code: str = "") -> Judge: ...


@overload
def parse_judge(data: str | Mapping[str, Any], where: str, kind: type[Kind], code: str = "") -> Kind: ...


def parse_judge(data: str | Mapping[str, Any], where: str, kind: type[Judge] = Judge, code: str = "") -> Judge:
    """The judge that a YAML text, or a mapping with the same keys, describes; `where` names it in errors.

    `kind` is the class to make it of. `code` is what `Judge.code` said of a judge whose code is not at hand.
    """
    text = data if isinstance(data, str) else _to_yaml(data, where)
    try:
        spec = JudgeSpec.model_validate(parse_yaml(text, where, "name, reads, templates, route"))
    except ValidationError as error:
        raise explain(error, JudgeSpec, where) from None
    return kind(spec, text, code)


def _to_yaml(data: Mapping[str, Any], where: str) -> str:
    """The mapping as YAML that reads as the same mapping."""
    for as_it_is in (True, False):  # a few characters are read otherwise than written, unless escaped
        try:
            text = yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=as_it_is, width=120)
        except yaml.YAMLError as error:
            raise JudgeError(f"{where}: holds what no YAML file could: {' '.join(str(error).split())}") from None
        if parse_value(text, where) == data:
            return text
    raise JudgeError(f"{where}: holds what no YAML file could, such as a tuple")


def _python_judge(path: Path, name: str) -> Judge:
    text = text_of_file(path)
    value = load_object(text, str(path), name)
    if isinstance(value, Mapping | str):
        return parse_judge(value, f"{path}:{name}")
    if not isinstance(value, Judge):
        raise JudgeError(f"{path}: {name!r} must be a judge or a judge's data, not {type(value).__name__}")
    if value.code:
        value.origin = (text, str(path), name)
    return value
