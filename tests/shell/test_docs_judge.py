"""The way to a judge of one's own in docs/, gone as it is written: every file, every reading, every command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from pages import ROOT, carry_out, steps

from judges import Judge, parse_judge

TEXT = (ROOT / "docs" / "how-to" / "own-judge.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("number", range(6))
def test_every_reading_makes_a_judge_of_the_first_file(number: int) -> None:
    """What a reader does: put another `reads` into the file, and what stands with it."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
    parts = [block for block in blocks if block.startswith("reads:")]
    assert len(parts) == 6
    first = yaml.safe_load(next(step[1] for step in steps(TEXT) if isinstance(step, tuple)))
    judge = parse_judge(yaml.safe_dump({**first, **yaml.safe_load(parts[number])}, sort_keys=False), "the page")
    assert isinstance(judge, Judge)
    assert judge.scales() or judge.choices


@pytest.mark.timeout(600)
def test_every_command_works_at_the_first_run(tmp_path: Path) -> None:
    found = carry_out(TEXT, tmp_path)
    printed = {str(done.step): done.printed + done.said for done in found if isinstance(done.step, str)}
    tried = [text for command, text in printed.items() if command.startswith("jurybox try")]
    assert tried and all("--- read as scored" in text for text in tried)
    sampled, whole = (text for text in printed.values() if "helpful · complete" in text)
    assert "20 of 20 trials" in sampled
    assert "20 kept of an earlier plan" in whole and "60 of 60 trials" in whole
