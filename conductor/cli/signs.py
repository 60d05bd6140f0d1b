"""The signs of life of an attempt, as its worker saw them at its last beat."""

from __future__ import annotations

from typing import Any

from bus.contract import Reader
from bus.errors import BusError
from bus.strict import number
from bus.wire import AttemptId, JsonObject
from conductor.cli.escape import one_line
from conductor.core.wording import duration, few

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
    clock = number(beat.get("clock"))
    files = _age("files", beat.get("files"), before=clock)
    seen = [text for text in (_output(beat.get("output")), _age("CPU", beat.get("cpu")), files) if text]
    said = [f"seen at its last beat: {', '.join(seen)}"] if seen else []
    if (phase := PHASES.get(str(beat.get("phase")))) is not None:
        said.insert(0, phase)
    left = number(beat.get("left"))
    ladder = _ladder(beat.get("ladder"))
    if ladder:
        said = [one for one in said if one != PHASES["ending"]] + [ladder]
    elif beat.get("stands") is True:
        said.append("its time limit stands still")
    elif left is not None:
        # The beat may be old by now, and for how long it runs is said beside it: what stays true is the limit itself.
        whole = None if clock is None else number(clock + left)
        told = f"{duration(left)} left of its time limit" if whole is None else f"time limit {duration(round(whole))}"
        said.append(told)
    said += [text] if (text := _suspended(beat.get("suspended"))) else []
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _ladder(value: Any) -> str:
    """Say that the attempt is being ended, and how far that is."""
    if not isinstance(value, dict) or value.get("by") not in ("timeout", "stop"):
        return ""
    kill_in = number(value.get("kill_in"))
    then = f", KILL within {duration(kill_in)}" if kill_in else ""
    over = "its time limit is over; " if value["by"] == "timeout" else ""
    return f"{over}it is being ended ({one_line(str(value.get('signal'))[:4])}{then})"


def _suspended(value: Any) -> str:
    """Say which of its processes stand still."""
    found = [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    if not found:
        return ""
    names = few([f"{one_line(str(one.get('name'))[:32])} (pid {str(one.get('pid'))[:12]})" for one in found])
    return f"suspended (state T), so it goes on only after SIGCONT: {names}"


def _output(value: Any) -> str:
    size = number(value.get("bytes")) if isinstance(value, dict) else None
    if size == 0:
        return "no output yet"
    text = _age("output", value)
    return f"{text} ({_size(size)})" if text and size is not None else text


def _age(what: str, value: Any, *, before: float | None = None) -> str:
    """Say an age; not that of what did not change at all in the seconds of the phase (`before`)."""
    age = number(value.get("age")) if isinstance(value, dict) else None
    if age is None or (before is not None and age >= before - 0.001):
        return ""
    return f"{what} {duration(age)} ago"


def _size(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
