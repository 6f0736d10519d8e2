"""Joining Ray: one started here for the run, or the cluster at an address; and what that cluster's nodes lack.

Hides how Ray tells what is wrong, and that it would wait minutes before it does.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import ray
import ray._private.worker
import structlog
from ray import cloudpickle
from ray.exceptions import AuthenticationError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from judges import Judge
from runner.config import RunConfig
from runner.errors import InputError, Interrupted
from runner.scheduling.cluster_address import check_reachable, unused_environment

from .preflight import check_ray_version, own_source

OBJECT_STORE_BYTES = 256 * 2**20
"""Shards pass through it a few at a time; outcomes do not. Ray's default is 30 % of the machine's memory."""
INSPECTION_S = 90.0
"""How long a node may take to answer: it starts a process for that."""
NO_ANSWER = "no answer"
"""How the problem begins of a node that has told nothing: it may yet."""
AUTH_MODE = "RAY_AUTH_MODE"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster that is alive."""

    id: str
    name: str
    """As people know it."""
    cpus: float


def alive_nodes() -> list[Node]:
    """The nodes of the joined cluster."""
    entries: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [
        Node(
            entry["NodeID"],
            f"{entry['NodeManagerHostname']} ({entry['NodeManagerAddress']}, Ray node {entry['NodeID'][:8]})",
            entry["Resources"].get("CPU", 0.0),
        )
        for entry in entries
        if entry["Alive"]
    ]


def join(cpus: int, address: str | None) -> None:
    """Start Ray with so many CPUs, or join the cluster at `address`. InputError says why not."""
    check_ray_version(ray.__version__)
    if address is not None:
        check_reachable(address)
    # Ray takes SIGTERM for itself; the handler of before is put back.
    before = signal.getsignal(signal.SIGTERM)
    # Ray tells of workers that died on stdout, where only the result belongs, whatever `log_to_driver` says.
    ray._private.worker._worker_logs_enabled = False
    where = "Ray could not be started" if address is None else f"address {address}"
    try:
        if address is None:
            _start_local(cpus)
        else:
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except AuthenticationError as error:
        raise InputError(f"{where}: {_explain_token(error)}") from None
    except Exception as error:
        # A bare Exception is what Ray raises where its processes are not up within half a minute.
        if type(error) is not Exception and not isinstance(error, OSError | RayError | RuntimeError | ValueError):
            raise
        raise InputError(f"{where}: {error}") from None
    except SystemExit as left:
        if left.code != signal.SIGTERM:
            raise
        # Its handler for the time of its start.
        raise Interrupted("interrupted by SIGTERM; nothing was started") from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
        if not ray.is_initialized():
            leave()


def leave() -> None:
    """End Ray as this process holds it."""
    ray.shutdown()
    ray._private.worker._worker_logs_enabled = True


def missing_resources(config: RunConfig, judges: Sequence[Judge], nodes: Iterable[Node]) -> dict[Node, list[str]]:
    """What is not right on those nodes, in words. One without a CPU only needs the code: it may hold the aggregator.

    A node that is lost meanwhile has no problem: nothing will be there.
    """
    judging = cloudpickle.dumps((config, list(judges)))  # type: ignore[no-untyped-call]
    inspection = ray.remote(_make_inspection())
    tasks = {}
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node.id, soft=False)
        task = inspection.options(num_cpus=0, max_retries=0, scheduling_strategy=there)
        tasks[task.remote(own_source(), judging if node.cpus >= 1 else b"")] = node
    done, silent = ray.wait(list(tasks), num_returns=len(tasks), timeout=INSPECTION_S)
    problems = {tasks[ref]: _read_problems(ref) for ref in done}
    problems |= {tasks[ref]: [f"{NO_ANSWER} within {INSPECTION_S:g} s"] for ref in silent}
    alive = {node.id for node in alive_nodes()}
    return {node: words for node, words in problems.items() if words and node.id in alive}


def _start_local(cpus: int) -> None:
    if os.environ.get(AUTH_MODE, "token").lower() != "token":
        raise ValueError(
            f"{AUTH_MODE}={os.environ[AUTH_MODE]} would let whoever reaches this machine's ports run code on it; "
            "unset it, or judge with --local"
        )
    if (unused := unused_environment()) is not None:
        log.warning(unused)
    ray.init(
        address="local", num_cpus=cpus, num_gpus=0, include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES,
        logging_level=logging.ERROR, log_to_driver=False,
    )  # fmt: skip


def _explain_token(error: AuthenticationError) -> str:
    if os.environ.get(AUTH_MODE, "").lower() == "token":
        return f"the cluster refuses the token of this process: {error.message.splitlines()[0]}"
    return f"the cluster asks for a token; set {AUTH_MODE}=token, with its token in ~/.ray/auth_token or RAY_AUTH_TOKEN"


def _read_problems(ref: Any) -> list[str]:
    try:
        problems: list[str] = ray.get(ref)
    except RayTaskError as error:
        return [f"jurybox cannot be run: {str(error.cause).strip().splitlines()[-1]}"]
    except RayError as error:
        return [f"{NO_ANSWER}: {str(error).strip().splitlines()[0]}"]
    return problems


def _make_inspection() -> Callable[[str, bytes], list[str]]:
    # Inside a function, so that it travels as code: a node where jurybox cannot be imported is to say so itself.
    def inspect(source: str, judging: bytes) -> list[str]:
        try:
            from .preflight import inspect_node
        except Exception as error:
            return [f"jurybox cannot be imported: {type(error).__name__}: {error}"]
        return inspect_node(source, judging)

    return inspect
