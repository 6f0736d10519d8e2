"""What `jurybox judges` prints: a list of the judges, or one of them whole."""

from __future__ import annotations

import json
from collections.abc import Sequence

from judges import Judge


def listing(judges: Sequence[Judge]) -> str:
    """A line per judge: name, how its reply is read, what it is for."""
    width = max((len(judge.name) for judge in judges), default=0)
    return "\n".join(
        f"{judge.name:<{width}}  {json.loads(judge.reading_spec)['kind']:<6}  {judge.description}" for judge in judges
    )


def describe(judge: Judge) -> str:
    """A judge's prompts, reading, sampling, schema, notes and fingerprint."""
    lines = [
        f"name         {judge.name}",
        f"fingerprint  {judge.fingerprint}",
        f"about        {judge.description}",
        f"reads        {judge.reading_spec}",
        f"sampling     {json.dumps(judge.sampling.body())}",
        f"structured   {judge.structured}",
        f"unrouted     {judge.on_unrouted}",
    ]
    if (schema := judge.response_schema()) is not None:
        lines.append(f"schema       {json.dumps(schema, ensure_ascii=False)}")
    if judge.json_hint is not None:
        lines.append(f"json hint    {judge.json_hint}")
    lines += [f"note         {note}" for note in judge.protocol_notes]
    for name, template in judge.templates.items():
        lines.append(f"\n--- template {name}")
        parts = {"user": template} if isinstance(template, str) else dict(template)
        lines += [f"[{role}]\n{text}" for role, text in parts.items()]
    return "\n".join(lines)
