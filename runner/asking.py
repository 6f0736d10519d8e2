"""Makes the requests that trials are asked in: rendered, sampled as their history wants it, with what it costs at most.

Hides how a fresh request differs from the first one: by its seed, by what a reply may take, by its name in the ladder.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from typing import Any

import orjson

from .asked import Asked, item_of
from .config import Model
from .ladder import resampled
from .plan import Messages, Pair, estimate_tokens, prompt_bytes
from .protocol import History, Task, Trial
from .usage import Bound

DEFAULT_REPLY_TOKENS = 512
"""What a reply is taken to need where the sampling sets no max_tokens."""
LONGEST_REPLY_TOKENS = 16_384
"""What a reply is taken to need at most where no max_tokens is sent."""
TEMPLATE_TOKENS = 256
"""What an endpoint may put around the messages: the chat template's own words."""
REPLY_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def ask(task: Task, trials: tuple[Trial, ...], pair: Pair, worker: str) -> Asked:
    """Render the request of some trials, each under the key that its own prompt gives it."""
    judge = pair.judge
    items = tuple(item_of(trial) for trial in trials)
    rendered = [judge.render(item, trial.template) for item, trial in zip(items, trials, strict=True)]
    keys = tuple(
        pair.key(trial.system, trial.item_id, messages, task.repeat)
        for trial, messages in zip(trials, rendered, strict=True)
    )
    template = trials[0].template
    if len(trials) > 1:
        messages = judge.render_batch(items, template)
    elif pair.json_hint:
        messages = judge.render(items[0], template, json_hint=True)
    else:
        messages = rendered[0]
    stage = stage_of(trials[0].history)
    sampling = resampled(pair.sampling, trials[0].history)
    body = pair.body(messages, len(trials), sampling)
    return Asked(
        task=task,
        trials=trials,
        histories=tuple(trial.history for trial in trials),
        items=items,
        keys=keys,
        pair=pair,
        body=body,
        tokens=tokens_at_most(messages, sampling.get("max_tokens", pair.sampling.max_tokens)),
        bound=bound_of(body, pair.model),
        # Not from the keys: whatever a trial has been through, and a crash that left no trace of its request, the next
        # request is another. Its records are sent again as they are.
        request_id=uuid.uuid4().hex,
        worker=worker,
        stage=stage,
        notes=tuple(f"{name}:{value}" for name, value in sampling.items()),
    )


def about_nothing(task: Task, pair: Pair, body: dict[str, Any], worker: str) -> Asked:
    """A request that no trial is in."""
    return Asked(
        task=task,
        trials=(),
        histories=(),
        items=(),
        keys=(),
        pair=pair,
        body=body,
        tokens=tokens_at_most(body["messages"], body.get("max_tokens")),
        bound=bound_of(body, pair.model),
        request_id="",
        worker=worker,
        stage="probe",
    )


def tokens_at_most(messages: Messages, max_tokens: int | None) -> int:
    """Tokens that a request may take at most, by estimate: what the limits of tokens are kept by."""
    return estimate_tokens(prompt_bytes(messages)) + (max_tokens or DEFAULT_REPLY_TOKENS)


def bound_of(body: Mapping[str, Any], model: Model) -> Bound:
    """What a request can come to: no tokenizer makes more tokens of a text than it has bytes.

    The body as it is sent stands for the messages: its other fields, of which an endpoint may count the demanded form
    too, and its syntax are on the safe side.
    """
    sent = {**body, **model.extra.body}
    try:
        given = len(orjson.dumps(sent)) + TEMPLATE_TOKENS
    except orjson.JSONEncodeError:
        # It will not be sent: the client finds the same.
        given = TEMPLATE_TOKENS
    limits = [limit for name in REPLY_LIMITS if isinstance(limit := sent.get(name), int)]
    taken = max(limits, default=LONGEST_REPLY_TOKENS)
    usd = 0.0
    if (price := model.price) is not None:
        usd = given * max(price.input, price.cached_input or 0.0) + taken * price.output
    # Prices are per million tokens.
    return Bound(1, given + taken, math.ceil(usd * 1e3))


def stage_of(history: History) -> str:
    """The ladder's name for a request about trials with this history."""
    if history.malformed:
        return f"rejudge:{history.malformed}"
    if history.refused:
        return f"refused:{history.refused}"
    if history.depth:
        return f"bisect:{history.depth}"
    if history.retry:
        # Also when put off: its trial had its first reply before.
        return f"retry:{history.retry}"
    return "last" if history.parked else "first"
