"""The jobs' items, the replies that the endpoint gives to them, and the config: the same for every seed.

What the endpoint says of an item is recorded, so that each trial's end depends on its item alone: scored, unreadable,
declined or impossible, whatever faults come in between and however often it is asked.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import yaml
from runs import items, model

from .plan import BATCHED, SINGLE

CANARY = "sk-canary-7tGq2ZsW9xKcVb"
KEY_VARIABLE = "JURYBOX_CHAOS_KEY"
DECLINED = "I'm sorry, but I can't help with that."
IN_FLIGHT = 48
PRICE = {"input": 1.0, "output": 4.0}
REPLAY = "replies.jsonl"
MODELS = {SINGLE: ("judge", "other"), BATCHED: ("judge",)}
"""Each is an account of its own."""


def write_inputs(folder: Path, job: str, trials: int) -> None:
    """Items of a job and the recorded replies to them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = items(range(trials // 4))
    chance = random.Random(job)
    with (folder / "items.jsonl").open("w") as file, (folder / REPLAY).open("w") as replies:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            reply = _reply(job, chance.random())
            if reply is not None:
                replies.write(json.dumps({"question": row["question"], "response": row["response"], "reply": reply}))
                replies.write("\n")


def _reply(job: str, drawn: float) -> str | bool | int | None:
    """What is said of an item. None: the endpoint rejects the request."""
    if drawn < 0.005:
        # A score is no answer to yes or no: malformed for one judge, a score for the other.
        return 3
    if job == SINGLE and drawn < 0.015:
        return DECLINED if drawn < 0.01 else None
    return drawn < 0.6


def write_config(path: Path, folder: Path, job: str, url: str, out: Path, **keys: Any) -> None:
    """The config of a job: one judge and two models, or one model and two judges, one of which takes ten at once."""
    limits = {"in_flight": IN_FLIGHT}
    common = {"limits": limits, "price": PRICE, "api_key_env": KEY_VARIABLE}
    models = [model(url, name, **common) for name in MODELS[job]]
    config = {
        "name": "disturbed",
        "items": {"path": str(folder / "items.jsonl")},
        "judges": ["yes-no", "answer-correctness"] if job == BATCHED else ["yes-no"],
        "models": models,
        # More than the faults in a row that any prompt meets, also where a death hides some of them.
        "retry": {"rejudge": 5},
        "max_unscored": 1.0,
        "workers": 2,
        "out": str(out),
    }
    path.write_text(yaml.safe_dump(config | keys, sort_keys=False), encoding="utf-8")
