"""What goes wrong in a simulation, how often, and when: drawn from the seed, few enough that every run ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from bus import layout
from conductor.testing.disk import ModelProcess


class Trouble(Enum):
    """One thing that goes wrong at some system call of somebody."""

    KILL_CALLER = "whoever makes the call is killed"
    KILL_CONDUCTOR = "the conductor is killed"
    KILL_WORKER = "a worker is killed"
    HASTE = "a worker does all that it has left to do, while everybody else stands still"
    POWER_CUT = "the power is cut"
    PAUSE = "the conductor stands still, and another cannot start"
    USURP = "the conductor stands still, its lock file is deleted, another starts, the first wakes up"
    FULL_DISK = "the disk is full for a while"
    READ_ONLY = "the disk is read-only for a while"
    FAILED_SYNC = "a sync fails"
    CLOCK = "the wall clock is set wrong by up to ten years"
    DRAIN = "an operator lets the run end"
    STOP = "an operator stops the run"
    REPEAT = "a message that was taken in lies in the inbox once more"
    APPEND = "a foreign hand appends to the journal"
    BY_HAND = "somebody makes files where events, orders and messages are"
    FOLDER = "a folder of the bus is removed, or another one is put in its place"
    EDIT = "the plan is edited"


class Errand(Enum):
    """What an operator does while no conductor lives, with a verb that holds the track meanwhile."""

    STOP = "the run of a conductor that died is taken over to stop it"
    DRAIN = "the same, to let it end"
    RESET = "the track, or some of its tasks, are set back"
    PLAN = "the plan is edited before the next start"
    REPAIR = "the journal is damaged, and repaired"


RARE: tuple[tuple[Trouble | Errand, float], ...] = (
    (Trouble.APPEND, 0.1),
    (Trouble.BY_HAND, 0.1),
    (Trouble.FOLDER, 0.15),
    (Trouble.EDIT, 0.15),
    (Errand.STOP, 0.1),
    (Errand.DRAIN, 0.04),
    (Errand.RESET, 0.15),
    (Errand.PLAN, 0.15),
    (Errand.REPAIR, 0.15),
)
"""How likely each of these happens in a run. They are drawn apart from all else: where none of them happens, a seed
tells the story that it tells without them."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A trouble at a certain call."""

    trouble: Trouble
    process: str
    """Whose call: `conductor 1` is the first one, a worker is named after its attempt."""
    call: int
    """Its number, from 1; a later one where the trouble is not possible at this."""
    kind: str = ""
    """Which calls are counted: `append`, `names`, …; all, where it is empty."""


@dataclass(frozen=True, slots=True)
class Troubles:
    """How much goes wrong. As made, everything that may."""

    kinds: tuple[Trouble, ...] = tuple(kind for kind in Trouble if kind not in dict(RARE))
    most: int = 8
    """At most so many troubles in a run."""
    apart: int = 160
    """Calls between two of them, at most."""
    interleaving: tuple[int, ...] = (2, 8, 30)
    """Calls between two moments in which somebody else goes on in the middle of a call, on average; one is drawn."""
    planned: tuple[Planned, ...] = ()
    """What goes wrong, in this order; nothing else does then."""
    contained: float = 0.2
    """How likely a worker runs in a container of its own."""
    failure: float = 0.15
    """How likely a command fails."""
    talkative: tuple[float, ...] = (0.0, 0.0, 0.3, 0.9)
    """How likely a command locks, waits or asks when it does something; one of these is drawn."""
    crowded: float = 0.03
    """How likely all tasks run side by side, and do little but lock, wait and ask."""
    supervised: float = 0.3
    """How likely a run has gates, tasks for people, locks, effects, and limits."""
    whims: tuple[int, ...] = (0, 0, 2, 5)
    """Orders that an operator gives for no reason; one of these is drawn."""
    late: tuple[float, ...] = (0.0, 0.0, 0.4)
    """How likely a listing misses what is new; one of these is drawn."""
    rare: tuple[tuple[Trouble | Errand, float], ...] = RARE
    """How likely each of these happens beside those of `kinds`."""
    no_links: float = 0.08
    """How likely the disk has no hard links."""
    tiny: float = 0.15
    """How likely each pass keeps a snapshot, and kills are aimed at that."""


CALM = Troubles(
    kinds=(),
    failure=0.0,
    talkative=(0.0,),
    crowded=0.0,
    supervised=0.0,
    whims=(0,),
    late=(0.0,),
    rare=(),
    no_links=0.0,
    tiny=0.0,
)
"""Nothing goes wrong."""


THEMES = (
    {Trouble.KILL_CALLER, Trouble.KILL_CONDUCTOR},
    {Trouble.KILL_CALLER, Trouble.KILL_WORKER, Trouble.STOP},
    {Trouble.POWER_CUT},
    {Trouble.POWER_CUT, Trouble.FAILED_SYNC},
    {Trouble.USURP, Trouble.KILL_CONDUCTOR},
    {Trouble.FULL_DISK, Trouble.KILL_CALLER},
    {Trouble.REPEAT, Trouble.KILL_CONDUCTOR},
    {Trouble.HASTE, Trouble.KILL_CONDUCTOR},
)
"""Troubles that are worth meeting each other again and again."""

NOT_IN_PROCESS = frozenset({Trouble.POWER_CUT, Trouble.FAILED_SYNC})
"""What durability `process` promises nothing for."""


_OFTEN = ("append", "sync_data", "lock")
PLACES = ("", "", "", "write", "sync", "link", "rename", "unlink", *_OFTEN, *_OFTEN)
"""Calls at which a trouble may wait to happen; an empty one is any call. Most calls change nothing."""

SNAPSHOT = "a call by which a snapshot is kept"
TINY_PLACES = (*[SNAPSHOT] * 8, *PLACES)


def fits(place: str, call: str, process: ModelProcess) -> bool:
    """Tell whether a call is one of those that a trouble waits for."""
    if place == SNAPSHOT:
        return ".snapshot" in process.about or layout.parse_snapshot_name(process.about) is not None
    return place in ("", call)


@dataclass(slots=True)
class Fuse:
    """Counts calls down to the next trouble."""

    random: Random
    troubles: Troubles
    waiting: list[Trouble] = field(default_factory=list)
    left: int = 0
    place: str = ""
    planned: list[Planned] = field(default_factory=list)
    places: tuple[str, ...] = PLACES
    met: int = 0
    """Calls that the next planned trouble has counted."""

    def next(self, call: str, process: ModelProcess) -> Trouble | None:
        """Tell what goes wrong at this call; None where nothing does."""
        if self.planned:
            return self._planned_at(call, process)
        self.left -= 1
        if self.left > 0 or not self.waiting:
            return None
        if not fits(self.place, call, process) and self.left > -self.troubles.apart:
            return None
        self.left = self.random.randint(1, self.troubles.apart)
        self.place = self.random.choice(self.places)
        return self.waiting.pop()

    def _planned_at(self, call: str, process: ModelProcess) -> Trouble | None:
        first = self.planned[0]
        if process.name != first.process or first.kind not in ("", call):
            return None
        self.met += 1
        if self.met < first.call and (first.kind or process.calls < first.call):
            return None
        self.met = 0
        return self.planned.pop(0).trouble

    def add(self, odd: Random, kinds: Iterable[Trouble]) -> None:
        """Let these happen among the others."""
        for kind in kinds:
            self.waiting.insert(odd.randint(0, len(self.waiting)), kind)

    def aim(self, odd: Random) -> None:
        """Let some kill whoever is keeping a snapshot."""
        self.places = TINY_PLACES
        self.add(odd, odd.choices((Trouble.KILL_CALLER, Trouble.KILL_CONDUCTOR), k=4))

    def put_off(self, trouble: Trouble, process: ModelProcess) -> None:
        """It cannot happen at this call: soon."""
        if self.troubles.planned:
            self.planned.insert(0, Planned(trouble, process.name, process.calls + 1))
            return
        self.waiting.append(trouble)
        self.left, self.place = self.random.randint(1, 20), ""


def rarely(odd: Random, troubles: Troubles) -> list[Trouble | Errand]:
    """Draw what happens in one run of what is rare, each so often as it does."""
    found: list[Trouble | Errand] = []
    for kind, likely in troubles.rare:
        if odd.random() < likely:
            found += [kind] * odd.choice((1, 1, 2, 3))
    return found


def drawn(random: Random, troubles: Troubles, *, power: bool) -> Fuse:
    """Draw what goes wrong in one run: in every second one a theme, otherwise anything."""
    if troubles.planned:
        return Fuse(random, troubles, planned=list(troubles.planned))
    kinds = [kind for kind in troubles.kinds if power or kind not in NOT_IN_PROCESS]
    fewest, wanted = 0, set(kinds)
    if random.random() < 0.5:
        fewest, wanted = troubles.most // 2, random.choice(THEMES)
    theme = [kind for kind in kinds if kind in wanted] or kinds
    waiting = random.choices(theme, k=random.randint(fewest, troubles.most)) if theme else []
    return Fuse(random, troubles, waiting, random.randint(1, 2 * troubles.apart))
