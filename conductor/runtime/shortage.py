"""What this machine lacks to start workers: processes, memory, descriptors. It passes, and is nobody's failure.

While it lasts one worker is started now and then, further and further apart, until the command of one of them runs: so
the run goes on as soon as it can, with as many workers as there is room for, and does not add to the shortage.
"""

from __future__ import annotations

from collections.abc import Callable

from bus.wire import AttemptId

FIRST, LONGEST = 1.0, 30.0
"""Seconds between two tries: they double from the first to the longest."""


class Shortage:
    """Says when the next worker may be started."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """`say` tells people."""
        self._say = say
        self.why: str | None = None
        """What is lacking; None where nothing is, as far as is known."""
        self.probe: AttemptId | None = None
        """The attempt whose command will tell whether it still is."""
        self._pause = 0.0
        self._next_try = 0.0

    def met(self, why: str, now: float) -> None:
        """A worker could not be started, for this reason. Others that were started with it say nothing new."""
        if self.why is None:
            self._say(
                f"paused: no worker can be started ({why}); those that work go on, another start is tried now and "
                "then, and no attempt is used up"
            )
            self._pause = 0.0
        elif now < self._next_try:
            return
        self.why, self.probe = why, None
        self._pause = min(max(2 * self._pause, FIRST), LONGEST)
        self._next_try = now + self._pause

    def over(self) -> None:
        """A command runs: start whatever waits."""
        if self.why is not None:
            self._say("resumed: workers can be started again")
        self.give_up()

    def give_up(self) -> None:
        """Nothing is to be started; whether it could be is not known."""
        self.why = self.probe = None
        self._next_try = 0.0

    def may_try(self, now: float) -> bool:
        """Tell whether another worker may be started now."""
        return self.why is None or (self.probe is None and now >= self._next_try)

    def tried(self, attempt: AttemptId) -> None:
        """A worker was ordered: while something is lacking it is the one that tells."""
        if self.why is not None:
            self.probe = attempt

    def next_try(self) -> float | None:
        """Return when to try again; None where that depends on what becomes of the last try."""
        return None if self.probe is not None else self._next_try
