"""Makes rows for `jurybox simulate --replay` out of a config's items and one of their labels, on stdout.

python scripts/replay.py configs/longmemeval.yaml --label correct --set items.path=… > rows.jsonl

The endpoint then answers as the labels say: what a run reports is known beforehand.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from runner.config import load_config
from runner.session import load_judges
from runner.stage import stage

ROWS = 2_000


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--label", required=True, help="the bool label that becomes the reply")
    parser.add_argument("--set", action="append", dest="overrides", metavar="A.B=VALUE", help="as in jurybox run")
    arguments = parser.parse_args()
    config = load_config(arguments.config, arguments.overrides)
    if arguments.label not in config.items.labels:
        parser.error(f"--label {arguments.label}: items.labels of the config has {', '.join(config.items.labels)}")
    base = arguments.config.resolve().parent
    with tempfile.TemporaryDirectory() as scratch:
        staged = stage(config, load_judges(config, base), base, Path(scratch) / "items")
        for first in range(0, staged.rows, ROWS):
            for fields, labels in staged.frame(first, ROWS, ["fields", "labels"]).iter_rows():
                item, label = json.loads(fields), json.loads(labels).get(arguments.label)
                if label is None:
                    continue
                row = {name: item.get(name) for name in ("question", "response", "reference")}
                sys.stdout.write(json.dumps(row | {"reply": label}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
