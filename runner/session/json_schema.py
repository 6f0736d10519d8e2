"""The JSON Schema of a config and of a judge's file, by which editors complete and check what people write.

Hides how pydantic's schema is brought to that: the docstrings under the keys become descriptions, and titles that only
repeat a key's name are left out. pydantic's own `use_attribute_docstrings` does the first at every import of the
models, which costs each command and each worker 0.2 s of CPU; here only who asks for a schema pays.
"""

import ast
import inspect
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from judges.spec import JudgeSpec
from runner.config import RunConfig

MODELS: dict[str, type[BaseModel]] = {"config": RunConfig, "judge": JudgeSpec}
FILE_NAME = "jurybox-{}.schema.json"
"""What a schema's file is called beside the files that name it."""


def json_schema(kind: Literal["config", "judge"]) -> dict[str, Any]:
    schema = MODELS[kind].model_json_schema(schema_generator=_Generator)
    return {"$schema": _Generator.schema_dialect, "title": f"jurybox {kind}", **schema}


def schema_text(kind: Literal["config", "judge"]) -> str:
    return json.dumps(json_schema(kind), indent=2, ensure_ascii=False) + "\n"


def write_beside(config: Path) -> Path | None:
    """Write the schema of configs into the config's folder, where none is yet; None where it holds another one."""
    path = config.parent / FILE_NAME.format("config")
    text = schema_text("config")
    try:
        with path.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        return path if path.read_text(encoding="utf-8", errors="replace") == text else None
    return path


class _Generator(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        document = super().model_schema(schema)
        described = _attribute_docstrings(schema["cls"])
        for key, value in document.get("properties", {}).items():
            if key in described:
                value.setdefault("description", described[key])
        document["description"] = " ".join((inspect.getdoc(schema["cls"]) or "").split())
        document.pop("title", None)
        return document


def _attribute_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Key as it is written in the file → the text that stands under it in the source, on one line."""
    fields = model.model_fields
    bases = [base for base in reversed(model.__mro__) if issubclass(base, BaseModel) and base is not BaseModel]
    texts = (entry for base in bases for entry in _docstrings(base))
    return {fields[name].alias or name: text for name, text in texts if name in fields}


def _docstrings(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    [source] = ast.parse(inspect.getsource(model)).body
    assert isinstance(source, ast.ClassDef)
    for above, below in pairwise(source.body):
        match above, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, " ".join(text.split())
