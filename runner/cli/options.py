"""What commands have in common: their options, how a run is named on the command line, and what is said on stderr."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runner.errors import InputError
from runner.scheduling.cluster_address import parse_address

if TYPE_CHECKING:
    from runner.config import RunConfig
    from runner.dataset import Sample

CONFIG_ENDINGS = (".yaml", ".yml")
COLUMN_LABELS = ("bool", "ordinal", "choice")
INSTEAD = "Instead of a config"
"""Where the help shows what only items without a config take."""
_PEEK = 100

SourceArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="CONFIG|ITEMS",
        help="The run's YAML config; or items files (a path, glob or URL), judged as --judge and --model say.",
        show_default=False,
    ),
]
RunArgument = Annotated[Path, typer.Argument(help="A run's directory.", show_default=False)]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="A.B=VALUE", help="Override a key of the config; repeatable.")
]
OutOption = Annotated[
    Path | None, typer.Option(help="The run's directory; by default the config's `out`, or runs/NAME.")
]
LocalOption = Annotated[
    bool,
    typer.Option(
        "--local",
        help="Judge in this process, without Ray: a judge's own code that ends it, or never returns, ends the run.",
    ),
]
LimitOption = Annotated[int | None, typer.Option(min=1, help="Judge only the first N items.")]
SampleOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Judge a sample of N items, from every group in proportion. Whole questions are drawn, the same for all "
        "systems: exactly N items where a question has one answer, else as near as whole questions come.",
    ),
]
SeedOption = Annotated[int | None, typer.Option(help="What the sample is drawn by; by default the config's `seed`.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document.")]
JudgeOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", rich_help_panel=INSTEAD, help="A judge's name, or the path of its file; repeatable."),
]
ModelOption = Annotated[
    list[str] | None,
    typer.Option(metavar="ID", rich_help_panel=INSTEAD, help="A judge model, as its endpoint calls it; repeatable."),
]
BaseUrlOption = Annotated[
    str | None, typer.Option(metavar="URL", rich_help_panel=INSTEAD, help="The models' endpoint; by default OpenAI's.")
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        metavar="VAR",
        rich_help_panel=INSTEAD,
        help="The environment variable with the API key: for OpenAI by default OPENAI_API_KEY, for another endpoint "
        "none.",
    ),
]
ReferenceOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", rich_help_panel=INSTEAD, help="A file whose rows are joined to the items by --on."),
]
OnOption = Annotated[
    str | None, typer.Option(metavar="COLUMN", rich_help_panel=INSTEAD, help="The column that both files have.")
]
FieldOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=COLUMN",
        rich_help_panel=INSTEAD,
        help="The column that holds a field (response, reference, system, group, …); repeatable.",
    ),
]
LabelOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=COLUMN[:TYPE]",
        rich_help_panel=INSTEAD,
        help="People's verdicts, named after the score they are held against; TYPE is bool (the default), ordinal or "
        "choice; repeatable.",
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option(rich_help_panel=INSTEAD, help="The run's name; by default that of the items file. See --out."),
]
BatchOption = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=INSTEAD, help="Items in a request, of the judges that take several."),
]


@dataclass(frozen=True, slots=True)
class Adhoc:
    """The options that stand for a config."""

    judge: list[str] | None = None
    model: list[str] | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    reference: str | None = None
    on: str | None = None
    field: list[str] | None = None
    label: list[str] | None = None
    name: str | None = None
    batch: int | None = None

    def used_options(self) -> list[str]:
        """The options that were used."""
        return [f"--{key.replace('_', '-')}" for key in self.__slots__ if getattr(self, key) not in (None, [])]


@dataclass(frozen=True, slots=True)
class NamedRun:
    """A run as the command line names it."""

    config: RunConfig
    base: Path
    """What paths in the config are relative to."""
    directory: Path


def named_run(source: Sequence[str], adhoc: Adhoc, overrides: list[str] | None, out: Path | None) -> NamedRun:
    """The run of a config file, or of items files with judges and models given as options."""
    from runner.config import load_config, parse_config
    from runner.overrides import apply_override

    if any(path.endswith(CONFIG_ENDINGS) for path in source):
        if len(source) > 1:
            raise InputError(f"one config at a time; got {', '.join(source)}")
        if given := adhoc.used_options():
            raise InputError(
                f"{given[0]} is for items without a config; {source[0]} is a config: write it there, or use --set"
            )
        path = Path(source[0])
        config, base = load_config(path, overrides), path.resolve().parent
    else:
        data, base = _adhoc(source, adhoc), Path()
        for override in overrides or []:
            apply_override(data, override)
        config = parse_config(data, source="the command line")
        _check_columns(config, ", ".join(source))
    return NamedRun(config, base, out or Path(config.out or f"runs/{config.name}"))


def check_place(local: bool, address: str | None) -> None:
    """InputError where it cannot be meant where to judge."""
    if address is not None:
        if local:
            raise InputError("--local and --address exclude each other")
        parse_address(address)


def sample_of(config: RunConfig, limit: int | None, sample: int | None, seed: int | None) -> Sample | None:
    """The sample that was asked for."""
    from runner.dataset import Sample

    if limit is not None and sample is not None:
        raise InputError("--limit and --sample exclude each other")
    if seed is not None and sample is None:
        raise InputError("--seed is what --sample is drawn by; the seed of a run is its config's key `seed`")
    return None if sample is None else Sample(sample, config.seed if seed is None else seed)


def same_command() -> str:
    """What was typed, to be typed again."""
    from runner.log import redact

    return redact(shlex.join(["jurybox", *sys.argv[1:]]))


def say(text: str, quiet: bool = False) -> None:
    """Tell a person, on stderr. Where it takes nothing, nobody is told, and the work goes on."""
    if not quiet:
        with suppress(OSError):
            typer.echo(text, err=True)


def _adhoc(source: Sequence[str], adhoc: Adhoc) -> dict[str, Any]:
    from runner.session.inline_config import adhoc_config

    what = source[0] if len(source) == 1 else f"{source[0]} and {len(source) - 1} more"
    if not adhoc.judge or not adhoc.model:
        lacking = " and ".join(
            text for text, given in (("--judge NAME", adhoc.judge), ("--model ID", adhoc.model)) if not given
        )
        raise InputError(
            f"{what} is no config (.yaml), so {lacking} must be given; `jurybox judges` lists the judges, and "
            f"`jurybox init {source[0]}` writes a config"
        )
    if (adhoc.reference is None) != (adhoc.on is None):
        raise InputError("--reference and --on belong together: the file, and the column by which it is joined")
    return adhoc_config(
        list(source),
        judges=_judges(adhoc.judge, adhoc.batch),
        models=adhoc.model,
        base_url=adhoc.base_url,
        api_key_env=adhoc.api_key_env,
        reference=adhoc.reference,
        on=adhoc.on,
        fields=dict(_pair("--field", option) for option in adhoc.field or []),
        labels=dict(_label(option) for option in adhoc.label or []),
        name=adhoc.name,
    )


def _judges(names: Sequence[str], batch: int | None) -> list[str | dict[str, Any]]:
    if batch is None:
        return list(names)
    from judges import JudgeError, load_judge

    try:
        batched = [load_judge(name, Path()).batch is not None for name in names]
    except JudgeError as error:
        raise InputError(str(error)) from None
    if not any(batched):
        raise InputError(f"--batch {batch}: {', '.join(names)} takes one item a request")
    return [{"use": name, "batch": batch} if takes else name for name, takes in zip(names, batched, strict=True)]


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, column = text.partition("=")
    if not name or not equals or not column:
        raise InputError(f"{option} {text}: must look like NAME=COLUMN")
    return name, column


def _label(text: str) -> tuple[str, dict[str, str]]:
    name, column = _pair("--label", text)
    head, colon, type = column.rpartition(":")
    if colon and head and type in COLUMN_LABELS:
        return name, {"field": head, "type": type}
    return name, {"field": column, "type": "bool"}


def _check_columns(config: RunConfig, what: str) -> None:
    """Tell at once which columns are missing, and how to name them; nothing is taken for another by a guess."""
    from runner.dataset.column_profile import fields_of_all_templates, guess_columns, profile_columns
    from runner.session.session import load_judges

    judges = load_judges(config, Path())
    seen = profile_columns(config.items, Path(), max_rows=_PEEK)
    wanted = {"response": "every judge"}
    for judge in judges:
        for name in fields_of_all_templates(judge):
            wanted.setdefault(name, judge.name)
    columns = {name: config.items.fields.get(name, name) for name in wanted}
    lacking = [name for name in wanted if not seen.has_column(columns[name])]
    if lacking:
        likely = guess_columns(seen)
        faults = [f"there is no column {columns[name]!r} for the {name} that {wanted[name]} needs" for name in lacking]
        options = [f"--field {name}={likely[name].column if name in likely else 'COLUMN'}" for name in lacking]
        raise InputError(
            f"{what}: {'; '.join(faults)}\n  the columns are {', '.join(seen.columns)}\n"
            f"  say which column is meant: {shlex.join(option for text in options for option in text.split(' ', 1))}"
        )
