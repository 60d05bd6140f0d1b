"""What this machine lacks to start workers: processes, memory, descriptors. It passes, and is nobody's failure.

A *spell* begins with the first worker that finds no room. While it lasts as many workers may be at work as were known
to find room together; beyond that one more is tried, the *probe*, and only once its command has run for some time, or
ended well, there is room for one more. So a run goes on as soon as it can, with as many workers as there is room for,
and does not run into the limit again and again at the cost of the commands that work. Tries that fail are further and
further apart. The spell ends once nothing waits to be started.
"""

from __future__ import annotations

from collections.abc import Callable

from bus.wire import AttemptId

FIRST, LONGEST = 1.0, 30.0
"""Seconds between two tries: they double from the first to the longest."""

STEADY = 1.0
"""Seconds after which a command that runs has found room, with what it starts itself."""


class Shortage:
    """Says when the next worker may be started."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """`say` tells people."""
        self._say = say
        self.why: str | None = None
        """What is lacking; None where nothing is, as far as is known."""
        self.probe: AttemptId | None = None
        """The attempt that will tell whether there is room for one more."""
        self._runs_since: float | None = None
        """When the command of the probe was first seen to run."""
        self._lasts = False
        self._resumed = False
        """Whether people were told, in this spell, that workers are started again."""
        self._room = 0
        """How many workers are known to find room together."""
        self._pause = 0.0
        self._next_try = 0.0

    @property
    def lasts(self) -> bool:
        """Whether a spell lasts, in which something may be lacking at any moment."""
        return self._lasts

    def met(self, why: str, now: float, others: int) -> None:
        """A worker could not be started, for this reason, while `others` were at work. Others that were started with it
        say nothing new."""
        if not self._lasts:
            self._say(
                f"paused: no worker can be started ({why}); those that work go on, another start is tried now and "
                "then, and a launch that waits uses up no attempt"
            )
            self._lasts, self._resumed, self._room, self._pause = True, False, others, 0.0
        self._room = min(self._room, others)
        if now < self._next_try and self.probe is None:
            return
        self.why, self.probe = why, None
        self._pause = min(max(2 * self._pause, FIRST), LONGEST)
        self._next_try = now + self._pause

    def runs(self, now: float, working: int) -> None:
        """The command of the probe runs, and `working` workers are at work. There is room for so many once it has done
        so for some time."""
        self._resume()
        if self._runs_since is None:
            self._runs_since = now
        if now - self._runs_since >= STEADY:
            self.found_room(working)

    def found_room(self, working: int) -> None:
        """So many workers found room together; another one may be tried at once."""
        self._resume()
        self._room = max(self._room, working)
        self.probe = self._runs_since = None

    def proved_nothing(self, now: float) -> None:
        """The probe ended, and not well; whatever that was, it was started."""
        self._resume()
        self.probe = self._runs_since = None
        self._next_try = now + self._pause

    def end(self, now: float) -> None:
        """Nothing waits to be started: that ends a spell, unless a try has failed a moment ago."""
        if self.probe is None and now >= self._next_try:
            self.give_up()

    def give_up(self) -> None:
        """Nothing is to be started; whether it could be is not known."""
        self._lasts = False
        self.why = self.probe = self._runs_since = None
        self._next_try = 0.0

    def may_try(self, now: float, working: int) -> bool:
        """Tell whether another worker may be started now, beside those that work."""
        if not self._lasts or working < self._room:
            return True
        return self.probe is None and now >= self._next_try

    def tried(self, attempt: AttemptId, working: int) -> None:
        """A worker was ordered, beside those that worked: where there were as many as find room, or where nothing has
        told yet that there is room again, it is the one that tells."""
        if self._lasts and self.probe is None and (working >= self._room or self.why is not None):
            self.probe, self._runs_since = attempt, None

    def next_try(self) -> float | None:
        """Return when to try again; None where that depends on what becomes of the last try."""
        return None if self.probe is not None else self._next_try

    def _resume(self) -> None:
        if not self._resumed:
            self._say("resumed: workers can be started again, one more at a time")
        self.why, self._resumed = None, True
