"""Which trials of a shard share a request, and how a request is halved that brought no verdict. Pure.

The composition depends on the shard's rows alone, never on what is done already: a resume asks what is missing in the
neighbourhood that it had. So no composition is stored; a waiting trial knows only how often its batch was halved.
"""

import hashlib
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

_Entry = TypeVar("_Entry")


@dataclass(frozen=True, slots=True)
class Member:
    """A trial to be put into a batch."""

    position: int
    identity: str
    """What the shuffle goes by, so that moving a row about in its shard does not change its neighbours."""
    question_id: str
    template: str
    alone: bool
    """Whether it must have no neighbours."""


def compose_batches(members: Iterable[Member], size: int, salt: str) -> list[tuple[int, ...]]:
    """Batches of at most `size` positions, shuffled by `salt`, in none of them two answers to one question.

    Full batches as far as the questions allow: each takes from the questions of which most answers are left.
    """
    ranked = sorted(members, key=lambda member: _rank(salt, member.identity))
    order = {member.position: place for place, member in enumerate(ranked)}
    batches: list[tuple[int, ...]] = [(member.position,) for member in ranked if member.alone]
    for template in sorted({member.template for member in ranked}):
        questions: dict[str, list[int]] = {}
        for member in ranked:
            if member.template == template and not member.alone:
                questions.setdefault(member.question_id, []).append(member.position)
        # Of a question's answers the first of the shuffle goes first; `pop` takes from the end.
        heap = [(-len(held), order[held[0]], held[::-1]) for held in questions.values()]
        heapq.heapify(heap)
        while heap:
            taken = [heapq.heappop(heap)[2] for _ in range(min(size, len(heap)))]
            batches.append(tuple(sorted((held.pop() for held in taken), key=order.__getitem__)))
            for held in taken:
                if held:
                    heapq.heappush(heap, (-len(held), order[held[-1]], held))
    return batches


def split(batch: Sequence[int], depth: int) -> list[Sequence[int]]:
    """The parts of a batch that was halved `depth` times; what holds one trial only stays whole."""
    parts = [batch]
    for _ in range(depth):
        parts = [half for part in parts for half in halve(part) if half]
    return parts


def halve(part: Sequence[_Entry]) -> tuple[Sequence[_Entry], Sequence[_Entry]]:
    """The two halves, of which the first may be longer."""
    middle = (len(part) + 1) // 2
    return part[:middle], part[middle:]


def _rank(salt: str, identity: str) -> bytes:
    return hashlib.blake2b(identity.encode(), key=hashlib.blake2b(salt.encode(), digest_size=32).digest()).digest()
