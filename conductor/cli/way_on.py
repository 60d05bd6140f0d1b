"""What to type for a record that says that something waits for a person."""

from __future__ import annotations

from dataclasses import dataclass

from bus.wire import Record
from conductor.cli.phrases import draining, is_question, phrase
from conductor.cli.track import Track
from conductor.core.wording import person


@dataclass(frozen=True, slots=True)
class WayOn:
    """What happened, and the command line that can be typed for it."""

    text: str
    command: str


def way_on(track: Track, record: Record) -> WayOn | None:
    """Return what to type; None where nobody is waited for."""
    said, task, payload = phrase(record), record.task, record.payload
    if is_question(record):
        return WayOn(said, track.command("answer", str(payload.get("wait")), "TEXT"))
    if record.type == "APPROVAL_ASKED" and task is not None:
        return WayOn(said, track.command("approve", task))
    if record.type == "MANUAL_OPENED" and task is not None:
        return WayOn(said, track.command("complete", task))
    if record.type == "PROVIDER_PAUSED" and payload.get("seconds") is None:
        return WayOn(f"{said}; to try again", track.command("resume"))
    if record.type != "CONTROL" or payload.get("refused"):
        return None
    if payload.get("verb") == "pause":
        return WayOn(f"{said}; to go on", track.command("resume"))
    if payload.get("verb") == "drain" and not draining(person(str(payload.get("who") or "operator"))):
        return WayOn(f"{said}; to stop the running tasks", track.command("stop"))
    return None
