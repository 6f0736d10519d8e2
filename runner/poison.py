"""The record of a trial that kills its workers.

It is made by the driver, the one process that must not die of it: so none of the judge's code runs here, not even to
render the prompt that the trial's key goes by.
"""

from __future__ import annotations

import time

from judges import PARSER_VERSION

from .asking import stage_of
from .plan import Pair
from .protocol import Judgment, Task, Trial

RECORDER = "driver"


def poisoned(task: Task, trial: Trial, pair: Pair, key: bytes | None, by: str, why: str) -> Judgment:
    """The judgment on a trial that killed every worker it was alone with. `key`: as its worker told it before it died.

    `by`: crash or hang; `why`: what is known of the last death.
    """
    if key is None:
        # It dies when it is rendered: its key holds no prompt, and a later change of the plan has it judged afresh.
        key = pair.key(trial.system, trial.item_id, (), task.repeat)
    return Judgment(
        shard=trial.shard,
        position=trial.position,
        key=key,
        state="poisoned",
        reason=by,
        verdict=None,
        scores=None,
        template=trial.template,
        stage=stage_of(trial.history),
        notes=(f"died:{why}",),
        parser_version=PARSER_VERSION,
        structured=task.structured,
        batch_size=1,
        batch_position=1,
        bisect_depth=trial.history.depth,
        request_id=None,
        official=trial.history.official,
        attempts=trial.history.attempts,
        usage=trial.history.usage,
        latency_s=None,
        judged_at=time.time(),
        worker=RECORDER,
    )
