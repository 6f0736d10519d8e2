"""A share of the verdicts that were read tolerantly is checked: the same question, with a demand for the strict form.

Pure. Hides which trials are drawn, and how the question differs. What comes back is kept beside the judgment, which it
never changes.
"""

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from judges import Outcome, Scored, strict_form_request

from .request import JudgeRequest, cost_bound, estimate_request_tokens

REREAD = "reread"
"""The step, whose stages name the place that is checked: `reread:lead`."""

_WHOLE = frozenset({"whole", "object", "fence", "encoded"})
"""Stages of replies that are a verdict as a whole, in some wrapping."""


def build_reread(judged: JudgeRequest, outcome: Outcome, share: float, seed: int) -> JudgeRequest | None:
    """The request that checks what a request's reply was read as; None where that is not to be checked.

    Of a reply that is a verdict as a whole there is no place to check; and a judge's own code reads as it will.
    """
    own, place = judged.judge_model, _place(outcome)
    is_open = len(judged.trials) == 1 and not judged.trials[0].is_control and not own.judge.code
    if place is None or not is_open or not is_drawn(judged.keys[0], share, seed):
        return None
    *before, last = judged.body["messages"]
    demand = strict_form_request(own.judge.reads)
    body = judged.body | {"messages": [*before, last | {"content": f"{last['content']}\n\n{demand}"}]}
    return replace(
        judged, body=body, bound=cost_bound(body, own.model), request_id=uuid.uuid4().hex, stage=f"{REREAD}:{place}",
        tokens=estimate_request_tokens(body["messages"], body.get("max_tokens")),
    )  # fmt: skip


def is_drawn(key: bytes, share: float, seed: int) -> bool:
    """Whether the trial of a key is of the share: the same in every session, and those of a smaller share are."""
    digest = hashlib.blake2b(f"{seed} ".encode() + key, digest_size=8, person=REREAD.encode()).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def is_same_verdict(reread: Outcome, verdict: Mapping[str, Any] | None) -> bool | None:
    """Whether a check came to the verdict of a judgment; None where either is none."""
    return dict(reread.verdict) == verdict if isinstance(reread, Scored) and verdict is not None else None


def _place(outcome: Outcome) -> str | None:
    """Where in a longer reply the verdict stands."""
    how, _, place = outcome.provenance.stage.partition(":") if isinstance(outcome, Scored) else ("", "", "")
    return place if how == "tolerant" and place not in _WHOLE else None
