"""Endpoints that go away and come back, that take less than they are asked, and replies without an end.

Each is counted from outside: by the endpoint's own log, or by who connects in its stead.
"""

from __future__ import annotations

import http.server
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from runs import ROOT, Workspace, ended_with_test, finish, items, log_of, model, stats, until

from runner.endpoint.circuit_breaker import OPEN_AFTER
from runner.simulate import Simulation, running

PLACES = 12
RETRY = {"attempts": 2, "max_outage": "10m"}


class Counted:
    """When something arrived."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._lock = threading.Lock()

    def one(self) -> int:
        with self._lock:
            self.times.append(time.monotonic())
            return len(self.times)

    def are_seldom(self) -> bool:
        """Whether the last ones came as far apart as probes do."""
        with self._lock:
            return len(self.times) > 2 and self.times[-1] - self.times[-2] > 1.5

    def assert_only_probes_after_opening(self) -> None:
        """What was in flight, what it took to open the breaker, the probe that shows whose fault it is, and turns.

        Good replies that were on their way when it began may have made the count of failures begin again.
        """
        turns = math.log2(self.times[-1] - self.times[0] + 2)
        assert len(self.times) <= 2 * PLACES + OPEN_AFTER + 1 + turns, self.times


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    work = Workspace(tmp_path)
    work.write_items(items(range(100)))
    return work


def assert_unharmed(work: Workspace, trials: int) -> None:
    work.assert_each_trial_judged_once(trials)
    assert work.query("SELECT state, count(*) FROM judgments GROUP BY state") == [("scored", trials)]


@contextmanager
def simulated(port: int) -> Iterator[subprocess.Popen[str]]:
    """The simulated endpoint as its command starts it; it may be killed."""
    command = [sys.executable, "-m", "runner", "simulate", "--port", str(port), "--latency-ms", "150"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("serving ")
            yield process
        finally:
            process.kill()


@contextmanager
def hanging_up(port: int) -> Iterator[Counted]:
    """Nobody is there: who connects is hung up on, and counted."""
    counted = Counted()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(512)
        listener.settimeout(0.05)
        ended = threading.Event()

        def hang_up() -> None:
            while not ended.is_set():
                with suppress(TimeoutError):
                    connection, _ = listener.accept()
                    counted.one()
                    # Reset it, rather than end it in good order.
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        try:
            yield counted
        finally:
            ended.set()
            thread.join()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.mark.long
def test_an_endpoint_that_dies_and_comes_back_costs_probes_and_nothing_else(work: Workspace) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    work.write_config(model(url, limits={"in_flight": PLACES}), retry=RETRY)
    command = ("run", str(work.config), "--local", "--yes", "--json", "--quiet")
    with simulated(port) as endpoint, ended_with_test(work.start(*command)) as process:
        until(lambda: stats(url)["requests"] >= 3 * PLACES, process)
        endpoint.send_signal(signal.SIGKILL)
        endpoint.wait()
        with hanging_up(port) as counted:
            until(counted.are_seldom, process)
        with simulated(port):
            done = finish(process)
    counted.assert_only_probes_after_opening()
    assert done.status == 0, done.stderr
    assert_unharmed(work, 200)


class Endpoint(http.server.ThreadingHTTPServer):
    """A small endpoint in this process, whose answer a test decides on."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, answer: Callable[[str], tuple[int, str] | None]) -> None:
        """`answer`: prompt → status and text; None: a reply that drips for ever, a byte now and then."""
        self.answer = answer
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients may go away when they like."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = self.server.answer(body["messages"][-1]["content"])
        if answer is None:
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            while True:
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.05)
        status, text = answer
        message = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop", "index": 0}
        data = json.dumps({"choices": [message]} if status == 200 else {"error": {"message": text}}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def answering(answer: Callable[[str], tuple[int, str] | None]) -> Iterator[str]:
    with Endpoint(answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()


def number(prompt: str) -> int:
    """Which question a prompt asks; -1 for one that asks none."""
    found = re.search(r"harbour (\d+)", prompt)
    return int(found[1]) if found else -1


def test_an_outage_of_503_uses_up_no_attempts(work: Workspace) -> None:
    arrived, in_outage, away, back = Counted(), Counted(), threading.Event(), threading.Event()

    def answer(prompt: str) -> tuple[int, str]:
        if arrived.one() > 3 * PLACES:
            away.set()
        if away.is_set() and not back.is_set():
            in_outage.one()
            return 503, "back soon"
        return 200, "Yes"

    with answering(answer) as url:
        work.write_config(model(url, limits={"in_flight": PLACES}), retry=RETRY)
        command = ("run", str(work.config), "--local", "--yes", "--json", "--quiet")
        with ended_with_test(work.start(*command)) as process:
            until(in_outage.are_seldom, process)
            back.set()
            done = finish(process)
    in_outage.assert_only_probes_after_opening()
    assert done.status == 0, done.stderr
    assert_unharmed(work, 200)


def test_poison_alone_at_the_end_of_a_run_is_no_outage(work: Workspace) -> None:
    """Twenty requests that always get 500, all in flight at once, and nothing else is left to succeed."""
    work.write_items(items(range(20), systems=["atlas"]))
    with answering(lambda prompt: (200, "Yes") if number(prompt) < 0 else (500, "it hurts")) as url:
        work.write_config(model(url), retry={"attempts": 1, "max_outage": "5s"})
        ended = work.run()
    assert ended.status == 3, ended.stderr
    assert work.query("SELECT state, reason, count(*) FROM judgments GROUP BY 1, 2") == [("failed", "exhausted", 20)]


def test_replies_that_drip_or_never_end_fail_their_own_trials_only(work: Workspace) -> None:
    work.write_items(items(range(12), systems=["atlas"]))

    def answer(prompt: str) -> tuple[int, str] | None:
        if number(prompt) == 4:
            return None
        return 200, "Yes" * (2**23 if number(prompt) == 7 else 1)

    with answering(answer) as url:
        work.write_config(model(url, timeout_s=1), retry={"attempts": 1})
        ended = work.run()
    assert ended.status == 3, ended.stderr
    failed = dict(work.query("SELECT state, count(*) FROM judgments GROUP BY state"))
    assert failed == {"scored": 10, "failed": 2}
    errors = {error for (error,) in work.query("SELECT DISTINCT error FROM attempts WHERE error IS NOT NULL")}
    assert any(error.startswith("timeout: no whole reply within 1 s") for error in errors), errors
    assert any(error.startswith("bad_reply: the reply is longer than") for error in errors), errors


def test_a_403_about_one_item_is_that_items_own(work: Workspace) -> None:
    """A firewall takes offence at what two answers hold; the key is as good as ever."""
    work.write_items(items(range(30), systems=["atlas"]))
    with answering(lambda prompt: (403, "blocked by policy") if number(prompt) in (0, 17) else (200, "Yes")) as url:
        work.write_config(model(url))
        ended = work.run()
    assert ended.status == 3, ended.stderr
    assert work.query("SELECT state, reason, count(*) FROM judgments GROUP BY 1, 2 ORDER BY 1") == [
        ("failed", "forbidden", 2),
        ("scored", None, 28),
    ]


def test_a_403_about_the_key_stops_the_account_after_a_handful_of_calls(work: Workspace) -> None:
    counted = Counted()

    def answer(prompt: str) -> tuple[int, str]:
        # It works at first, and is taken back.
        return (200, "Yes") if counted.one() <= 50 else (403, "this key may not")

    with answering(answer) as url:
        work.write_config(model(url, limits={"in_flight": 4}))
        ended = work.run()
    assert ended.status == 5, ended.stderr
    assert "this key may not" in ended.stderr
    # What was in flight, what went out before the second of them had come, and the probe that made sure.
    assert len(counted.times) <= 50 + 2 * 4
    assert ended.report["done"] == 50


def test_a_401_between_good_replies_stops_nothing(work: Workspace) -> None:
    counted = Counted()

    def answer(prompt: str) -> tuple[int, str]:
        # Probes are left out of the count: how many of them come depends on the machine's load.
        return (401, "who?") if number(prompt) >= 0 and counted.one() in (40, 41, 90) else (200, "Yes")

    with answering(answer) as url:
        work.write_config(model(url, limits={"in_flight": 4}))
        ended = work.run()
    assert ended.status == 0, ended.stderr
    assert_unharmed(work, 200)


def test_a_storm_of_429_ends_where_the_endpoints_own_limit_is(work: Workspace) -> None:
    """The config allows far more than the endpoint does; two judges share the account."""
    rows = items(range(240), systems=["atlas"])
    work.write_items(rows)
    places, per_s = 64, 50
    simulation = Simulation(latency_ms=60, rpm=60 * per_s, log=work.folder / "log")
    with running(simulation) as url:
        work.write_config(model(url, limits={"in_flight": places}), judges=["yes-no", "score-0-5"])
        done = work.run()
        assert done.status == 0, done.stderr
        stats(url)
    assert_unharmed(work, 2 * len(rows))
    log = sorted(log_of(work.folder / "log"), key=lambda entry: entry["time"])
    later = log[len(log) // 2 :]
    assert sum(entry["status"] == 200 for entry in later) >= 0.9 * len(later)
    # A few waves before the workers have their new leases, and no more than now and then one after that.
    assert sum(entry["status"] == 429 for entry in log) <= 4 * places
    # None is put off again and again in favour of others.
    times = Counter(entry["prompt"] for entry in log if entry["status"] == 429)
    assert max(times.values(), default=0) <= 8


@pytest.mark.long
def test_single_429s_hold_up_their_own_requests_only(work: Workspace) -> None:
    simulation = Simulation(throttled=0.08, retry_after_s=2.0, latency_ms=20, log=work.folder / "log")
    with running(simulation) as url:
        work.write_config(model(url, limits={"in_flight": 8}))
        done = work.run()
        assert done.status == 0, done.stderr
        stats(url)
    assert_unharmed(work, 200)
    log = sorted(log_of(work.folder / "log"), key=lambda entry: entry["time"])
    throttled = [entry["time"] for entry in log if entry["status"] == 429]
    assert len(throttled) >= 5
    # After most of them others are asked at once, not when the two seconds are over.
    meanwhile = [any(at < entry["time"] < at + 1.8 for entry in log) for at in throttled[:-2]]
    assert sum(meanwhile) >= 0.7 * len(meanwhile)


def test_an_endpoint_that_answers_nothing_but_429s_ends_the_run_for_itself_alone(work: Workspace) -> None:
    rows = items(range(20), systems=["atlas"])
    work.write_items(rows)
    storm = Simulation(throttled=1.0, max_faults_in_a_row=None, retry_after_s=600.0)
    with running(storm) as busy, running() as fine:
        work.write_config(model(busy, "busy"), model(fine, "fine"), retry={"attempts": 1, "max_outage": "2s"})
        stopped = work.run()
        assert stopped.status == 4, stopped.stderr
        words = "answered nothing but 429s for 2s (throttled: HTTP 429: Rate limit reached., Retry-After 600 s)"
        assert f"busy: {busy} {words}" in stopped.stderr
        assert work.query("SELECT state, count(*) FROM judgments GROUP BY state") == [("scored", len(rows))]
        assert work.query("SELECT count(*) FROM pending") == [(0,)]
        done = work.run("--set", f"models.0.base_url={fine}")
        assert done.status == 0, done.stderr
    assert_unharmed(work, 2 * len(rows))


def test_a_wrong_key_costs_a_handful_of_calls_however_many_may_be_in_flight(work: Workspace) -> None:
    with running(Simulation(api_key="another", latency_ms=50)) as url:
        work.write_config(model(url, limits={"in_flight": 256}))
        ended = work.run()
        assert ended.status == 5, ended.stderr
        assert "Incorrect API key provided" in ended.stderr
        assert stats(url)["requests"] <= 4
