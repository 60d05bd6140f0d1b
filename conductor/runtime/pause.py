"""What is said of a bus that cannot be written: once when it begins, and once when all is well again."""

from __future__ import annotations

from collections.abc import Callable

JOURNAL = "journal"
"""The part that records."""


class Pause:
    """Several parts of the loop meet the same full disk; people are told of it once."""

    def __init__(self, say: Callable[[str], None], *, to_stop: bool = False) -> None:
        """`to_stop`: the run is only to be ended. Then people are told only where that cannot be recorded."""
        self._say = say
        self._to_stop = to_stop
        self._met: dict[str, str] = {}
        self._said = False

    @property
    def lasts(self) -> bool:
        """Whether something still cannot be written."""
        return bool(self._met)

    def give_up(self, part: str) -> None:
        """`part` does not want to write any more; whether it could is not known."""
        self._met.pop(part, None)
        self._said &= self.lasts

    def met(self, part: str, why: str | None) -> bool:
        """`part` cannot write, for this reason; None: it can, or has nothing to write. True where that ends a pause."""
        before = self.lasts
        if why is None:
            self._met.pop(part, None)
        else:
            self._met[part] = why
        if why is not None and not self._said and (part == JOURNAL or not self._to_stop):
            self._say(self._paused(why))
            self._said = True
        ended = before and not self.lasts
        if ended and self._said:
            self._say("resumed: the bus can be written again")
            self._said = False
        return ended

    def _paused(self, why: str) -> str:
        if self._to_stop:
            return (
                f"paused: {why}; the stop is recorded as soon as there is room for that, trying again every second. "
                "TERM, or Ctrl-C three times, leaves at once"
            )
        return (
            f"paused: {why}; nothing is started or recorded, workers go on, trying again every second. A stop "
            "cannot be recorded either: TERM, or Ctrl-C three times, leaves at once"
        )
