"""The public Python face of jurybox.

    import jurybox

    run = jurybox.run(rows, judge="longmemeval-paper", model="gpt-4o-mini")   # dicts, a data frame, a file
    run.report()                                # shows itself in a notebook, prints as text
    run.scores()                                # a Polars frame: one row per judged item, a column per score
    run.compare("a", "b")                       # two systems on the same questions
    run.flips("a", "b")                         # the questions on which they differ, with both answers
    run = jurybox.run("configs/quickstart.yaml")
    run = jurybox.load("runs/quickstart")

The same call again goes on where it was stopped, and asks nothing that has been answered. Errors: InputError before
anything is paid; StoppedEarly and ActionNeeded, after which the same call goes on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

import judges
import runner

for _package in (judges, runner):
    _found = Path(str(_package.__file__)).resolve().parent.parent
    if _found != Path(__file__).resolve().parent:
        raise ImportError(
            f"jurybox needs its own package {_package.__name__!r}, but another one is installed over it in {_found}; "
            "uninstall that package, or use jurybox in an environment of its own"
        )

if TYPE_CHECKING:
    import polars as pl

    from runner.report.notebook import DisplayedReport
    from runner.session.cancellation import StopSignal

from judges import Judge  # noqa: E402 (after the check above)
from runner.errors import ActionNeeded, InputError, Interrupted, JuryboxError, StoppedEarly  # noqa: E402

__all__ = [
    "ActionNeeded",
    "InputError",
    "Interrupted",
    "Judge",
    "JuryboxError",
    "Run",
    "StoppedEarly",
    "arun",
    "judge",
    "load",
    "run",
]


class Frame(Protocol):
    """A data frame of Polars or pandas, or a table of Arrow."""

    @property
    def columns(self) -> Any:
        """The names of its columns."""


Items = str | PathLike[str] | Mapping[str, Any] | Iterable[Mapping[str, Any]] | Frame
_Kind = TypeVar("_Kind", bound=Judge)
_P = ParamSpec("_P")
_T = TypeVar("_T")
JudgeLike = str | PathLike[str] | Mapping[str, Any] | Judge
ModelLike = str | Mapping[str, Any]


class Run:
    """A run directory, finished or not."""

    def __init__(self, directory: str | PathLike[str]) -> None:
        self.directory = Path(directory)

    def report(self) -> DisplayedReport:
        """The report as things stand. Shows itself in a notebook; `str()` is what the command prints.

        InputError where the directory holds no run.
        """
        from runner.report.notebook import DisplayedReport
        from runner.session.run_status import open_run

        with open_run(self.directory) as opened:
            return DisplayedReport.of(opened.report())

    def text(self) -> str:
        """The report's first screen, as the command prints it."""
        return str(self.report())

    def judgments(self, texts: bool = True) -> pl.DataFrame:
        """All published judgments, a row per item × judge × model × repeat in the items' order.

        Columns as of `jurybox export`: the item with its question, response, reference and own fields; `state` is
        scored, malformed, refused, failed, poisoned, or null while not judged; a column for each score and label
        (`score_correct`, `label_correct`), null where there is none; `cost_usd` in USD, `latency_s` in seconds. Empty,
        with the columns that every run has, before a run has first ended. `texts=False` leaves out the texts of items
        and replies, which are most of the bytes.
        """
        from runner.publishing.result_frames import COLUMNS

        return self._published("results", COLUMNS, texts)

    def attempts(self) -> pl.DataFrame:
        """All published requests as made, a row each, with raw reply, tokens, cost and error."""
        from runner.publishing.result_frames import ATTEMPT_COLUMNS

        return self._published("attempts", ATTEMPT_COLUMNS)

    def scores(self) -> pl.DataFrame:
        """What was scored: item_id, question_id, system, item_group, judge, model, repeat, state; a float per score.

        A row per item × judge × model × repeat in the items' order. A score is null where the trial has none, whatever
        the reason: `state` tells it, and no failure is ever a number.
        """
        import polars as pl

        judgments = self.judgments()
        keys = ["item_id", "question_id", "system", "item_group", "judge", "model", "repeat", "state"]
        entries = judgments.select("scores").explode("scores").unnest("scores")
        names = entries.get_column("key").drop_nulls().unique(maintain_order=True)
        own = pl.element().struct

        def score(name: str) -> pl.Expr:
            value = own.field("value").filter(own.field("key") == name)
            return pl.col("scores").list.eval(value).list.first().alias(f"score_{name}" if name in keys else name)

        return judgments.select(*keys, *map(score, names))

    def compare(self, a: str, b: str) -> pl.DataFrame:
        """How far system `a` is from system `b`, on the questions that have a score of both.

        A row per judge × model × score: judge, model, score, first (`a`), second (`b`), questions, first_value,
        second_value, difference (first − second), low and high (its 95 % interval), test, p, won, lost (questions where
        the first, or the second, has the higher value), questions_to_settle (about so many would tell a difference of
        this size; null where it is told, or nothing can be said). `test` is McNemar's, exact, where each question has
        one yes or no of either; else t, Student's over the questions. InputError for a system that the run has not.
        """
        from runner.report.comparison import compare
        from runner.session.run_status import open_run

        with open_run(self.directory) as run:
            return compare((run.config, run.judges, run.staged, run.ledger), a, b)

    def flips(self, a: str, b: str) -> pl.DataFrame:
        """The questions on which systems `a` and `b` differ: those that `a` wins first.

        A row per question × judge × model × score: question_id, judge, model, score, first_value, second_value,
        difference, question, reference, first_response, second_response, first_item_id, second_item_id (of several
        answers the first; values are means). InputError for a system that the run has not.
        """
        from runner.report.comparison import flips
        from runner.session.run_status import open_run

        with open_run(self.directory) as run:
            return flips((run.config, run.judges, run.staged, run.ledger), a, b)

    def _published(self, folder: str, columns: Mapping[str, Any], texts: bool = True) -> pl.DataFrame:
        import polars as pl

        from runner.publishing.result_columns import without_texts

        load(self.directory)
        path = self.directory / folder
        if not path.is_dir():
            return pl.DataFrame(schema=dict(columns))
        files = pl.scan_parquet(path / "*.parquet")
        frame = (files if texts else files.select(without_texts(files.collect_schema()))).collect()
        # Polars has a type for maps since version 2; with either version they come as lists of entries.
        return frame.cast({name: kind for name, kind in columns.items() if name in frame.columns})

    def __repr__(self) -> str:
        from runner.session.run_status import status_of

        name = f"jurybox.Run({str(self.directory)!r})"
        try:
            status = status_of(self.directory)
        except (JuryboxError, OSError):
            return name
        share = f"INCOMPLETE {100 * status.done // max(1, status.trials)} %"
        state = "complete" if status.complete else share
        return f"{name}: {state}, {status.done:,} of {status.trials:,} trials judged"

    def _repr_html_(self) -> str | None:
        """The report, in a notebook; where there is none yet, the notebook shows the `repr`."""
        try:
            return self.report()._repr_html_()
        except (JuryboxError, OSError):
            return None


def load(directory: str | PathLike[str]) -> Run:
    """The run in a directory; InputError where there is none."""
    from runner.ledger.run_directory import RunDirectory

    RunDirectory(Path(directory)).open()
    return Run(directory)


@overload
def judge(data: JudgeLike) -> Judge: ...


@overload
def judge(data: str | PathLike[str] | Mapping[str, Any], kind: type[_Kind]) -> _Kind: ...


def judge(data: JudgeLike, kind: type[Judge] = Judge) -> Judge:
    """A judge by its name in the library, its path (`mine.yaml`, `mine.py:name`), or its data: YAML text or a mapping.

    `kind`: a subclass of `Judge` that reads or scores in Python. It may define `read(reply, count=1)`, which says what
    a reply means, and `scores(verdict, item)`, with the names and within the ranges that the judge's data states; also
    `outcomes`, `route`, `render`, `render_batch`, `missing`, `fault`. They must be pure functions of their arguments;
    what they raise ends the run. The class's source is part of the judge's fingerprint and of every trial's key: a
    changed line is a new meaning. Code that it calls elsewhere is not: keep it in the class, or in the file of
    `mine.py:name`, which counts as a whole. InputError where something in the judge is wrong.
    """
    from runner.session.run_request import load_any

    return load_any(data, kind)


def run(
    items: Items,
    *,
    judge: JudgeLike | Sequence[JudgeLike] | None = None,
    model: ModelLike | Sequence[ModelLike] | None = None,
    base_url: str | None = None,
    api_key_env: str | None = None,
    limits: Mapping[str, Any] | None = None,
    batch: int | None = None,
    sampling: Mapping[str, Any] | None = None,
    fields: Mapping[str, str] | None = None,
    labels: Mapping[str, Any] | None = None,
    name: str | None = None,
    out: str | PathLike[str] | None = None,
    limit: int | None = None,
    sample: int | None = None,
    local: bool = True,
    address: str | None = None,
    progress: bool = False,
    **settings: Any,
) -> Run:
    """Judge items, or what a config says; the same call again resumes, and is free once all is judged.

    items: dicts (a list, or anything that yields them), a Polars or pandas data frame, a `datasets.Dataset`, an Arrow
        table, or the path of a file, a glob or URL. Each needs `response`, and what the judge's prompt asks for
        (`question`, `reference`, …); `id`, `system`, `group` where there are any. NaN is missing. Or a whole config
        (the path of a YAML file, or a mapping with items, judges and models), then without the arguments up to `name`.
    judge: a name of the library, a path (`mine.yaml`, `mine.py:name`), a mapping with a judge file's keys, what
        `jurybox.judge` made, a config's entry ({"use": …, "batch": …}), or several of these.
    model: a model id, a config's mapping ({"model": …, "base_url": …, "price": …}), or several.
    base_url, api_key_env: the endpoint (default OpenAI) and the NAME of the variable that holds its key.
    limits: {"rpm": …, "tpm": …, "in_flight": …} of each model that states none: requests and tokens a minute.
    batch, sampling: of each judge that states none, as in a config's `judges:` entry.
    fields: canonical name → column, such as {"response": "hypothesis"}. labels: name → column, or a config's mapping.
    out: the run's directory. By default `runs/NAME-DIGEST` for items in memory, whose digest tells apart items (in any
        order), judges, models and sampling, so that the same call finds its run; `runs/NAME` for files. NAME: `name`,
        else the judge's (the file's). Items in memory are written there too, readable by you alone.
    limit, sample: judge only the first so many items; or a sample of so many, drawn from all groups by `seed`.
    local: judge in this process; a judge's own code that ends its process, or never returns, takes it along. False: on
        Ray started here, or on the Ray cluster at `address`, where such a trial is recorded as poisoned.
    progress: tell on stderr how far it is. stdout is never written to.
    settings: further keys of a config: repeats, seed, budget, retry, max_unscored, …

    Works in scripts and in notebooks (where a loop runs, it judges beside it). Nothing is asked before spending; give
    `budget={"usd": …}` to bound it. Raises InputError before anything is paid (`items[3]` is the fourth item);
    StoppedEarly (outage, budget, disk) and ActionNeeded (key, quota) with all that was judged kept. Ctrl-C, or a
    notebook's interrupt, ends the requests in flight and raises KeyboardInterrupt; once more gives them up.
    """
    arguments = locals()  # the signature is the one list of them
    from runner.session.cancellation import StopSignal, run_in_thread

    signal = StopSignal()
    return _carry_out(arguments, signal, lambda judging: run_in_thread(judging, signal))


def _with_parameters_of(twin: Callable[_P, Any]) -> Callable[[Callable[..., _T]], Callable[_P, _T]]:
    """Declare a function to take what its twin takes."""

    def declare(function: Callable[..., _T]) -> Callable[_P, _T]:
        function.__signature__ = inspect.signature(twin)  # type: ignore[attr-defined]
        return function

    return declare


@_with_parameters_of(run)
async def arun(*args: Any, **options: Any) -> Run:
    """`run`, awaited: the loop goes on meanwhile. Cancelling ends the requests in flight; once more gives them up."""
    from runner.session.cancellation import StopSignal, run_in_executor_until_stopped

    given = inspect.signature(run).bind(*args, **options)
    given.apply_defaults()
    signal = StopSignal()
    return await run_in_executor_until_stopped(
        lambda: _carry_out(given.arguments, signal, lambda judging: judging()), signal
    )


def _carry_out(arguments: Mapping[str, Any], signal: StopSignal, run_loop: Callable[[Callable[[], None]], None]) -> Run:
    import structlog

    from runner.log import configure
    from runner.session.inline_config import RunArguments
    from runner.session.run_request import run_request

    # Events go to stderr, where the process has not set structlog up; its other logging is left alone.
    if not structlog.is_configured():
        configure(libraries=False)
    request = run_request(RunArguments(**arguments))
    request.carry_out(signal, run_loop)
    return Run(request.directory)


if __name__ == "__main__":
    from runner.__main__ import main

    main()
