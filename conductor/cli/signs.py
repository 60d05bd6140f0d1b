"""The signs of life of an attempt, as its worker saw them at its last beat."""

from __future__ import annotations

from typing import Any

from bus.contract import Reader
from bus.errors import BusError
from bus.strict import number
from bus.wire import AttemptId, JsonObject
from conductor.core.wording import duration

PHASES = {
    "locks": "its worker waits for the locks that it was given",
    "verify": "its command is done; what it did is verified",
    "ending": "its command is done; its worker ends",
}
"""What a worker does where it does not run the command."""


def beat_of(reader: Reader, attempt: AttemptId | None) -> JsonObject | None:
    """Return the evidence of an attempt's last beat; None where there is none, or it cannot be read now."""
    try:
        return None if attempt is None else reader.beat_of(attempt)
    except (OSError, BusError):
        return None


def signs_text(beat: JsonObject) -> str:
    """Say it in a sentence, `Seen at its last beat: output 3.0s ago (1.2 kB), CPU 0.1s ago.`, or with nothing.

    A beat comes from a folder that the command can write in: what is no number is passed over.
    """
    seen = [
        text
        for text in (_output(beat.get("output")), _age("CPU", beat.get("cpu")), _age("files", beat.get("files")))
        if text
    ]
    said = [f"seen at its last beat: {', '.join(seen)}"] if seen else []
    if (phase := PHASES.get(str(beat.get("phase")))) is not None:
        said.insert(0, phase)
    left = number(beat.get("left"))
    if beat.get("stands") is True:
        said.append("its time limit stands still")
    elif left is not None:
        said.append(f"{duration(left)} left of its time limit")
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _output(value: Any) -> str:
    size = number(value.get("bytes")) if isinstance(value, dict) else None
    if size == 0:
        return "no output yet"
    text = _age("output", value)
    return f"{text} ({_size(size)})" if text and size is not None else text


def _age(what: str, value: Any) -> str:
    age = number(value.get("age")) if isinstance(value, dict) else None
    return "" if age is None else f"{what} {duration(age)} ago"


def _size(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
