"""What commands have in common: their options, how a run is named on the command line, and what is said on stderr."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runner.errors import InputError
from runner.scheduling.cluster_address import parse_address
from runner.session.inline_config import RunArguments, inline_config
from runner.suggested_command import suggest

if TYPE_CHECKING:
    from runner.config import RunConfig
    from runner.session.run_request import RunRequest

CONFIG_ENDINGS = (".yaml", ".yml")
COLUMN_LABELS = ("bool", "ordinal", "choice")
_LISTED = 10

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run's directory, or its config.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document.")]
LocalOption = Annotated[
    bool,
    typer.Option(
        "--local",
        help="Judge in this process, without Ray: a judge's own code that ends it, or never returns, ends the run.",
    ),
]
AddressOption = Annotated[str | None, typer.Option(help="Judge on the Ray cluster at this address.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask before spending.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", help="Log events of the work to stderr.")]


def _instead(metavar: str | None, help: str, *names: str, min: int | None = None) -> Any:
    """An option that only items without a config take; the help shows them apart."""
    return typer.Option(*names, metavar=metavar, rich_help_panel="Instead of a config", help=help, min=min)


def run_arguments(
    items: Annotated[
        list[str],
        typer.Argument(
            metavar="CONFIG|ITEMS",
            help="The run's YAML config; or items files (a path, glob or URL), judged as --judge and --model say.",
            show_default=False,
        ),
    ],
    judge: Annotated[list[str] | None, _instead("NAME", "A judge's name, or the path of its file; repeatable.")] = None,
    model: Annotated[list[str] | None, _instead("ID", "A judge model, as its endpoint calls it; repeatable.")] = None,
    base_url: Annotated[str | None, _instead("URL", "The models' endpoint; by default OpenAI's.")] = None,
    api_key_env: Annotated[
        str | None,
        _instead(
            "VAR",
            "The environment variable with the API key: for OpenAI by default OPENAI_API_KEY, for another endpoint "
            "none.",
        ),
    ] = None,
    reference: Annotated[str | None, _instead("FILE", "A file whose rows are joined to the items by --on.")] = None,
    on: Annotated[str | None, _instead("COLUMN", "The column that both files have.")] = None,
    fields: Annotated[
        list[str] | None,
        _instead(
            "NAME=COLUMN",
            "The column that holds a field (response, reference, system, group, …); repeatable.",
            "--field",
        ),
    ] = None,
    labels: Annotated[
        list[str] | None,
        _instead(
            "NAME=COLUMN[:TYPE]",
            "People's verdicts, named after the score they are held against; TYPE is bool (the default), ordinal or "
            "choice; repeatable.",
            "--label",
        ),
    ] = None,
    name: Annotated[str | None, _instead(None, "The run's name; by default that of the items file. See --out.")] = None,
    batch: Annotated[int | None, _instead(None, "Items in a request, of the judges that take several.", min=1)] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=VALUE", help="Override a key of the config; repeatable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run's directory; by default the config's `out`, or runs/NAME.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Judge only the first N items.")] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Judge a sample of N items, from every group in proportion. Whole questions are drawn, the same for "
            "all systems: exactly N items where a question has one answer, else as near as whole questions come.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="What the sample is drawn by; by default the config's `seed`.")
    ] = None,
) -> RunArguments:
    arguments = locals()  # the signature is the one list of them
    arguments["fields"] = dict(_parse_column("--field", option) for option in fields or [])
    arguments["labels"] = dict(_parse_label(option) for option in labels or [])
    arguments["overrides"] = overrides or []
    if seed is not None and sample is None:
        raise InputError("--seed is what --sample is drawn by; the seed of a run is its config's key `seed`")
    return RunArguments(**arguments)


def with_run_arguments(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, as its first argument, what the options of these names say; without names all of them."""
    options = inspect.signature(run_arguments, eval_str=True).parameters
    options = {name: options[name] for name in names or options}  # type: ignore[assignment]

    def declare(command: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(command, eval_str=True).parameters.values()

        def declared(**values: Any) -> None:
            command(run_arguments(**{name: values.pop(name) for name in options}), **values)

        declared.__doc__, declared.__name__ = command.__doc__, command.__name__
        declared.__signature__ = inspect.Signature([*options.values(), *own])  # type: ignore[attr-defined]
        return declared

    return declare


def named_run(arguments: RunArguments) -> RunRequest:
    from runner.config import load_config, parse_config
    from runner.session.run_request import RunRequest, check_limits

    check_place(arguments.local, arguments.address)
    check_limits(arguments)
    first, files = arguments.items[0], ", ".join(arguments.items)
    if any(path.endswith(CONFIG_ENDINGS) for path in arguments.items):
        if len(arguments.items) > 1:
            raise InputError(f"one config at a time; got {files}")
        if names := arguments.names_of_items():
            option = f"--{names[0].replace('_', '-').removesuffix('s')}"
            raise InputError(
                f"{option} is for items without a config; {first} is a config: write it there, or use --set"
            )
        config, base = load_config(Path(first), arguments.overrides), Path(first).resolve().parent
    else:
        data, base = inline_config(_complete(arguments)), Path()
        config = parse_config(data, "the command line", arguments.overrides)
        _check_columns(config)
    return RunRequest(arguments, config, base, Path(arguments.out or config.out or f"runs/{config.name}"))


def run_directory(run: Path) -> Path:
    """The directory of a run that is named by it, or by its config; InputError where there is none."""
    if run.suffix not in CONFIG_ENDINGS or run.is_dir():
        if run.is_file():
            raise InputError(f"{run} is a file; name a run's directory, or its config (.yaml)")
        if not run.exists():
            raise InputError(f"{run}: there is no such directory{_known_runs(run.parent)}")
        return run
    from runner.config import load_config

    config = load_config(run)
    directory = Path(config.out or f"runs/{config.name}")
    if not directory.is_dir():
        raise InputError(f"{run}: its run would be in {directory}, and is not begun; `{suggest('run', run)}` begins it")
    return directory


def _known_runs(folder: Path) -> str:
    """The runs beside one that is not there."""
    names = sorted(path.parent.name for path in folder.glob("*/run.db"))
    return f"; the runs in {folder} are {', '.join(names[:_LISTED])}" + ", …" * (len(names) > _LISTED) if names else ""


def check_place(local: bool, address: str | None) -> None:
    """InputError where it cannot be meant where to judge."""
    if address is not None:
        if local:
            raise InputError("--local and --address exclude each other")
        parse_address(address)


def same_command() -> str:
    """What was typed, to be typed again."""
    from runner.log import redact

    return redact(suggest(*sys.argv[1:]))


def say(text: str, quiet: bool = False) -> None:
    """Print on stderr, for a person; where it takes nothing more, the work goes on."""
    if not quiet:
        with suppress(OSError):
            typer.echo(text, err=True)


def _complete(arguments: RunArguments) -> RunArguments:
    """The arguments, if they say all that a config would, with the batch size at the judges that take several items."""
    first, *others = arguments.items
    options = (("--judge NAME", arguments.judge), ("--model ID", arguments.model))
    if lacking := " and ".join(option for option, value in options if not value):
        raise InputError(
            f"{first}{f' and {len(others)} more' if others else ''} is no config (.yaml), so {lacking} must be given; "
            f"`{suggest('judges')}` lists the judges, and `{suggest('init', first)}` writes a config"
        )
    if (arguments.reference is None) != (arguments.on is None):
        raise InputError("--reference and --on belong together: the file, and the column by which it is joined")
    if arguments.batch is None:
        return arguments
    from judges import JudgeError, load_judge

    try:
        batched = [load_judge(name, Path()).batch is not None for name in arguments.judge]
    except JudgeError as error:
        raise InputError(str(error)) from None
    if not any(batched):
        raise InputError(f"--batch {arguments.batch}: {', '.join(arguments.judge)} takes one item a request")
    judges = [
        {"use": name, **({"batch": arguments.batch} if takes else {})}
        for name, takes in zip(arguments.judge, batched, strict=True)
    ]
    return replace(arguments, judge=judges, batch=None)


def _parse_column(option: str, text: str) -> tuple[str, str]:
    name, equals, column = text.partition("=")
    if not name or not equals or not column:
        raise InputError(f"{option} {text}: must look like NAME=COLUMN")
    return name, column


def _parse_label(text: str) -> tuple[str, dict[str, str]]:
    name, column = _parse_column("--label", text)
    head, colon, type = column.rpartition(":")
    if colon and head and type in COLUMN_LABELS:
        return name, {"field": head, "type": type}
    return name, {"field": column, "type": "bool"}


def _check_columns(config: RunConfig) -> None:
    """Tell at once which columns are missing, and how to name them; nothing is taken for another by a guess."""
    from runner.dataset.missing_columns import as_options, find_missing
    from runner.session.session import load_judges

    if (missing := find_missing(config.items, load_judges(config, Path()), Path())) is not None:
        raise InputError(missing.describe(as_options))
