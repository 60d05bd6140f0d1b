"""Errors of the bus. Each says what, where, and what to do next."""

from __future__ import annotations


class BusError(Exception):
    """The bus cannot be used as it is."""

    code = "bus_unsafe"

    def __init__(
        self, message: str, *, path: str | None = None, line: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.line = line
        self.hint = hint


class BusGone(BusError):
    """There is no bus, or it was moved, replaced or removed while in use."""

    code = "bus_gone"


class FolderReplaced(BusError):
    """Something else stands in the place of a folder of the bus. A conductor that runs puts that right."""


class BusCorrupt(BusError):
    """The journal is damaged before its end, or a frozen plan is not what its name says."""

    code = "bus_corrupt"


class BusUnsafe(BusError):
    """The directory belongs to somebody else, can be written by others, or is not a directory."""

    code = "bus_unsafe"


class BusFormat(BusError):
    """The bus was made by a newer major version."""

    code = "bus_format"


class HeldByOther(BusError):
    """Another conductor holds the track."""

    code = "held_by_other"


class JournalBlocked(BusError):
    """The journal could not be written (disk full, quota, read-only). The batch is kept; call `commit` again later."""


class NoSpace(BusError):
    """Something could not be made: disk full, quota, read-only. Nothing of it is there; try again later."""


class Shortage(BusError):
    """Something could not be made, as this machine has too few descriptors or too little memory for now. Nothing of it
    is there; try again later."""


class MutexHeld(Shortage):
    """Another program stands still while it has the mutex of the file locks."""


class AttemptExists(BusError):
    """The attempt's folder is there already, although the journal does not tell that it was launched: the journal lost
    its end. Whatever is in the folder happened, so it is taken over and never launched again."""


class AlreadyFinished(BusError):
    """The attempt has an `exit.json` already; the first one counts."""


class NotInWorker(BusError):
    """The environment does not say in which worker this program runs."""

    code = "usage"


class LockBusy(BusError):
    """Somebody else holds what was to be locked, and nobody wanted to wait for it."""


class WaitTimedOut(BusError):
    """What was waited for did not come in time."""


ENDED = "ended"
"""Why a program of an attempt has nothing to do any more: its worker has written the result."""


class AttemptRevoked(BusError):
    """The attempt is to stop, or has ended (`ENDED`): whoever waits in it ends."""

    def __init__(self, reason: str) -> None:
        over = "this attempt is over, and nothing more of it counts"
        super().__init__(over if reason == ENDED else f"this attempt is being stopped: {reason}")
        self.reason = reason


class TaskNotDone(BusError):
    """A task that was waited for has ended, and is not done."""

    def __init__(self, task: str, word: str, reason: str) -> None:
        odd = {"not started": "will not be started", "waiting for us": "cannot be done while this one waits for it"}
        what = odd.get(word, f"is {word}")
        super().__init__(f"task {task} {what}" + (f": {reason}" if reason else ""))
        self.task = task
        self.word = word
