"""A workspace whose judge kills the worker that judges certain items."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mortal_pool import MortalPool
from runs import Workspace

from runner.config import load_config
from runner.session.judging import judge_plan
from runner.session.planning import plan_retry, plan_run
from runner.session.session import Session

JUDGE = """
from pathlib import Path

from judges import Judge, Malformed, Reason, load_judge, parse_judge
from mortal_pool import Death

DEADLY = Path("DEADLY_FILE")


class Deadly(Judge):
    answered = set()

    def outcomes(self, reading, items):
        deadly = DEADLY.read_text().split()
        for item in items:
            if "again:" + item.id in deadly:
                if item.id in self.answered:
                    raise Death
                self.answered.add(item.id)
                return [Malformed(Reason.NO_VERDICT)]
            if item.id in deadly or "all" in deadly:
                raise Death
        return super().outcomes(reading, items)

    def render(self, item, template, **options):
        if "render:" + item.id in DEADLY.read_text().split():
            raise Death
        return super().render(item, template, **options)


judge = parse_judge(load_judge("BASE", Path()).source.replace("name: BASE", "name: deadly"), "deadly", Deadly)
"""


class Deadly(Workspace):
    """A workspace whose judge kills the worker that judges certain items."""

    def __init__(self, folder: Path, *deadly: str, base: str = "yes-no") -> None:
        super().__init__(folder)
        self.deadly = folder / "deadly"
        self.deadly.write_text(" ".join(deadly))
        (folder / "mine.py").write_text(JUDGE.replace("DEADLY_FILE", str(self.deadly)).replace("BASE", base))

    def judge(
        self,
        workers: int,
        retry: str | None = None,
        planned: Callable[[], object] = lambda: None,
        kind: type[MortalPool] = MortalPool,
    ) -> int:
        """Carry out the run here; how many workers that took. `planned` is called before the first of them starts."""
        self.suspected: list[Mapping[tuple[str, str], int]] = []
        config = load_config(self.config)
        with Session(config, self.folder, self.out) as session:
            plan = plan_run(session)
            if retry:
                plan = plan_retry(session, [retry], begin=True)
            planned()
            pool: list[MortalPool] = []

            def made() -> MortalPool:
                pool.append(kind(session, workers))
                return pool[0]

            try:
                judge_plan(session, plan, make_pool=made, watch=lambda *seen: self.suspected.append(seen[3]))
            finally:
                session.finish()
        return pool[0].started

    def poisoned(self) -> dict[str, Mapping[str, Any]]:
        frame = self.results()
        return {row["item_id"]: row for row in frame.filter(frame["state"] == "poisoned").iter_rows(named=True)}
