"""What a session has to do: the directory checked against the config, the items staged, all trials and what is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from judges import PARSER_VERSION
from runner.dataset import Staged, load_staged, stage
from runner.endpoint.judge_model import StructuredModes
from runner.filesystem import check_free_space
from runner.ledger.ledger import Ledger
from runner.ledger.run_directory import changed_settings, check_same_meaning, manifest_of
from runner.messages import Shard
from runner.scheduling.plan import Estimate, estimates, plan_signature, planned_shards, trial_keys

from .rescore import list_changes

if TYPE_CHECKING:
    from .session import Session

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be judged and what of it is done, before anything is paid."""

    staged: Staged
    shards: dict[int, Shard]
    done: dict[int, int]
    """Judged trials by shard id."""
    estimates: list[Estimate]
    carried: int | None
    """Judgments carried over from an earlier plan of this directory; None: the plan is the old one, or the first."""
    again: int = 0
    """Judged trials that wait to be judged again; their judgments stand until then."""

    @property
    def trials(self) -> int:
        return sum(shard.trials for shard in self.shards.values())

    @property
    def judged(self) -> int:
        return sum(self.done.values())

    @property
    def complete(self) -> bool:
        return self.judged == self.trials and not self.again


def plan_run(session: Session) -> Plan:
    """Check that the directory may go on with this config; stage and plan what has changed."""
    run, publisher = session.run, session.publisher
    manifest = manifest_of(session.config, session.judges, session.judge_models)
    if (before := run.manifest()) is not None:
        check_same_meaning(run.path, before["meaning"], manifest["meaning"])
        for line in changed_settings(before["config"], manifest["config"]):
            log.info("config_changed", what=line)
    signature = plan_signature(session.config, session.judges, session.base, session.limit, session.sample)
    manifest["base"] = str(session.base.resolve())
    publisher.restore(manifest["meaning"])
    with Ledger(run.ledger) as ledger:
        # Before places change: what an earlier retry has brought belongs where its trials stand now.
        session.revisions.settle(ledger, session.load_items)
        carried = None
        is_new = ledger.meta("plan") != signature or not run.items.is_dir()
        if is_new:
            # An empty mark says "half made": whatever stops us now, the next session plans anew.
            check_free_space(run.path)
            ledger.set_meta("plan", "")
            staged = stage(session.config, session.judges, session.base, run.items, session.sample, session.limit)
            shards = planned_shards(session.config, session.judges, staged, session.limit)
            if ledger.shards() or next(ledger.judged_keys(), None) is not None:
                carried = ledger.replan(shards, trial_keys(staged, shards, session.judge_models))
            else:
                ledger.set_plan(shards)
        else:
            staged = load_staged(run.items)
        modes = StructuredModes(session.judge_models, ledger.meta).document()
        # The inputs: files with size and time or ETag, a dataset with its commit.
        inputs = staged.signature["files"]
        run.write_manifest(manifest | {"inputs": inputs, "revisions": list_changes(ledger), "structured": modes})
        if is_new:
            ledger.set_meta("plan", signature)
        plan = _plan_of(session, ledger, staged, carried)
        readers = set(ledger.revisions.parser_versions()) | (set() if plan.complete else {PARSER_VERSION})
        if len(readers) > 1:
            # No table may mix two: not with what comes now, nor with what an earlier plan had and this one takes back.
            session.revisions.rescore(ledger, staged)
            plan = _plan_of(session, ledger, staged, carried)
        publisher.begin(ledger, judging=not plan.complete)
        return plan


def plan_retry(
    session: Session, states: Sequence[str], judge: str | None = None, model: str | None = None, *, begin: bool
) -> Plan:
    """What is to do in a planned directory so that the trials which ended in one of these states are judged again.

    With `begin` they are as good as sent: from now on any session goes on with them.
    """
    with Ledger(session.run.ledger, checked=True) as ledger:
        retriable = {} if begin else ledger.revisions.retriable(states, judge, model)
        if begin:
            ledger.revisions.begin_retry(states, judge, model)
        return _plan_of(session, ledger, load_staged(session.run.items), None, retriable)


def _plan_of(
    session: Session, ledger: Ledger, staged: Staged, carried: int | None, retriable: Mapping[int, int] | None = None
) -> Plan:
    rows = ledger.shards()
    again = Counter(ledger.revisions.waiting_again()) + Counter(retriable or {})
    settled = {row.shard.id: row.done - again[row.shard.id] for row in rows}
    shards = {row.shard.id: row.shard for row in rows}
    left = estimates(list(shards.values()), settled, staged, session.judge_models)
    return Plan(staged, shards, {row.shard.id: row.done for row in rows}, left, carried, again.total())
