"""Reading the files of a track. Never blocks, never reads more than it was told to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from bus.process import is_shortage
from conductor.errors import PlanError


def refuse_other_than_directory(track_dir: Path) -> None:
    """Raise PlanError `plan_missing` where there is no such directory."""
    try:
        if stat.S_ISDIR(track_dir.stat().st_mode):
            return
        what = "is not a directory"
    except FileNotFoundError:
        what = "does not exist"
    except (OSError, ValueError) as error:
        what = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    raise PlanError(
        "plan_missing",
        f"the track {what}",
        path=str(track_dir),
        hint="Give a directory that contains plan.md; `conductor init TRACK` makes one.",
    )


def read_bytes(path: Path, max_bytes: int) -> bytes | None:
    """Return what the file holds; None where there is none.

    Raises PlanError `plan_missing` where it cannot be read, `plan_bytes_exceeded` where it is longer than `max_bytes`,
    and OSError where only this machine ran short of something: that says nothing of the file.
    """
    try:
        # O_NONBLOCK: a FIFO in the place of a plan must not hang us.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if is_shortage(error):
            raise
        raise _unreadable(path, error.strerror or str(error)) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _unreadable(path, "it is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            body = file.read(max_bytes + 1)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    finally:
        os.close(descriptor)
    if len(body) > max_bytes:
        raise PlanError(
            "plan_bytes_exceeded",
            f"{max(status.st_size, len(body)):,} bytes; at most {max_bytes:,} are read",
            path=path.name,
            hint="Raise the limit, or move what is not the plan into another file.",
        )
    return body


def decode(body: bytes, name: str) -> str:
    """Return the text of a file; raises PlanError `plan_yaml` where it is not UTF-8."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise PlanError(
            "plan_yaml",
            f"not UTF-8: byte 0x{body[error.start]:02x} at offset {error.start} (line {line})",
            path=name,
            line=line,
            hint="Save the file as UTF-8.",
        ) from None


def _unreadable(path: Path, reason: str) -> PlanError:
    return PlanError("plan_missing", f"cannot be read: {reason}", path=path.name, hint="Check the file.")
