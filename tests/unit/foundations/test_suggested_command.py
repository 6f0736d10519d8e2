"""A command that is suggested can be typed as it stands."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from runner.suggested_command import program, suggest


@pytest.mark.parametrize(
    ("started_as", "on_path", "typed"),
    [
        ("/usr/bin/jurybox", "/usr/bin/jurybox", "jurybox"),
        (".venv/bin/jurybox", "/usr/bin/jurybox", ".venv/bin/jurybox"),
        (".venv/bin/jurybox", None, ".venv/bin/jurybox"),
        ("my tools/jurybox", None, "'my tools/jurybox'"),
        ("/site-packages/jurybox.py", None, "python -m jurybox"),
        ("/site-packages/runner/__main__.py", None, "jurybox"),
        ("ipykernel_launcher.py", None, "jurybox"),
    ],
)
def test_the_program_is_named_as_it_was_started(started_as: str, on_path: str | None, typed: str) -> None:
    assert program(started_as, on_path) == typed


def test_words_with_blanks_are_quoted() -> None:
    suggested = suggest("report", Path("my runs/it's one"))
    assert shlex.split(suggested)[-2:] == ["report", "my runs/it's one"]
