"""What to type for a record that says that a person is waited for."""

from __future__ import annotations

from bus.wire import Record
from conductor.cli.phrases import is_question
from conductor.cli.track import Track


def way_on(track: Track, record: Record) -> str | None:
    """Return the command line that lets the task go on; None where nobody is waited for."""
    if is_question(record):
        return track.command("answer", str(record.payload.get("wait")), "TEXT")
    if record.task is None:
        return None
    if record.type == "APPROVAL_ASKED":
        return track.command("approve", record.task)
    return track.command("complete", record.task) if record.type == "MANUAL_OPENED" else None
