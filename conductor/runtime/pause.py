"""What is said of a bus that cannot be written: once when it begins, and once when all is well again."""

from __future__ import annotations

from collections.abc import Callable

JOURNAL = "journal"
"""The part that records."""

_LEAVE = "TERM, or Ctrl-C three times, leaves at once"

_NO_STOP = f"a stop cannot be recorded either: {_LEAVE}"

_UNRECORDED = f"nothing is started or recorded, workers go on, trying again every second; {_NO_STOP}"

_UNSTARTED = (
    "nothing is started, workers go on, trying again every second; what ends is recorded as long as the journal has "
    "room"
)

_STOP_WAITS = f"the stop is recorded as soon as there is room for that, trying again every second. {_LEAVE}"


class Pause:
    """Several parts of the loop meet the same full disk; people are told of it once."""

    def __init__(self, say: Callable[[str], None], *, to_stop: bool = False) -> None:
        """`to_stop`: the run is only to be ended. Then people are told only where that cannot be recorded."""
        self._say = say
        self._to_stop = to_stop
        self._met: dict[str, str] = {}
        self._said = False
        self._said_unrecorded = False

    @property
    def lasts(self) -> bool:
        """Whether something still cannot be written."""
        return bool(self._met)

    def give_up(self, part: str) -> None:
        """`part` does not want to write any more; whether it could is not known."""
        self._met.pop(part, None)
        if not self.lasts:
            self._over("the pause is over: nothing waits for it any more")

    def end(self) -> None:
        """The run has ended, perhaps on a disk that is still full."""
        self._over("the pause is over: the run has ended")

    def met(self, part: str, why: str | None) -> bool:
        """`part` cannot write, for this reason; None: it can, or has nothing to write. True where that ends a pause."""
        before = self.lasts
        if why is not None:
            self._met[part] = why
            self._tell(part, why)
            return False
        self._met.pop(part, None)
        self._said_unrecorded &= part != JOURNAL
        ended = before and not self.lasts
        if ended:
            self._over("resumed: the bus can be written again")
        return ended

    def _over(self, text: str) -> None:
        if self._said:
            self._say(text)
        self._said = self._said_unrecorded = False

    def _tell(self, part: str, why: str) -> None:
        unrecorded = part == JOURNAL and not self._said_unrecorded
        if self._to_stop and unrecorded:
            self._say(f"paused: {why}; {_STOP_WAITS}")
        elif self._to_stop:
            return
        elif not self._said:
            self._say(f"paused: {why}; {_UNRECORDED if unrecorded else _UNSTARTED}")
        elif unrecorded:
            self._say(f"nothing can be recorded any more: {why}; {_NO_STOP}")
        self._said = True
        self._said_unrecorded |= unrecorded
