"""A worker of the simulation: the real hand on the model disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.errors import AlreadyFinished, BusError, BusGone
from bus.hand import FileHand, open_hand, result_message
from bus.wire import ExitRecord, ProcRecord, WorkerSpec, to_json
from conductor.testing.disk import ModelProcess
from conductor.testing.plans import ending
from conductor.testing.simulated.command import FOREVER, Pauses, SimulatedCommand, locked, succeeds

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
        self.command: SimulatedCommand | None = None
        self.waits_for_disk = False
        """Whether it cannot write what it must."""
        self.is_doomed = False
        """Whether it was killed, and is not dead yet."""
        self.told_to_stop = False
        """Whether TERM came."""
        self.wake_at = world.clock.mono + delay
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

    @property
    def command_lives(self) -> bool:
        """Whether its command runs."""
        return self.command is not None and self.command.alive

    def step(self) -> None:
        """Go on to the next pause, or to the end."""
        if self.is_doomed:
            self.kill(command_too=True)
            return
        pause = next(self._life, None)
        if pause is None:
            self._world.say(self, "ends")
            if self.command is None or self.command.code is not None:
                self._world.ends_in_peace(self, self.spec.attempt)
            self.process.kill()
        else:
            self.wake_at = self._world.clock.mono + pause

    def doom(self, seconds: float) -> None:
        """Let KILL take so long to end it, in which it does nothing (state D)."""
        self.is_doomed = True
        self.wake_at = self._world.clock.mono + seconds
        if self.command is not None:
            self.command.wake_at = self.wake_at + 1.0
        if not self.alive:
            self.kill(command_too=True)

    def kill(self, *, command_too: bool) -> None:
        """End the worker at once, and its command, unless that is left alone. A container ends as a whole."""
        self.process.kill()
        if self.command is not None and (command_too or self.contained):
            self.command.kill()
        if not self.command_lives:
            self._world.traffic.ended(self.spec.attempt, self._world.moment)

    def _live(self) -> Pauses[None]:
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

    def _claim(self, hand: FileHand) -> Pauses[bool]:
        proc = ProcRecord(self._world.clock.boot, self.pid, 1, self.spec.epoch)
        while True:
            try:
                return hand.claim(proc)
            except (BusGone, FileNotFoundError):
                raise
            except (OSError, BusError):
                yield from self._wait_for_disk()

    def _wait_for_disk(self) -> Pauses[None]:
        self.waits_for_disk = True
        yield RETRY
        self.waits_for_disk = False

    def _command(self, hand: FileHand) -> Pauses[ExitRecord]:
        """Take the locks that were ordered, run the command, and end it where that is asked for."""
        world = self._world
        stubborn = world.random.random() < 0.15 and not self.contained  # nobody else could end it there
        locking = locked(world, self, hand, tuple(self.spec.locks), FOREVER)
        for pause in locking if self.spec.locks else ():
            yield pause
            if (reason := self._reason(hand)) is not None:
                return ending("revoked", why=reason)
        world.command_starts(self)
        self.command = command = world.start_command(self)
        succeeds(lambda: hand.started(self.pid + 1, 1, self.pid))
        while command.alive:
            self._beat(hand, command)
            yield world.random.choice((0.2, 1.0, 30.0))
            reason = self._reason(hand)
            if reason is not None and not stubborn and command.alive:
                command.kill()
                return ending("stopped", stop_reason=reason)
        if command.code is None:
            return ending("fails", command={"code": None, "signal": 9})
        return ending("fails" if command.code else "ok")

    def _reason(self, hand: FileHand) -> str | None:
        return hand.revoked() or ("stopped" if self.told_to_stop else None)

    def _beat(self, hand: FileHand, command: SimulatedCommand) -> None:
        age = self._world.clock.mono - command.moved_at
        succeeds(lambda: hand.beat({"phase": "command", "output": {"bytes": 1, "age": age}, "cpu": {"age": age}}))

    def _hand_in(self, hand: FileHand, record: ExitRecord) -> Pauses[None]:
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
