"""What a worker must write, for as long as it takes: a full disk may delay claim and result, never lose them."""

from __future__ import annotations

import select
from collections.abc import Callable

from bus.contract import Hand
from bus.errors import AlreadyFinished, BusError, BusGone
from bus.hand import result_message
from bus.wire import ExitRecord, ProcRecord, WorkerSpec, to_json

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
"""Seconds between two tries; they double from the first to the longest."""


def hand_in(record: ExitRecord, spec: WorkerSpec, hand: Hand, pause: Callable[[float], object]) -> bool:
    """Write `exit.json` and announce it; False only where the bus is gone. `pause` waits for some seconds."""
    seconds = FIRST_PAUSE
    written = False
    while True:
        try:
            if written:
                hand.publish(result_message(spec.attempt, to_json(record)), durable=spec.durable)
            else:
                hand.finish(record, durable=spec.durable)
        except AlreadyFinished:  # the file was written, then the disk was full for its message
            written = True
        except (BusGone, FileNotFoundError):
            return False
        except (OSError, BusError):
            pause(seconds)
            seconds = min(seconds * 2, LONGEST_PAUSE)
        else:
            return True


def claim(hand: Hand, proc: ProcRecord, pause: Callable[[float], object]) -> bool:
    """Claim the attempt, waiting for as long as the disk is full; False where another process has claimed it.

    Raises BusGone, or FileNotFoundError, where the bus is gone.
    """
    seconds = FIRST_PAUSE
    while True:
        try:
            return hand.claim(proc)
        except (BusGone, FileNotFoundError):
            raise
        except OSError:
            pause(seconds)
            seconds = min(seconds * 2, LONGEST_PAUSE)


def wait(seconds: float) -> None:
    """Wait; a signal does not cut it short."""
    select.select((), (), (), seconds)
