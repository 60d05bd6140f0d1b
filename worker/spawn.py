"""Starts the process of a step: in its own process group, with default signals, an empty mask and nothing inherited.

`posix_spawn` is the cheapest way that sets all of this and reports a failed exec as an error of its own. Descriptors
are kept out by their close-on-exec flag: Python sets it on every descriptor it makes, and the warm process closed all
that it was given.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping, Sequence

from bus.process import is_shortage

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Searched where the command's environment has no PATH."""

_DEFAULTED = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


class SpawnError(Exception):
    """The command cannot be exec'ed; the text says why."""


def spawn(argv: Sequence[str], environment: Mapping[str, str], stdout: int, stderr: int) -> int:
    """Start `argv` in the current directory and return its pid, which is also its process group.

    Its stdin is ours, the null device.
    Raises SpawnError where it cannot be exec'ed, and OSError where this machine ran short of something for now
    (`bus.process.is_shortage`).
    """
    path = find_program(argv[0], environment.get("PATH", DEFAULT_PATH))
    try:
        return os.posix_spawn(
            path,
            tuple(argv),
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stdout, 1),
                (os.POSIX_SPAWN_DUP2, stderr, 2),
            ],
            setpgroup=0,
            setsigmask=(),
            setsigdef=_DEFAULTED,
        )
    except OSError as error:
        if is_shortage(error):
            raise
        raise SpawnError(_explain(path, error)) from error
    except ValueError as error:  # an embedded NUL, or a name with "=" in the environment
        raise SpawnError(f"{argv[0]!r}: {error}") from error


def find_program(name: str, path: str) -> str:
    """Return the file that `name` means, looking through `path` (the command's own PATH) where it has no slash.

    Raises SpawnError where there is none, or none that may be executed.
    """
    if not name:
        raise SpawnError("the command is empty")
    if "/" in name:
        return name
    denied = None
    for folder in path.split(os.pathsep):
        candidate = os.path.join(folder or ".", name)
        if not os.path.isfile(candidate):
            continue
        if os.access(candidate, os.X_OK):
            return candidate
        denied = denied or candidate
    if denied is not None:
        raise SpawnError(f"{denied}: permission denied (not executable)")
    raise SpawnError(f"{name}: command not found on PATH")


def _explain(path: str, error: OSError) -> str:
    if error.errno == errno.ENOENT and os.path.exists(path):
        return f"{path}: the interpreter named in its first line does not exist"
    if error.errno == errno.ENOENT:
        return f"{path}: no such file"
    if error.errno == errno.EACCES:
        return f"{path}: permission denied (not executable)"
    if error.errno == errno.ENOEXEC:
        return f"{path}: not a program this system can run (a script needs a #! line)"
    return f"{path}: {error.strerror}"
