"""The command of a simulated worker: a process of its own, which locks, waits, asks, says something, or does nothing at
all, by the real hand on the model disk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from bus.contract import Busy, WaitFile
from bus.errors import BusError
from bus.hand import FileHand, open_hand
from bus.outcomes import DONE, Outcomes
from bus.reader import open_reader
from bus.times import utc
from bus.wire import AttemptId, Message, TaskId
from conductor.testing.simulated.traffic import Waiting, Wanted

if TYPE_CHECKING:
    from conductor.testing.simulated.worker import SimulatedWorker
    from conductor.testing.simulated.world import Actor, World

T = TypeVar("T")
Pauses = Generator[float, None, T]
"""Seconds to wait between two steps, and what they come to."""

KEYS = ("src/a.py", "src/b.py", "src", "docs/x.md", "docs/*.md")
"""What is locked: few things, so that commands meet."""

FOREVER = 1e9


class SimulatedCommand:
    """What runs in one attempt. It may outlive its worker."""

    def __init__(self, world: World, worker: SimulatedWorker) -> None:
        self.attempt: AttemptId = worker.spec.attempt
        self.name = f"{self.attempt} command"
        self.process = world.process(self.name)
        self.wake_at = world.clock.mono
        self.code: int | None = None
        """Its exit code, once it has ended by itself."""
        self.moved_at = world.clock.mono
        """When it last printed something, or used the processor."""
        self._world = world
        self._worker = worker
        self._said = 0
        self._life = self._live()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return not self.process.dead

    def step(self) -> None:
        """Go on to the next pause, or to the end."""
        world = self._world
        pause = next(self._life, None)
        if pause is not None:
            self.wake_at = world.clock.mono + pause
            return
        self.code = 1 if world.random.random() < world.troubles.failure else 0
        self.kill()
        self._worker.wake_at = min(self._worker.wake_at, world.clock.mono)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self._world.traffic.ended(self.attempt, self._world.moment)

    def _live(self) -> Pauses[None]:
        random, crowded = self._world.random, self._world.talkative == 1.0
        for _ in range(random.choice((0, 1, 1, 2, 3)) + 4 * crowded):
            yield random.choice((0.0, 0.2, 1.0) if crowded else (0.0, 0.2, 1.0, 30.0))
            self.moved_at = self._world.clock.mono
            hand = attempted(lambda: open_hand(self._worker.spec.bus, self.attempt, fs=self.process))
            if hand is not None:
                yield from self._do(hand)
                succeeds(hand.close)

    def _do(self, hand: FileHand) -> Pauses[None]:
        odd = self._world.odd
        if odd.random() >= self._world.talkative:
            self._say_something(hand)
            return
        for _ in range(odd.choice((1, 1, 2, 3))):
            yield from odd.choice((self._lock, self._lock, self._lock, self._await, self._ask, self._hang))(hand)
            yield odd.choice((0.0, 1.0, 20.0))
        if odd.random() < 0.5:  # otherwise it leaves that to the end of its attempt
            self._give_back(hand)

    def _say_something(self, hand: FileHand) -> None:
        draw = self._world.random.random()
        if draw < 0.2:
            succeeds(lambda: hand.report_status({"progress_pct": 50}))
        elif draw < 0.4:
            report = self._message("REPORT", {"verb": "complete", "commit": "abc", "files": ["x"]})
            succeeds(lambda: hand.report(report))
        else:
            size = self._world.random.choice((1, 1, 100, 6000))
            self._said += 1  # no two payloads are alike: one could stand for another that was lost
            note = self._message("NOTE", {"text": f"{self._said} of {self.attempt}".ljust(size, ".")})
            if succeeds(lambda: hand.publish(note)):
                self._world.handed_in(self, note)

    def _message(self, type: str, payload: dict[str, object]) -> Message:
        world = self._world
        return Message(world.random.randbytes(16).hex(), type, self.attempt, utc(world.clock.wall), payload)

    # --- locks and waits --------------------------------------------------------------------------------------------

    def _lock(self, hand: FileHand) -> Pauses[None]:
        """Ask for locks, perhaps in exchange for others, and wait for them, perhaps not for ever."""
        odd = self._world.odd
        if odd.random() < 0.3:
            self._give_back(hand)
        wanted = tuple((key, odd.random() < 0.25) for key in odd.sample(KEYS, k=odd.choice((1, 1, 2, 3))))
        until = self._world.clock.mono + odd.choice((FOREVER, FOREVER, 40.0))
        yield from locked(self._world, self, hand, wanted, until)

    def _give_back(self, hand: FileHand) -> None:
        odd = self._world.odd
        keys = None if odd.random() < 0.7 else odd.sample(KEYS, k=2)
        self._world.traffic.gives_back(self.attempt, keys)
        if succeeds(lambda: hand.unlock(keys)):
            self._world.traffic.gave_back(self.attempt)

    def _await(self, hand: FileHand) -> Pauses[None]:
        """Wait for other tasks, until there is news of each of them."""
        world, odd = self._world, self._world.odd
        others = [spec.id for spec in world.plan.tasks if spec.id != self._worker.spec.task]
        if not others:
            return
        tasks = tuple(odd.sample(others, k=min(len(others), odd.choice((1, 1, 2)))))
        reader = attempted(lambda: open_reader(self._worker.spec.bus, fs=self.process))
        if reader is None:
            return
        outcomes = Outcomes(reader, tasks)
        world.traffic.waits[self.attempt] = Waiting("task", tasks=tasks)
        wait = attempted(lambda: hand.begin_wait("task", tasks))
        if wait is None:
            world.traffic.gives_up(self.attempt, world.moment)
            return
        world.say(self, f"waits for {', '.join(tasks)}")
        while not _is_over(outcomes, tasks):
            yield odd.choice((0.5, 5.0, 30.0))
        world.traffic.waits.pop(self.attempt, None)
        succeeds(partial(hand.end_wait, wait))
        succeeds(reader.close)

    def _ask(self, hand: FileHand) -> Pauses[None]:
        """Ask a person something, and wait for the answer."""
        world = self._world
        world.traffic.waits[self.attempt] = Waiting("question")
        wait = attempted(lambda: hand.begin_wait("question", text=f"what now, {self.name}?"))
        if wait is not None:
            world.say(self, f"asks {wait.id}")
            while (answer := attempted(lambda: hand.answer(wait.id))) is None:
                yield world.odd.choice((1.0, 20.0))
            world.answered(self, wait.id, answer)
            succeeds(partial(hand.end_wait, wait))
        world.traffic.waits.pop(self.attempt, None)

    def _hang(self, hand: FileHand) -> Pauses[None]:
        """Do nothing that anybody could see."""
        yield self._world.odd.choice((10.0, 300.0, 2000.0))
        self.moved_at = self._world.clock.mono


def locked(world: World, who: Actor, hand: FileHand, wanted: Wanted, until: float) -> Pauses[bool]:
    """Wait for locks on all of that, until some time; False where they were not granted."""
    attempt, traffic = hand.attempt, world.traffic
    traffic.waits[attempt] = Waiting("lock", wanted)
    place: tuple[WaitFile, ...] = ()
    while True:
        found = attempted(lambda: hand.try_lock(wanted, queue=True))
        if found is not None and not isinstance(found, Busy):
            traffic.granted(attempt, found)
            world.say(who, f"locks {_words(wanted)}")
            return True
        if found is not None:
            if not place:
                world.say(who, f"waits for {_words(wanted)}, behind {', '.join(found.holders)}")
            place = found.waits
            traffic.waits[attempt] = Waiting("lock", wanted, place=place[0].ticket)
        if world.clock.mono >= until:
            break
        yield world.odd.choice((0.1, 1.0, 10.0))
    world.say(who, "waits no longer")
    traffic.gives_up(attempt, world.moment)
    for wait in place:
        succeeds(partial(hand.end_wait, wait))
    return False


def _is_over(outcomes: Outcomes, tasks: Collection[TaskId]) -> bool:
    """Tell whether there is news of all tasks, or that one of them will never be done; also where nobody can tell: the
    plan has no such task, or the journal is damaged."""
    try:
        found = outcomes.look()
    except BusError:
        return True
    except OSError:
        return False
    return len(found) == len(tasks) or any(outcome.word != DONE for outcome in found.values())


def _words(wanted: Wanted) -> str:
    return ", ".join(f"{key}{' (shared)' if shared else ''}" for key, shared in wanted)


def attempted(call: Callable[[], T]) -> T | None:
    """What a command does is worth no waiting for the disk; None where it could not be done."""
    try:
        return call()
    except (OSError, BusError):
        return None


def succeeds(call: Callable[[], object]) -> bool:
    """As `attempted`, for what returns nothing."""
    return attempted(lambda: (call(),)) is not None
