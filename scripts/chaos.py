"""Real jobs whose processes are killed at moments drawn from a seed: `python scripts/chaos.py --seeds 0-99`.

Each seed is a job of 2,000 trials against the simulated endpoint, whose driver, workers, aggregator and nodes die or
are interrupted, and which the same command takes up again until it is complete. Then it must be as if nothing had
happened: see tests/disturbed/checks.py. A sweep that was stopped goes on with the seeds that it lacks.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT))

from disturbed.plan import TRIALS  # noqa: E402
from disturbed.sweep import Sweep, table  # noqa: E402


def seeds(text: str) -> list[int]:
    """`0-99`, `7`, or `1,3,8-9`."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def main() -> int:
    """The command line; its status is 1 where an invariant is broken."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=seeds, default=seeds("0-99"), help="such as 0-99 or 7 or 1,3,8-9")
    parser.add_argument("--trials", type=int, default=TRIALS, help="of each job, a multiple of 40")
    parser.add_argument("--folder", type=Path, default=Path("chaos"), help="results, and the folders of failed seeds")
    parser.add_argument("--again", action="store_true", help="also the seeds that have a result")
    parser.add_argument("--plan", action="store_true", help="only say what would be done")
    arguments = parser.parse_args()
    with Sweep(arguments.folder.resolve(), arguments.trials) as sweep:
        for seed in arguments.seeds:
            if arguments.plan:
                planned = sweep.plan(seed)
                how = f"{planned.place}, {planned.job}{', publishes' if planned.publishes else ''}"
                say(f"seed {seed}: {how}: " + "; ".join(map(str, planned.disturbances)))
            elif arguments.again or seed not in sweep.results():
                result = sweep.run(seed)
                done = " ".join(f"{kind}×{times}" for kind, times in sorted(result.get("kinds", {}).items()))
                say(
                    f"seed {seed}: {result['place']}, {result['job']}, {result['seconds']} s, {result.get('starts')} "
                    f"starts, {done or 'undisturbed'}, again {result.get('again')}, in flight {result.get('in_flight')}"
                )
                if result["wrong"]:
                    say("  WRONG: " + "\n  ".join(result["wrong"]))
                    say(f"  its folder is kept; once more: {sys.executable} scripts/chaos.py --seeds {seed} --again "
                        f"--trials {arguments.trials} --folder {arguments.folder}")  # fmt: skip
        results = [result for seed, result in sweep.results().items() if seed in arguments.seeds]
        if results:
            say("\n".join(table(results)))
        return int(any(result["wrong"] for result in results))


def say(text: str) -> None:
    """A line for whoever waits."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
