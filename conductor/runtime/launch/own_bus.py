"""Whose process is it? A copy of a bus has the attempts of the original: same names, same nonces, same pids.

A process belongs to the bus that its environment or its lock names. Where that is another directory than ours, and is
there, the process is somebody else's, whatever else fits.
"""

from __future__ import annotations

import os

from bus.layout import LIVE, attempt_dir
from bus.process import pass_on_shortage
from bus.wire import AttemptId

_VARIABLE = b"CONDUCTOR_BUS_DIR="


class OwnBus:
    """The bus of this conductor."""

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)

    def lock_path(self, attempt: AttemptId) -> str:
        """Path of the attempt's lock, as the kernel shows it."""
        return f"{self._path}/{attempt_dir(attempt)}/{LIVE}"

    def is_anothers(self, pid: int, attempt: AttemptId) -> bool:
        """Tell whether a process with the marks of `attempt` is of another bus, such as the one ours is a copy of."""
        return self._names_another(environment(pid)) or self._locks_another(pid, attempt)

    def _names_another(self, entries: list[bytes]) -> bool:
        for entry in entries:
            if entry.startswith(_VARIABLE):
                try:
                    return not os.path.samefile(entry[len(_VARIABLE) :], self._path)
                except OSError as error:  # it was moved to where we are, or is gone
                    pass_on_shortage(error)
                    return False
        return False

    def _locks_another(self, pid: int, attempt: AttemptId) -> bool:
        tail = f"/{attempt}/{LIVE}"
        held = (path for path in open_files(pid).values() if path.endswith(tail))
        return any(path != self.lock_path(attempt) for path in held)


def environment(pid: int) -> list[bytes]:
    """Return the entries that the process was started with; none where it cannot be read. OSError for a shortage."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError as error:
        pass_on_shortage(error)
        return []


def open_files(pid: int) -> dict[str, str]:
    """Return the paths behind a process's descriptors, deleted or not; none where they cannot be read.

    Raises OSError for a shortage.
    """
    found = {}
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError as error:  # it is gone, or belongs to another user
        pass_on_shortage(error)
        return {}
    for name in names:
        try:
            found[name] = os.readlink(f"{folder}/{name}").removesuffix(" (deleted)")
        except OSError as error:  # closed meanwhile
            pass_on_shortage(error)
    return found
