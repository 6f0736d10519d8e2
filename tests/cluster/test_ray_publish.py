"""A run on Ray that is published: the aggregator dies at each of its steps, and the mirror is whole."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from runs import Workspace, items, model, stats

from runner.simulate import Simulation, running

STARTS = 3
"""Ray's own patience of half a minute can be too short for a busy machine."""
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.mark.long
def test_the_aggregator_dies_while_a_segment_is_published(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    work.publish_often()
    rows = items(range(150))
    work.write_items(rows)
    points = tmp_path / "points"
    points.mkdir()
    # Counted over its lives: the first segments hold nothing yet.
    (points / "after-mark").write_text("3")
    (points / "before-delete").write_text("5")
    sessions = Path(tempfile.mkdtemp(prefix="jb"))
    work.environment |= {"RAY_TMPDIR": str(sessions), "JURYBOX_FAILPOINTS": str(points)}
    try:
        with running(Simulation(latency_ms=100)) as url:
            work.write_config(model(url, limits={"in_flight": 8}), publish="mirror", workers=1)
            for _ in range(STARTS):
                done = work.command("run", str(work.config), "--yes", "--json", "--quiet", ray=True)
                if "timed out during startup" not in done.stderr:
                    break
            assert done.status == 0, done.stderr
            # Who asks did not die: what the aggregator had not acknowledged was sent to it again.
            assert stats(url)["requests"] == len(rows)
    finally:
        shutil.rmtree(sessions, ignore_errors=True)
    assert list(points.iterdir()) == [], "it died at each"
    work.assert_each_trial_judged_once(len(rows))
    work.assert_mirrored()
