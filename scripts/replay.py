"""Makes rows for `jurybox simulate --replay` out of a config's items and one of their labels, on stdout.

python scripts/replay.py configs/longmemeval.yaml --label correct --set items.path=… > rows.jsonl
python scripts/replay.py configs/correctness.yaml --label correct --map true=4 --map false=1 > rows.jsonl

The endpoint then answers as the labels say: what a run reports is known beforehand. A label that is true or false
becomes whatever says so in the form that a prompt asks for, on a scale its ends; a number becomes that score, a text
that reply. --map puts another reply in a label's place.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from runner.config import load_config
from runner.dataset import stage
from runner.session.session import load_judges

ROWS = 2_000


def replies(options: list[str]) -> dict[str, Any]:
    """Label as JSON writes it → the reply in its place, out of LABEL=REPLY options; a reply may be JSON, or is text."""
    found: dict[str, Any] = {}
    for option in options:
        label, equals, reply = option.partition("=")
        if not equals:
            raise SystemExit(f"--map {option}: must look like true=5")
        try:
            found[label] = json.loads(reply)
        except ValueError:
            found[label] = reply
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--label", required=True, help="the label that becomes the reply")
    parser.add_argument(
        "--map", action="append", default=[], metavar="LABEL=REPLY", help="the reply for a label's value"
    )
    parser.add_argument(
        "--set", action="append", default=[], dest="overrides", metavar="A.B=VALUE", help="as in jurybox run"
    )
    arguments = parser.parse_args()
    config = load_config(arguments.config, arguments.overrides)
    if arguments.label not in config.items.labels:
        parser.error(f"--label {arguments.label}: items.labels of the config has {', '.join(config.items.labels)}")
    mapped = replies(arguments.map)
    base = arguments.config.resolve().parent
    with tempfile.TemporaryDirectory() as scratch:
        staged = stage(config, load_judges(config, base), base, Path(scratch) / "items")
        for first in range(0, staged.rows, ROWS):
            for fields, labels in staged.frame(first, ROWS, ["fields", "labels"]).iter_rows():
                item, label = json.loads(fields), json.loads(labels).get(arguments.label)
                if label is None:
                    continue
                reply = mapped.get(label if isinstance(label, str) else json.dumps(label), label)
                row = {name: item.get(name) for name in ("question", "response", "reference")}
                sys.stdout.write(json.dumps(row | {"reply": reply}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
