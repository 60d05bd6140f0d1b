"""What a worker must do for as long as it takes: a full disk, or a machine that ran short of something, may delay claim
and result, never lose them.

While it waits, the name of its process says what is lacking: there is nothing else that it can write then.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from bus.contract import Hand
from bus.errors import AlreadyFinished, BusError, BusGone
from bus.hand import result_message
from bus.process import is_shortage, rename_process, waiting_name
from bus.strict import WireError
from bus.wire import ExitRecord, ProcRecord, WorkerSpec, to_json

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
"""Seconds between two tries; they double from the first to the longest."""

_Found = TypeVar("_Found")


Late = Callable[[ExitRecord], ExitRecord]
"""Writes what else is still to be written of an attempt, as far as that is possible now; returns the result then."""


def hand_in(
    record: ExitRecord, spec: WorkerSpec, hand: Hand, pause: Callable[[float], object], late: Late | None = None
) -> bool:
    """Write `exit.json` and announce it; False only where the bus is gone. `pause` waits for some seconds.

    `late` is called before each try: what the result tells may have changed by then.
    """
    patience = _Patience(pause)
    written, before = False, record
    while True:
        try:
            if written:
                hand.publish(result_message(spec.attempt, to_json(record)), durable=spec.durable)
            else:
                before, record = record, late(record) if late else record
                hand.finish(record, durable=spec.durable)
        except AlreadyFinished:  # the try before wrote the file, then the disk was full for its message
            written, record = True, before
        except WireError:  # whatever ran in the attempt can have left a report that no message may carry
            record = replace(record, report=None, final_record=None)
        except (BusGone, FileNotFoundError):
            return False
        except (OSError, BusError, MemoryError) as error:
            patience.wait(error)
        else:
            patience.over()
            return True


def claim(hand: Hand, proc: ProcRecord, pause: Callable[[float], object]) -> bool:
    """Claim the attempt, waiting for as long as the disk is full, or something else stands in the place of a folder;
    False where another process has claimed it.

    Raises BusGone, or FileNotFoundError, where the bus is gone.
    """
    patience = _Patience(pause)
    while True:
        try:
            claimed = hand.claim(proc)
        except (BusGone, FileNotFoundError):
            raise
        except (OSError, BusError, MemoryError) as error:
            patience.wait(error)
        else:
            patience.over()
            return claimed


def patiently(call: Callable[[], _Found], pause: Callable[[float], object]) -> _Found:
    """Call, again and again while this machine is short of what that takes. Raises whatever else it raises."""
    patience = _Patience(pause)
    while True:
        try:
            found = call()
        except (OSError, MemoryError) as error:
            if not is_shortage(error):
                raise
            patience.wait(error)
        else:
            patience.over()
            return found


class Sign:
    """The name of this process, while it says that it waits."""

    def __init__(self) -> None:
        self._own = ""

    def show(self, name: str) -> None:
        """Say what is waited for."""
        before = rename_process(name)
        self._own = self._own or before

    def take_down(self) -> None:
        """Nothing is waited for any more."""
        if self._own:
            rename_process(self._own)
        self._own = ""


class _Patience:
    """Waits longer and longer between tries, and says so."""

    def __init__(self, pause: Callable[[float], object]) -> None:
        self._pause = pause
        self._seconds = FIRST_PAUSE
        self._sign = Sign()

    def wait(self, error: BaseException) -> None:
        """Wait before the next try."""
        self._sign.show(waiting_name(error.__cause__ or error))
        self._pause(self._seconds)
        self._seconds = min(self._seconds * 2, LONGEST_PAUSE)

    def over(self) -> None:
        """Nothing is waited for any more."""
        self._sign.take_down()


def wait(seconds: float) -> None:
    """Wait; a signal does not cut it short."""
    select.select((), (), (), seconds)
