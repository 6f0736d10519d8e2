"""A judge: prompt templates, which item gets which, how the reply is read, and what a verdict scores.

Judges are data: a YAML file, shipped in `library/` or the user's own. This module hides its layout; everything else
asks a `Judge`. Nothing here does I/O but `load_judge`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from .condition import Condition
from .document import JudgeError, explain, parse_yaml
from .item import Item, text_of
from .outcome import Reading, Reply
from .reading import read
from .sampling import Sampling
from .scoring import scores_of
from .spec import JudgeSpec, Slices
from .template import Template, parse_template


class Judge:
    """A loaded judge. Pickles, and is never changed."""

    def __init__(self, spec: JudgeSpec, source: str) -> None:
        self._spec = spec
        self.source = source
        """The text of the YAML file."""
        self._parsed: dict[str, dict[str, Template]] = {
            name: {role: parse_template(text) for role, text in roles.items()}
            for name, roles in spec.messages().items()
        }

    @property
    def name(self) -> str:
        """What reports and keys call the judge."""
        return self._spec.name

    @property
    def description(self) -> str:
        """One paragraph for people."""
        return self._spec.description

    @property
    def protocol_notes(self) -> list[str]:
        """Where the prompts come from, and every deviation from their source."""
        return self._spec.protocol_notes

    @property
    def sampling(self) -> Sampling:
        """The judge's own sampling; the model's and the config's are laid over it."""
        return self._spec.sampling

    @property
    def structured(self) -> str:
        """Whether structured output is wanted: off, auto or require."""
        return self._spec.structured

    @property
    def on_unrouted(self) -> str:
        """What an item that no route matches means: error or skip."""
        return self._spec.on_unrouted

    @property
    def templates(self) -> dict[str, dict[str, str]]:
        """Template name → role → text, as written."""
        return self._spec.messages()

    @property
    def slices(self) -> Slices:
        """How results are split."""
        return self._spec.slices

    @property
    def cautions(self) -> list[tuple[Condition, str]]:
        """What a report must say, and of which items."""
        return [(caution.when, caution.say) for caution in self._spec.cautions]

    @property
    def json_hint(self) -> str | None:
        """What is appended to the prompt where an endpoint cannot enforce the response schema."""
        return self._spec.json_hint

    @property
    def verdict_fields(self) -> list[str]:
        """The names of the verdict's fields."""
        return list(self._spec.reads.verdict_types)

    @property
    def binary(self) -> bool:
        """Whether every field of the verdict is true or false."""
        return set(self._spec.reads.verdict_types.values()) == {"boolean"}

    def wrong(self) -> dict[str, Any]:
        """The verdict on an answer that is empty: every field false. ValueError where the judge is not binary."""
        if not self.binary:
            raise ValueError(f"the judge {self.name} is not binary: it has no verdict that means wrong")
        return dict.fromkeys(self.verdict_fields, False)

    def route(self, item: Item) -> str | None:
        """The name of the item's template; None where no route matches."""
        for route in self._spec.route:
            if route.when is None or route.when.matches(item):
                return route.template
        return None

    def missing(self, item: Item, template: str) -> list[str]:
        """The item's fields that the template needs and that are absent or null. An empty response is not missing."""
        needed = (self._field(name) for part in self._parsed[template].values() for name in part.names)
        return [field for field in dict.fromkeys(needed) if field != "response" and item.fields.get(field) is None]

    def render(self, item: Item, template: str, json_hint: bool = False) -> list[dict[str, str]]:
        """The messages to send."""
        parts = self._parsed[template]
        names = {name for part in parts.values() for name in part.names}
        values = {name: text_of(item.fields.get(self._field(name))) for name in names}
        messages = [{"role": role, "content": part.fill(values)} for role, part in parts.items()]
        if json_hint and self.json_hint:
            messages[-1]["content"] += "\n\n" + self.json_hint
        return messages

    def response_schema(self) -> dict[str, Any] | None:
        """The JSON Schema to have enforced; None where the reply is no object."""
        return self._spec.reads.response_schema()

    def read(self, reply: Reply) -> Reading:
        """What the reply says, or why it says nothing."""
        return read(self._spec.reads, reply)

    def scores(self, verdict: Mapping[str, Any]) -> dict[str, float]:
        """What a verdict is worth, by name."""
        return scores_of(verdict)

    def official(self, text: str | None) -> bool | None:
        """How the published protocol reads the reply; None where the judge declares no such reading."""
        if self._spec.official is None:
            return None
        return self._spec.official.contains in (text or "").strip().lower()

    @cached_property
    def meaning(self) -> dict[str, Any]:
        """Everything that changes a prompt, its routing, how replies are read or what they score, as plain data."""
        spec = self._spec
        return {
            "bind": spec.bind,
            "json_hint": spec.json_hint,
            "official": spec.official.model_dump() if spec.official else None,
            "on_unrouted": spec.on_unrouted,
            "reads": spec.reads.model_dump(),
            "route": [
                {"when": route.when.source if route.when else None, "template": route.template} for route in spec.route
            ],
            "structured": spec.structured,
            "templates": spec.messages(),
        }

    @cached_property
    def fingerprint(self) -> str:
        """Names the judge's meaning: 32 hex digits."""
        return hashlib.blake2b(_canonical(self.meaning).encode(), digest_size=16).hexdigest()

    @cached_property
    def reading_spec(self) -> str:
        """How replies are read, as canonical JSON: part of a trial's key."""
        return _canonical(self.meaning["reads"])

    def _field(self, name: str) -> str:
        return self._spec.bind.get(name, name)

    def __repr__(self) -> str:
        return f"Judge({self.name!r}, {self.fingerprint})"


def library_names() -> list[str]:
    """The names of the judges that are shipped."""
    library = resources.files(__package__) / "library"
    return sorted(entry.name.removesuffix(".yaml") for entry in library.iterdir() if entry.name.endswith(".yaml"))


def load_judge(ref: str, base: Path) -> Judge:
    """The judge of the library with that name, or the one in the YAML file of that path (relative to `base`)."""
    if ref.endswith((".yaml", ".yml")):
        path = base / ref
        try:
            return parse_judge(path.read_text(encoding="utf-8"), str(path))
        except OSError as error:
            raise JudgeError(f"{path}: cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise JudgeError(f"{path}: not UTF-8 at byte {error.start}") from None
    names = library_names()
    if ref in names:
        text = (resources.files(__package__) / "library" / f"{ref}.yaml").read_text(encoding="utf-8")
        return parse_judge(text, f"library/{ref}.yaml")
    near = difflib.get_close_matches(ref, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the library has {', '.join(names)}"
    raise JudgeError(f"unknown judge {ref!r}; {hint} (a judge of your own is named by its path, ending in .yaml)")


def parse_judge(text: str, where: str) -> Judge:
    """The judge that a YAML text describes; `where` names the text in errors."""
    data = parse_yaml(text, where, "name, reads, templates, route")
    try:
        spec = JudgeSpec.model_validate(data)
    except ValidationError as error:
        raise explain(error, JudgeSpec, where) from None
    return Judge(spec, text)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
