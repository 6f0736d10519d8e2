"""The simulated endpoint as a client meets it: over HTTP, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from runner.errors import InputError
from runner.simulate import Simulation, running

ROOT = Path(__file__).resolve().parents[2]


def body(text: str = "Is it?\n\nAnswer yes or no only.", model: str = "judge", **options: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], "temperature": 0, **options}


Answered = tuple[int, dict[str, str], Any]
"""Status (0 where the connection was dropped), headers and parsed body."""


async def ask(session: aiohttp.ClientSession, url: str, request: Any, **options: Any) -> Answered:
    """Send one request."""
    try:
        async with session.post(f"{url}/chat/completions", json=request, **options) as reply:
            text = await reply.text()
            parsed = json.loads(text) if reply.content_type == "application/json" else text
            return reply.status, {name.lower(): value for name, value in reply.headers.items()}, parsed
    except aiohttp.ClientConnectionError:
        return 0, {}, None


async def stats(session: aiohttp.ClientSession, url: str) -> Any:
    async with session.get(url.removesuffix("/v1") + "/stats") as reply:
        return await reply.json()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition that another process brings about."""
    async with asyncio.timeout(10):
        while not await condition():  # noqa: ASYNC110 (no event reaches over from another process)
            await asyncio.sleep(0.01)


async def test_a_reply_is_a_chat_completion() -> None:
    with running() as url:
        async with aiohttp.ClientSession() as session:
            status, headers, reply = await ask(session, url, body())
            again = (await ask(session, url.removesuffix("/v1"), body()))[2]
            elsewhere = (await ask(session, url + "/openai/deployments/x", body()))[2]
            async with session.get(f"{url}/models") as listed:
                models = await listed.json()
            async with session.get(f"{url}/nothing") as unknown:
                assert unknown.status == 404
    assert status == 200
    assert headers["x-request-id"]
    choice = reply["choices"][0]
    assert choice["message"]["content"] in ("yes", "no")
    assert (choice["finish_reason"], choice["message"]["refusal"]) == ("stop", None)
    assert (reply["object"], reply["model"]) == ("chat.completion", "judge")
    assert reply["system_fingerprint"] == "jurybox-simulate"
    assert reply["usage"]["prompt_tokens"] == len(body()["messages"][0]["content"]) // 4
    assert again["choices"] == elsewhere["choices"] == reply["choices"]
    assert [model["id"] for model in models["data"]] == ["judge"]


async def test_the_limits_of_each_model_hold_and_say_so() -> None:
    simulation = Simulation(rpm=6_000, models={"slow": {"rpm": 300}}, burst_s=0.1)
    with running(simulation) as url:
        async with aiohttp.ClientSession() as session:
            for model, rate in (("slow", 5), ("fast", 100)):
                started = time.monotonic()
                replies = await asyncio.gather(*(ask(session, url, body(model=model)) for _ in range(200)))
                seconds = time.monotonic() - started
                statuses = Counter(status for status, _, _ in replies)
                assert set(statuses) == {200, 429}
                assert 1 <= statuses[200] <= 1 + rate * 0.1 + rate * seconds
                over = next((headers, reply) for status, headers, reply in replies if status == 429)
                assert 0 < float(over[0]["retry-after"]) <= 1 / rate + 0.01
                assert over[0]["x-ratelimit-limit-requests"] == str(60 * rate)
                assert over[0]["x-ratelimit-remaining-requests"] == "0"
                assert over[1]["error"]["code"] == "rate_limit_exceeded"


async def test_requests_in_flight_are_limited() -> None:
    with running(Simulation(in_flight=3, latency_ms=100)) as url:
        async with aiohttp.ClientSession() as session:
            replies = await asyncio.gather(*(ask(session, url, body(str(number))) for number in range(10)))
            found = await stats(session, url)
    assert Counter(status for status, _, _ in replies) == {200: 3, 429: 7}
    assert found["max_in_flight"] == {"judge": 3}
    assert found["by_limit"] == {"in_flight": 7}


async def test_faults_come_at_their_shares_and_a_prompt_outlives_them(tmp_path: Path) -> None:
    shares: dict[str, Any] = dict.fromkeys(("malformed", "server_errors", "resets", "throttled"), 0.1)
    shares |= {"truncated": 0.05, "refused": 0.05}
    with running(Simulation(**shares, log=tmp_path / "log")) as url:
        async with aiohttp.ClientSession() as session:
            slots = asyncio.Semaphore(32)

            async def once(number: int) -> Answered:
                async with slots:
                    return await ask(session, url, body(f"{number}"))

            replies = await asyncio.gather(*(once(number) for number in range(1_500)))
            found = await stats(session, url)
            # Two faults in a row at most: the third asking at the latest is answered soundly.
            for _ in range(2):
                await asyncio.gather(*(once(number) for number in range(1_500)))
    for kind, share in shares.items():
        assert found["by_fault"][kind] / 1_500 == pytest.approx(share, abs=0.035), kind
    statuses = Counter(status for status, _, _ in replies)
    assert set(statuses) == {0, 200, 429, 500, 502, 503}
    assert statuses[0] == found["by_status"]["none"]
    throttled = next(headers for status, headers, _ in replies if status == 429)
    assert throttled["retry-after"] == "0.200"
    finishes = Counter(reply["choices"][0]["finish_reason"] for status, _, reply in replies if status == 200)
    assert finishes["length"] == found["by_fault"]["truncated"]
    assert finishes["content_filter"] > 0
    lines = [json.loads(line) for line in (tmp_path / "log").read_bytes().splitlines()]
    sound = {line["prompt"] for line in lines if line["fault"] is None}
    assert (len(lines), len(sound)) == (4_500, 1_500)


async def test_a_hanging_request_ends_with_its_client() -> None:
    with running(Simulation(hanging=1, max_faults_in_a_row=1, latency_ms=10)) as url:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(asyncio.TimeoutError):
                await ask(session, url, body(), timeout=aiohttp.ClientTimeout(total=0.3))

            async def gone() -> bool:
                return bool((await stats(session, url))["by_fault"].get("hanging") == 1)

            await until(gone)
            assert (await ask(session, url, body()))[0] == 200
            assert (await stats(session, url))["open"] == 0


async def test_the_log_holds_what_was_sent_and_no_key(tmp_path: Path) -> None:
    raw = ' {"model": "judge",\n "messages": [{"role":"user","content":"é {} \\u0000 🦉"}]}'.encode()
    with running(Simulation(log=tmp_path / "log")) as url:
        async with aiohttp.ClientSession() as session:
            async with session.post(
                f"{url}/chat/completions", data=raw, headers={"Authorization": "Bearer sk-secret"}
            ) as reply:
                assert reply.status == 200
            async with session.post(f"{url}/chat/completions", data=b"no JSON") as reply:
                assert reply.status == 400
            await stats(session, url)
            written = (tmp_path / "log").read_bytes()
    assert b"secret" not in written
    first, second = (json.loads(line) for line in written.splitlines())
    assert first["body"].encode() == raw
    assert (first["n"], first["status"], first["model"], first["fault"]) == (1, 200, "judge", None)
    assert (second["n"], second["status"], second["body"]) == (2, 400, "no JSON")


async def test_keys_models_and_quota_are_checked() -> None:
    with running(Simulation(api_key="right", only_models=("judge",), quota=1)) as url:
        async with aiohttp.ClientSession() as session:
            key = {"headers": {"Authorization": "Bearer right"}}
            wrong = await ask(session, url, body(), headers={"Authorization": "Bearer wrong"})
            none = await ask(session, url, body())
            unknown = await ask(session, url, body(model="other"), **key)
            azure = await ask(session, url, body(), headers={"api-key": "right"})
            spent = await ask(session, url, body(), **key)
            async with session.get(f"{url}/models") as listed:
                assert listed.status == 401
    assert [wrong[0], none[0], unknown[0], azure[0], spent[0]] == [401, 401, 404, 200, 429]
    assert [wrong[2]["error"]["code"], unknown[2]["error"]["code"]] == ["invalid_api_key", "model_not_found"]
    assert spent[2]["error"]["code"] == "insufficient_quota"
    assert "retry-after" not in spent[1]


async def test_structured_output_may_be_enforced_ignored_or_refused() -> None:
    schema = {"type": "object", "properties": {"correct": {"type": "boolean"}}, "required": ["correct"]}
    request = body(response_format={"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema}})
    found = {}
    for structured in ("enforced", "ignored", "refused"):
        with running(Simulation(structured=structured, yes=1)) as url:
            async with aiohttp.ClientSession() as session:
                found[structured] = await ask(session, url, request)
    assert found["enforced"][2]["choices"][0]["message"]["content"] == '{"correct":true}'
    assert found["ignored"][2]["choices"][0]["message"]["content"] == "yes"
    assert found["refused"][0] == 400


async def test_recorded_replies_are_given_and_misses_are_loud(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recorded = tmp_path / "recorded.jsonl"
    rows = [("who?", "me", "Yes, me."), ("who?", "you", False), ("who?", "they", "yes"), ("who?", "they", "no")]
    recorded.write_text("".join(json.dumps({"question": q, "response": r, "reply": a}) + "\n" for q, r, a in rows))
    text = "Judge.\n\nQuestion: who?\n\nModel Response: {}\n\nAnswer yes or no only."
    with running(Simulation(replay=recorded)) as url:
        async with aiohttp.ClientSession() as session:
            me, you, they, nobody = [
                await ask(session, url, body(text.format(response))) for response in ("me", "you", "they", "nobody")
            ]
            found = await stats(session, url)
    assert me[2]["choices"][0]["message"]["content"] == "Yes, me."
    assert you[2]["choices"][0]["message"]["content"] == "no"
    assert (they[0], nobody[0]) == (422, 422)
    assert found["replay"] == {"not_recorded": 1, "ambiguous": 1}
    complaints = capfd.readouterr().err
    assert "2 differing replies are recorded for 'who?' with 'they'" in complaints
    assert "the response in the prompt is not: 'who?'" in complaints


async def test_faults_fall_on_recorded_replies_too(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded.jsonl"
    recorded.write_text(json.dumps({"question": "who?", "response": "me", "reply": "yes"}))
    text = "Question: who?\n\nModel Response: me\n\nAnswer yes or no only."
    with running(Simulation(replay=recorded, truncated=1, max_faults_in_a_row=2)) as url:
        async with aiohttp.ClientSession() as session:
            choices = [(await ask(session, url, body(text)))[2]["choices"][0] for _ in range(3)]
    assert [choice["finish_reason"] for choice in choices] == ["length", "length", "stop"]
    assert choices[2]["message"]["content"] == "yes"


async def test_batches_get_a_list_and_its_count_may_be_spoilt() -> None:
    told = "Score each answer.\n\nReply with comma-separated scores from 0 to 5 only."
    block = "Question {}: why {}?\nTrue answer: so\nAnswer from model: thus"

    def batch(*contents: int) -> dict[str, Any]:
        text = "\n\n".join(block.format(number, content) for number, content in enumerate(contents, 1))
        return {
            "model": "judge",
            "messages": [{"role": "system", "content": told}, {"role": "user", "content": text}],
        }

    def said(answered: Answered) -> list[str]:
        return str(answered[2]["choices"][0]["message"]["content"]).split(",")

    with running(Simulation(miscounted=1, max_faults_in_a_row=1)) as url:
        async with aiohttp.ClientSession() as session:
            alone = [said(await ask(session, url, batch(content))) for content in range(6)]
            spoilt = said(await ask(session, url, batch(*range(6))))
            whole = said(await ask(session, url, batch(*range(6))))
            found = await stats(session, url)
    assert whole == [score for scores in alone for score in scores]
    assert len(whole) == 6
    assert set(whole) <= set("012345")
    assert spoilt != whole
    assert found["by_fault"] == {"miscounted": 1}


@pytest.mark.parametrize(
    ("options", "replies"),
    [([], [True, False]), (["--map", "true=4", "--map", "false=wrong"], [4, "wrong"])],
)
def test_labels_become_rows_to_replay(tmp_path: Path, options: list[str], replies: list[Any]) -> None:
    rows = [
        {"id": "1", "question": "q", "reference": "g", "response": "r", "human": "yes"},
        {"id": "2", "question": "q", "reference": "g", "response": "s", "human": "no"},
        {"id": "3", "question": "q", "reference": "g", "response": "t", "human": None},
    ]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {
        "name": "n",
        "items": {"path": "items.jsonl", "labels": {"correct": {"field": "human", "type": "bool"}}},
        "judges": ["yes-no"],
        "models": [{"name": "m", "model": "m", "base_url": "http://127.0.0.1:9/v1"}],
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    command = [sys.executable, str(ROOT / "scripts" / "replay.py"), str(tmp_path / "config.yaml"), "--label", "correct"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, *options], capture_output=True, text=True, env=environment, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found == [
        {"question": "q", "response": response, "reference": "g", "reply": reply}
        for response, reply in zip("rs", replies, strict=True)
    ]
    wrong = subprocess.run([*command, "--map", "true"], capture_output=True, text=True, env=environment, check=False)
    assert wrong.returncode != 0
    assert "must look like true=5" in wrong.stderr


def test_sigterm_writes_the_log_out_and_ends_in_order(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = _start(Simulation(log=log))
    with process:
        _ask_once(_url(process))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
    assert len(log.read_bytes().splitlines()) == 1


def test_the_endpoint_does_not_outlive_whoever_started_it(tmp_path: Path) -> None:
    process = _start(Simulation(log=tmp_path / "log"))
    with process:
        _ask_once(_url(process))
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=10) == 0
    assert len((tmp_path / "log").read_bytes().splitlines()) == 1


def test_what_cannot_start_says_why(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError), running(Simulation(replay=tmp_path / "absent.jsonl")):
        pass
    assert "cannot read" in capfd.readouterr().err


def _start(simulation: Simulation) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "runner.simulate", simulation.model_dump_json()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def _url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().removeprefix("serving ").strip()


def _ask_once(url: str) -> None:
    async def once() -> None:
        async with aiohttp.ClientSession() as session:
            assert (await ask(session, url, body()))[0] == 200

    assert urlsplit(url).hostname == "127.0.0.1"
    asyncio.run(once())
