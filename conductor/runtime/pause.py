"""What is said of a bus that cannot be written: once when it begins, and once when all is well again."""

from __future__ import annotations

from collections.abc import Callable


class Pause:
    """Several parts of the loop meet the same full disk; people are told of it once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._met: dict[str, str] = {}

    @property
    def lasts(self) -> bool:
        """Whether something still cannot be written."""
        return bool(self._met)

    def give_up(self, part: str) -> None:
        """`part` does not want to write any more; whether it could is not known."""
        self._met.pop(part, None)

    def met(self, part: str, why: str | None) -> bool:
        """`part` cannot write, for this reason; None: it can, or has nothing to write. True where that ends a pause."""
        before = self.lasts
        if why is None:
            self._met.pop(part, None)
        else:
            self._met[part] = why
        if self.lasts and not before:
            self._say(
                f"paused: {why}; nothing is started or recorded, workers go on, trying again every second. A stop "
                "cannot be recorded either: TERM, or Ctrl-C three times, leaves at once"
            )
        ended = before and not self.lasts
        if ended:
            self._say("resumed: the bus can be written again")
        return ended
