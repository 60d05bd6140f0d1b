"""What a worker must write, for as long as it takes: a full disk may delay claim and result, never lose them.

While it waits, the name of its process says so: there is nothing else that it can write then.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from dataclasses import replace

from bus.contract import Hand
from bus.errors import AlreadyFinished, BusError, BusGone
from bus.hand import result_message
from bus.process import WAITS_FOR_DISK, rename_process
from bus.strict import WireError
from bus.wire import ExitRecord, ProcRecord, WorkerSpec, to_json

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
"""Seconds between two tries; they double from the first to the longest."""


def hand_in(record: ExitRecord, spec: WorkerSpec, hand: Hand, pause: Callable[[float], object]) -> bool:
    """Write `exit.json` and announce it; False only where the bus is gone. `pause` waits for some seconds."""
    patience = _Patience(pause)
    written = False
    while True:
        try:
            if written:
                hand.publish(result_message(spec.attempt, to_json(record)), durable=spec.durable)
            else:
                hand.finish(record, durable=spec.durable)
        except AlreadyFinished:  # the file was written, then the disk was full for its message
            written = True
        except WireError:  # whatever ran in the attempt can have left a report that no message may carry
            record = replace(record, report=None, final_record=None)
        except (BusGone, FileNotFoundError):
            return False
        except (OSError, BusError):
            patience.wait()
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
        except (OSError, BusError):
            patience.wait()
        else:
            patience.over()
            return claimed


class _Patience:
    """Waits longer and longer between tries, and says so."""

    def __init__(self, pause: Callable[[float], object]) -> None:
        self._pause = pause
        self._seconds = FIRST_PAUSE
        self._name: str | None = None

    def wait(self) -> None:
        """Wait before the next try."""
        if self._name is None:
            self._name = rename_process(WAITS_FOR_DISK)
        self._pause(self._seconds)
        self._seconds = min(self._seconds * 2, LONGEST_PAUSE)

    def over(self) -> None:
        """Nothing is waited for any more."""
        if self._name:
            rename_process(self._name)


def wait(seconds: float) -> None:
    """Wait; a signal does not cut it short."""
    select.select((), (), (), seconds)
