"""What a storm's conductors achieved, from the records of their epochs."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from killer import Life

from bus.wire import Record


@dataclass(frozen=True, slots=True)
class Figures:
    """Numbers of a storm."""

    lives: int
    recorded: int
    """Records of the storm."""
    least: int
    """Fewest records of a conductor that was killed."""
    median: float
    idle: int
    """Killed conductors that recorded nothing."""
    restart: tuple[float, float]
    """Seconds from the start of a conductor to its first record: median and longest."""
    ends: Mapping[str, int]
    """Verdicts on attempts."""
    descriptors: int


def measure(lives: Sequence[Life], journal: Sequence[Record]) -> Figures:
    """Match records with lives by the clock that both use."""
    counts, restarts = [], []
    index = 0
    for life in lives:
        first, count = None, 0
        while index < len(journal) and journal[index].t.mono <= life.ended:
            first = first if first is not None else journal[index].t.mono
            count += 1
            index += 1
        counts.append(count)
        if first is not None:
            restarts.append(first - life.began)
    killed = counts[:-1] or counts
    verdicts = [record.payload["error_class"] or "success" for record in journal if record.type == "ATTEMPT_ENDED"]
    return Figures(
        lives=len(lives),
        recorded=len(journal),
        least=min(killed),
        median=statistics.median(killed),
        idle=killed.count(0),
        restart=(statistics.median(restarts), max(restarts)),
        ends=dict(Counter(verdicts).most_common()),
        descriptors=max(life.descriptors for life in lives),
    )
