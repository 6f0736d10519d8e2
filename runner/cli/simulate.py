"""The options of `jurybox simulate`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from runner.errors import InputError


def simulate(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8808,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    seed: Annotated[int, typer.Option(help="Seed of all that is drawn.")] = 0,
    yes: Annotated[
        float, typer.Option(help="Share of prompts whose verdict is yes, or above the middle of a scale.")
    ] = 0.6,
    latency_ms: Annotated[float, typer.Option(help="Median time to a reply.")] = 0.0,
    latency_spread: Annotated[float, typer.Option(help="Log-normal spread of the latency.")] = 0.3,
    rpm: Annotated[float | None, typer.Option(help="Requests a minute for each model name; above: 429.")] = None,
    tpm: Annotated[float | None, typer.Option(help="Tokens a minute for each model name; above: 429.")] = None,
    in_flight: Annotated[int | None, typer.Option(help="Requests at once for each model name; above: 429.")] = None,
    burst_s: Annotated[float, typer.Option(help="Seconds of the rates that may come at once.")] = 1.0,
    model_limit: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL.KEY=N", help="rpm, tpm, in_flight or latency_ms of one model name; repeatable."),
    ] = None,
    malformed: Annotated[float, typer.Option(help="Share of replies without a readable verdict.")] = 0.0,
    malformed_skew: Annotated[
        float, typer.Option(help="How many times likelier that is where the verdict is yes.")
    ] = 1,
    truncated: Annotated[float, typer.Option(help="Share of replies cut before the verdict.")] = 0.0,
    miscounted: Annotated[
        float, typer.Option(help="Share of replies whose list of scores does not fit what was asked.")
    ] = 0.0,
    miscounted_from: Annotated[
        int, typer.Option(min=1, help="Fewest scores asked for at once where that happens.")
    ] = 2,
    refused: Annotated[float, typer.Option(help="Share of refusals.")] = 0.0,
    server_errors: Annotated[float, typer.Option(help="Share of 500, 502 and 503.")] = 0.0,
    resets: Annotated[float, typer.Option(help="Share of connections dropped without a reply.")] = 0.0,
    hanging: Annotated[float, typer.Option(help="Share of requests that never get a reply.")] = 0.0,
    throttled: Annotated[float, typer.Option(help="Share of 429 whatever the limits.")] = 0.0,
    retry_after_s: Annotated[float, typer.Option(help="Retry-After of those.")] = 0.2,
    max_faults_in_a_row: Annotated[
        int, typer.Option("--faults-in-a-row", help="At most so many faults in a row for one prompt.")
    ] = 2,
    api_key: Annotated[str | None, typer.Option(help="The only key that is accepted.")] = None,
    only_models: Annotated[
        list[str] | None, typer.Option("--only-model", help="A model name that exists; repeatable.")
    ] = None,
    quota: Annotated[int | None, typer.Option(help="Replies until insufficient_quota.")] = None,
    structured: Annotated[str, typer.Option(help="response_format is enforced, ignored or refused.")] = "enforced",
    replay: Annotated[
        Path | None, typer.Option(help="JSONL of {question, response, reply}: answer from these and nothing else.")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="Write a line of JSON for each request.")] = None,
) -> None:
    """Serve a local OpenAI-compatible endpoint for demos, tests and benchmarks."""
    from runner.simulate import Simulation, serve

    # Each option is one of the simulation's by the same name.
    options = {name: value for name, value in context.params.items() if name not in ("host", "port", "model_limit")}
    options["only_models"] = tuple(only_models) if only_models else None
    serve(Simulation(models=_model_limits(model_limit or []), **options), host, port)


def _model_limits(options: list[str]) -> dict[str, Any]:
    limits: dict[str, dict[str, float]] = {}
    for option in options:
        name, _, value = option.partition("=")
        model, _, key = name.rpartition(".")
        try:
            limits.setdefault(model, {})[key] = float(value)
        except ValueError:
            raise InputError(f"--model-limit {option}: must look like MODEL.rpm=600") from None
    return limits
