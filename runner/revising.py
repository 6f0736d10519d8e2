"""Makes the new revisions of a run directory's judgments and keeps what its manifest says of them.

Both ways go through here: reading the stored replies again, and letting what a retry has brought take effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from judges import PARSER_VERSION

from .changes import Changes, Place
from .ledger import Ledger
from .modes import Modes
from .plan import Pair
from .revisions import Revision
from .rundir import RunDirectory
from .staged import Staged


class Revising:
    """The revisions made of one run directory in this session."""

    def __init__(self, run: RunDirectory, pairs: Mapping[tuple[str, str], Pair]) -> None:
        self._run = run
        self._pairs = pairs
        self.made: list[Revision] = []
        """In order."""

    def rescore(self, ledger: Ledger, staged: Staged) -> Changes:
        """Read all replies again."""
        # Here, since it brings all that asks an endpoint: a second of start-up that other commands do not pay.
        from .rescoring import rescore

        modes = Modes(self._pairs, ledger.meta)
        pairs = {name: replace(pair, mode=modes.get(name, pair.mode)) for name, pair in self._pairs.items()}
        changes, revision = rescore(ledger, staged, pairs, _names(ledger, lambda: staged))
        self._add(revision, ledger)
        return changes

    def settle(self, ledger: Ledger, staged: Callable[[], Staged | None]) -> None:
        """Let the outcomes that a retry has brought so far replace the judgments. `staged`: to name the examples.

        The manifest tells of all revisions afterwards, also of one that a process made and died before it said so.
        """
        self._add(ledger.revisions.settle(_names(ledger, staged), PARSER_VERSION), ledger)
        manifest = self._run.manifest()
        if manifest is not None and manifest.get("revisions", []) != (told := listed(ledger)):
            self._run.write_manifest(manifest | {"revisions": told})

    def _add(self, revision: Revision | None, ledger: Ledger) -> None:
        if revision is not None:
            self.made.append(revision)
            self._run.write_manifest((self._run.manifest() or {}) | {"revisions": listed(ledger)})


def _names(ledger: Ledger, staged: Callable[[], Staged | None]) -> Callable[[Place], tuple[str, str] | None]:
    """What tells system and item id of the trial at a place; None where the items are gone."""
    first_rows = {row.shard.id: row.shard.first_row for row in ledger.shards()}

    def name(place: Place) -> tuple[str, str] | None:
        if (items := staged()) is None:
            return None
        shard, position = place
        ((system, item_id),) = items.frame(first_rows[shard] + position, 1, ["system", "id"]).rows()
        return system, item_id

    return name


def listed(ledger: Ledger) -> list[dict[str, Any]]:
    """The revisions as the manifest tells of them: the changes one by one stay in the ledger."""
    documents = [revision.document() for revision in ledger.revisions.listed()]
    return [{name: value for name, value in document.items() if name != "changes"} for document in documents]
