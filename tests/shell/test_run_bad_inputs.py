"""Inputs that are damaged in every way: told with file and line before anything is paid, or left out and listed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from runs import Workspace, items, model, stats

from runner.simulate import running

WHOLE = items(range(3), systems=["atlas"])


def line(number: int, **changes: object) -> bytes:
    """A sound line, but for the changes."""
    [row] = items([number], systems=["brook"])
    return json.dumps(row | changes).encode() + b"\n"


def cut_gzip(path: Path) -> None:
    # Digits of a square, so that it does not shrink to less than a block of the file.
    many = b"".join(line(number, response=str(number**97)) for number in range(100, 2000))
    whole = gzip.compress(many)
    path.with_suffix(".jsonl.gz").write_bytes(whole[: len(whole) // 2])


def bad_json(path: Path) -> None:
    path.write_bytes(line(10) + b'{"id": "q11", "question": \n' + line(12))


def bad_utf8(path: Path) -> None:
    path.write_bytes(line(20) + line(21).replace(b"harbour", b"harb\xffour") + line(22))


def nul(path: Path) -> None:
    path.write_bytes(line(30) + line(31).replace(b"harbour", b"harb\0our") + line(32))


def long_line(path: Path) -> None:
    with path.open("wb") as file:
        file.write(line(40))
        file.write(line(41, response="x" * 100_000_000))
        file.write(line(42))


def missing_field(path: Path) -> None:
    [row] = items([51], systems=["brook"])
    del row["reference"]
    path.write_bytes(line(50) + json.dumps(row).encode() + b"\n" + line(52))


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "a cut gzip": (cut_gzip, "damaged file"),
    "bad JSON": (bad_json, ":2: not JSON"),
    "bad UTF-8": (bad_utf8, ":2: not UTF-8 at byte"),
    "a NUL": (nul, ":2: not JSON"),
    "a line of 100 MB": (long_line, ":2: the line is longer than 67,108,864 bytes"),
    "a missing field": (missing_field, ":2: q51-brook: "),
}


def test_damaged_inputs_stop_a_run_before_it_pays_or_are_left_out(tmp_path: Path) -> None:
    work = Workspace(tmp_path)
    work.write_items(WHOLE)
    for number, (damage, _) in enumerate(DAMAGE.values()):
        damage(tmp_path / f"damaged-{number}.jsonl")
    paths = ["items.jsonl", "damaged-*.jsonl", "damaged-*.jsonl.gz"]
    with running() as url:
        work.write_config(model(url), items={"path": paths})
        refused = work.run()
        assert refused.status == 2
        assert "6 bad rows; nothing was asked" in refused.stderr
        for number, (_, told) in enumerate(DAMAGE.values()):
            [said] = [
                text for text in refused.stderr.splitlines() if f"damaged-{number}.jsonl" in text and text[:2] == "  "
            ]
            assert told in said
        assert stats(url)["requests"] == 0

        skipped = work.run("--set", "items.on_bad=skip")
        assert skipped.status == 0, skipped.stderr
        rejects = [json.loads(text) for text in (work.out / "items" / "_rejects.jsonl").read_text().splitlines()]
        assert {Path(reject["file"]).name.split(".")[0] for reject in rejects} == {f"damaged-{n}" for n in range(6)}
        assert skipped.report["items"]["rejects"] == 6
        assert any("6 input rows were rejected" in notice for notice in skipped.report["notices"])
        # Of every file, the cut one too, all that is whole is judged.
        planned = skipped.report["planned"]
        assert len(WHOLE) + 5 * 2 < planned < len(WHOLE) + 5 * 2 + 1900
        assert stats(url)["requests"] == planned


@pytest.mark.parametrize("name", DAMAGE)
def test_each_damage_alone_names_its_file(tmp_path: Path, name: str) -> None:
    from runner.config import parse_config
    from runner.errors import ItemError
    from runner.session.planning import plan_run
    from runner.session.session import Session

    damage, told = DAMAGE[name]
    damage(tmp_path / "damaged.jsonl")
    config = {
        "name": "n",
        "items": {"path": "damaged.jsonl*"},
        "judges": ["yes-no"],
        "models": [model("http://127.0.0.1:9")],
    }
    with Session(parse_config(config), tmp_path, tmp_path / "run") as session, pytest.raises(ItemError) as caught:
        plan_run(session)
    assert "1 bad row; nothing was asked" in caught.value.message
    assert "damaged.jsonl" in caught.value.message
    assert told in caught.value.message
