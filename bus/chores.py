"""What could not be done now, because the disk is full, descriptors ran short or a folder was removed, and is done
later."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from bus._fs import passes


class Chores:
    """Small things of the host that are no decision: each is tried at once, then again until it succeeds.

    Each has a key, under which only the newest is kept. They are lost with the process, so the next start must come to
    the same end by itself.
    """

    def __init__(self, lost: Callable[[OSError], None]) -> None:
        """`lost` hears of each error that put something off."""
        self._lost = lost
        self._due: dict[Hashable, Callable[[], object]] = {}

    def do(self, key: Hashable, action: Callable[[], object]) -> None:
        """Do it now or later. Raises OSError for an error that will not pass."""
        self._due.pop(key, None)
        try:
            action()
        except FileNotFoundError:  # a folder, or our scratch, was removed: the next look makes it anew, or says who did
            self._due[key] = action
        except OSError as error:
            if not passes(error):
                raise
            self._lost(error)
            self._due[key] = action

    def again(self) -> None:
        """Do what is left over, until the first that still cannot be done."""
        for key, action in list(self._due.items()):
            self.do(key, action)
            if key in self._due:
                return

    def drop(self, key: Hashable) -> None:
        """Give one up: it has no use any more."""
        self._due.pop(key, None)
