"""A worker of the simulation: the real hand on the model disk, a command that is made up."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from bus.errors import AlreadyFinished, BusError, BusGone
from bus.hand import FileHand, open_hand, result_message
from bus.times import utc
from bus.wire import ExitRecord, Message, ProcRecord, WorkerSpec, to_json
from conductor.testing.disk import ModelProcess
from conductor.testing.plans import ending

if TYPE_CHECKING:
    from conductor.testing.simulated.world import World

RETRY = 0.5
"""Seconds between two tries to write what must be written."""


class SimulatedWorker:
    """The worker process of one attempt, and its command, which may outlive it."""

    def __init__(self, world: World, spec: WorkerSpec, process: ModelProcess, pid: int, delay: float) -> None:
        self.spec = spec
        self.process = process
        self.pid = pid
        self.contained = world.random.random() < world.troubles.contained
        """Whether it runs in a container: only the conductor that launched it sees its processes."""
        self.command_lives = False
        self.waits_for_disk = False
        """Whether it cannot write what it must."""
        self.told_to_stop = False
        """Whether TERM came."""
        self.wake_at = world.clock.mono + delay
        self._said = 0
        self._world = world
        self._life = self._live()

    @property
    def name(self) -> str:
        """Who it is, in the story."""
        return self.spec.attempt

    @property
    def alive(self) -> bool:
        """Whether the worker itself lives."""
        return not self.process.dead

    def step(self) -> None:
        """Go on to the next pause, or to the end."""
        pause = next(self._life, None)
        if pause is None:
            self._world.say(self, "ends")
            self._world.ends_in_peace(self, self.spec.attempt)
            self.process.kill()
        else:
            self.wake_at = self._world.clock.mono + pause

    def kill(self, *, command_too: bool) -> None:
        """End the worker at once, and its command, unless that is left alone. A container ends as a whole."""
        self.process.kill()
        self.command_lives = self.command_lives and not command_too and not self.contained

    def _live(self) -> Generator[float, None, None]:
        world, spec = self._world, self.spec
        try:
            hand = open_hand(spec.bus, spec.attempt, fs=self.process)
            if not (yield from self._claim(hand)):
                return
            why = "revoked" if hand.revoked() is not None else None
            if why is None and hand.newest_epoch() > spec.epoch:
                why = "stale_epoch"
            if why is None and world.random.random() < 0.03:
                why = "shortage: /bin/true: Resource temporarily unavailable"
            record = (yield from self._command(hand)) if why is None else ending("missing", why=why)
            yield from self._hand_in(hand, record)
            world.say(self, "has handed in its result")
            yield world.random.choice((0.0, 0.0, 0.1, 7.0))
        except (BusGone, FileNotFoundError):
            world.say(self, "finds no bus")

    def _claim(self, hand: FileHand) -> Generator[float, None, bool]:
        proc = ProcRecord(self._world.clock.boot, self.pid, 1, self.spec.epoch)
        while True:
            try:
                return hand.claim(proc)
            except (BusGone, FileNotFoundError):
                raise
            except (OSError, BusError):
                yield from self._wait_for_disk()

    def _wait_for_disk(self) -> Generator[float, None, None]:
        self.waits_for_disk = True
        yield RETRY
        self.waits_for_disk = False

    def _command(self, hand: FileHand) -> Generator[float, None, ExitRecord]:
        """Run the command: it takes a while, says something now and then, and ends well or not."""
        world = self._world
        world.command_starts(self)
        self.command_lives = True
        self._try(lambda: hand.started(self.pid + 1, 1, self.pid))
        stubborn = world.random.random() < 0.15
        for _ in range(world.random.choice((0, 1, 1, 2, 3))):
            yield world.random.choice((0.0, 0.2, 1.0, 30.0))
            reason = hand.revoked() or ("stopped" if self.told_to_stop else None)
            if reason is not None and not stubborn:
                self.command_lives = False
                return ending("stopped", stop_reason=reason)
            self._say_something(hand)
        self.command_lives = False
        return ending("fails" if world.random.random() < world.troubles.failure else "ok")

    def _say_something(self, hand: FileHand) -> None:
        draw = self._world.random.random()
        if draw < 0.3:
            self._try(lambda: hand.beat({}))
        elif draw < 0.4:
            self._try(lambda: hand.report_status({"progress_pct": 50}))
        elif draw < 0.5:
            report = self._message("REPORT", {"verb": "complete", "commit": "abc", "files": ["x"]})
            self._try(lambda: hand.report(report))
        else:
            size = self._world.random.choice((1, 1, 100, 6000))
            self._said += 1  # no two payloads are alike: one could stand for another that was lost
            note = self._message("NOTE", {"text": f"{self._said} of {self.spec.attempt}".ljust(size, ".")})
            if self._try(lambda: hand.publish(note)):
                self._world.handed_in(self, note)

    def _message(self, type: str, payload: dict[str, object]) -> Message:
        world = self._world
        return Message(world.random.randbytes(16).hex(), type, self.spec.attempt, utc(world.clock.wall), payload)

    def _try(self, call: Callable[[], object]) -> bool:
        """What a worker says on the way is worth no waiting; False where it could not be said."""
        try:
            call()
        except (OSError, BusError):
            return False
        return True

    def _hand_in(self, hand: FileHand, record: ExitRecord) -> Generator[float, None, None]:
        """Write `exit.json` and announce it, for as long as it takes."""
        world, spec = self._world, self.spec
        world.accounts.ending(spec.task, spec.attempt, record)
        written = False
        while True:
            try:
                if written:
                    hand.publish(result_message(spec.attempt, to_json(record)), durable=spec.durable)
                else:
                    hand.finish(record, durable=spec.durable)
            except AlreadyFinished:
                written = True
            except FileNotFoundError:
                raise
            except (OSError, BusError) as error:
                if isinstance(error, BusGone):
                    raise
                yield from self._wait_for_disk()
            else:
                world.accounts.finished(spec.attempt, record)
                return
