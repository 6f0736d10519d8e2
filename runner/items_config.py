"""The `items:` key of a config: where the items come from, and which columns mean what."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator

from .labels import Label


class ConfigRecord(BaseModel):
    """Base of all that a config holds: frozen, strictly typed, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Join(ConfigRecord):
    """A reference file whose rows are joined to the items."""

    path: str
    """A path or glob, or an s3:// or gs:// URL."""
    on: str
    """Name of the column, in both files."""
    expect: Literal["any", "all"] = "any"
    """`all`: every reference question must have an answer from every system."""


class Hub(ConfigRecord):
    """One split of a dataset of the Hugging Face Hub, or of a directory on disk that is laid out as one."""

    path: str
    """The dataset's name, as in rungalileo/ragbench; or a directory, also one that `save_to_disk` wrote."""
    config: str | None = None
    """May be left out where there is only one."""
    split: str | None = None
    """May be left out where there is only one."""
    revision: str | None = None
    """Branch, tag or commit; by default the main branch. The commit it stands for is recorded, and is what is read."""


class Items(ConfigRecord):
    """Where the items come from, and which columns mean what. Paths are relative to the config file.

    The source is one of `path`, `systems` and `hf`. Paths may be globs, and s3:// or gs:// URLs (also globs of them),
    with the usual credentials of AWS and Google. Files are rows of JSON, CSV (by commas, semicolons, tabs), Parquet or
    Arrow, or what an evaluation left: logs of inspect_ai (`.eval`, `.json`) and samples of lm-evaluation-harness
    (`samples_*.jsonl` of --log_samples), whose rows come with the columns question, reference, response, id,
    question_id, system and task.
    """

    path: str | list[str] | None = None
    """A path, glob or URL, or a list of them."""
    systems: dict[str, str] | None = None
    """System name → path or glob, instead of `path`."""
    hf: Hub | None = None
    """A dataset, instead of `path`. Needs the extra: pip install 'jurybox[hf]'."""
    format: Literal["jsonl", "json", "csv", "parquet", "arrow", "inspect", "lm-eval"] | None = None
    """By default the file's ending tells, and for results of evaluations its start."""
    join: Join | None = None
    fields: dict[str, str] = {}
    """Canonical or own name → column of the file. A canonical field that is not named is the column of its own name."""
    labels: dict[str, Label] = {}
    """Label name → what people said: the report says how far the judges agree with them."""
    on_bad: Literal["stop", "skip"] = "stop"
    """What a bad row does: `stop` the run before anything is paid, or `skip` it, listed and counted in the report."""
    empty_response: Literal["judge", "wrong", "error"] | None = None
    """What becomes of a missing or empty answer. `judge`: judged as any other, which is also the default, with a notice
    that asks for the choice; `wrong`: false without a call (binary judges only); `error`: a bad row."""

    @model_validator(mode="after")
    def _one_source(self) -> Items:
        if [self.path, self.systems, self.hf].count(None) != 2:
            raise ValueError("give one of path, systems and hf")
        if self.hf is not None and self.format is not None:
            raise ValueError("format is for files; a dataset of hf has none")
        return self
