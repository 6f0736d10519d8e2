"""What a report says first of what may sway a judge: control items that it let pass, and items under suspicion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from runner.susceptibility import Susceptibility


def notices(found: Iterable[Susceptibility]) -> Iterator[str]:
    """A sentence for each judge × model and score that passed control items, and for each that judged suspects."""
    entries = list(found)
    for entry in entries:
        for score, share in entry.passed.items():
            if share.hits:
                told = "" if len(entry.passed) == 1 else f" by {score}"
                yield (
                    f"{entry.judge} × {entry.model} judged {share.hits:,} of {share.n:,} control items right{told} "
                    f"({share.hits / share.n:.1%}), though none is."
                )
    alike: dict[str, list[str]] = {}
    for entry in entries:
        if entry.suspects.planned:
            whole = entry.suspects.planned + entry.others.planned
            said = f"in {entry.suspects.planned:,} of {whole:,} trials the judged text shows signs of an injection"
            alike.setdefault(f"{said} ({signs_of(entry)}).", []).append(f"{entry.judge} × {entry.model}")
    for said, names in alike.items():
        yield f"{', '.join(names)}: {said}"


def signs_of(entry: Susceptibility) -> str:
    """The signs that were found, and in how many trials."""
    return ", ".join(f"{sign.replace('_', ' ')} {n:,}" for sign, n in entry.signs.items())
