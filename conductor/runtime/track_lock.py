"""One conductor for a track, also where two use different buses (`--bus-dir`).

`conductor.lock` guards a bus. Two conductors with a bus each would run every task twice, so each also locks the
track's folder itself, which makes no file. A scheduler may well run us below `flock TRACK conductor run TRACK`: only a
holder that has a bus open counts.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from bus import layout
from bus.errors import HeldByOther
from bus.process import flock_holders, pass_on_shortage
from conductor.runtime.launch.own_bus import open_files


class TrackLock:
    """The lock on a track's folder, while it is open."""

    def __init__(self, track: Path, bus: Path) -> None:
        self._track = track
        self._bus = os.path.realpath(bus)
        self._fd = os.open(track, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def check(self) -> None:
        """Raise HeldByOther where a conductor with another bus has the track; take nothing."""
        if self._try(fcntl.LOCK_SH):
            self._try(fcntl.LOCK_UN)
        else:
            self._refuse()

    def take(self) -> None:
        """Hold the track. Raises HeldByOther; a lock that the system cannot give is done without."""
        if not self._try(fcntl.LOCK_EX):
            self._refuse()

    def close(self) -> None:
        """Give the track up."""
        os.close(self._fd)

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self._fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:  # a network file system that locks no folders
            pass_on_shortage(error)
            return True
        return True

    def _refuse(self) -> None:
        """Raise where the holder is a conductor with another bus; of our own bus its lock tells better."""
        for pid in flock_holders(os.fstat(self._fd)):
            bus = _bus_of(pid)
            if bus is not None and bus != self._bus:
                raise HeldByOther(
                    f"another conductor holds the track (pid {pid}), with the bus {bus}",
                    path=str(self._track),
                    hint=f"look on with `conductor status {self._track} --bus-dir {bus}`",
                )


def _bus_of(pid: int) -> str | None:
    """The bus whose lock a process has open: that of a conductor."""
    for path in open_files(pid).values():
        folder, name = os.path.split(path)
        if name == layout.LOCK:
            return folder
    return None
