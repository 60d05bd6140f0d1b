"""Judging an attempt, and whether another one follows. Pure functions of what was seen; every draw is from a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bus.wire import PROVIDER_CLASSES, AttemptId, ExitRecord, JsonObject, TaskId
from conductor.core.task import Ended, NotLaunched, Outcome, RunOptions, TaskSpec, Vanished
from conductor.core.wording import exact, left_behind

UNCOUNTED_CEILING = 5
"""How often an attempt of a task may end for each reason that uses up no retry, per round."""

MAX_MESSAGE = 300
"""Longest error message in characters."""

STOPPED = "stopped"
"""Class of an attempt that was ended because the run was."""

CONDUCTOR_DIED = "conductor_died"
"""Class of an attempt that was recorded and never launched, because the conductor died in between."""

REBOOT = "reboot"
"""Class of an attempt that the machine's restart ended."""

SHORTAGE = "shortage"
"""Class of an attempt whose command could not be started, as the machine ran short of something for now. Its worker
says so by this word in `why`."""

BLAMELESS = frozenset({REBOOT, "deadlock_victim", "stale_token"})
"""Classes of ends that say nothing about how the run does: they are no restarts of its intensity."""

FAIL_FAST = "fail_fast"
"""Why a run gave up that was to end with its first failed task."""

UNKILLABLE = "unkillable"
"""Class of an attempt that could not be ended: what is left of it keeps what it holds."""

FREE = frozenset({STOPPED, CONDUCTOR_DIED, SHORTAGE})
"""Classes that cost a task nothing at all: it goes back, as if the attempt had not been made."""

_BUSY = "Text file busy"
"""What the C library says of a program that somebody is writing: it may be started a moment later."""

OVERRIDING = ("cancelled", "stale_token")
"""Reasons of a stop that win over whatever the attempt achieved."""

_SIGNALS = {1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 6: "ABRT", 8: "FPE", 9: "KILL", 11: "SEGV", 13: "PIPE", 15: "TERM"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an attempt came to. `error_class` None is success; it may have a message too: what people should know."""

    error_class: str | None
    message: str = ""
    started: bool = True
    counted: bool = True
    """Whether the end is the task's own fault. A counted end without a start is one that no other attempt mends."""


def judge(
    outcome: Outcome, stopping: str | None, *, because: str | None = None, fail_on_leftovers: bool = False
) -> Verdict:
    """Judge an attempt that is over.

    `stopping` is the reason of a journaled STOP; `because` says it in words. A command that ended by itself is judged
    as if it had not been told to stop, so that finished work counts; only the reasons in `OVERRIDING` win over it.
    """
    match outcome:
        case NotLaunched(error, conductor_died=True):
            verdict = Verdict(CONDUCTOR_DIED, _text("never started", error), started=False, counted=False)
        case NotLaunched(error):
            verdict = Verdict("spawn", _text("could not be launched", error), started=False, counted=False)
        case Vanished(reboot=True):
            text = _text("the machine was restarted meanwhile", outcome.detail)
            verdict = Verdict(REBOOT, text, outcome.started, counted=False)
        case Vanished():
            started = outcome.started
            text = _text("lost" if started else "never started", outcome.detail)
            verdict = Verdict("lost", text, started, counted=started)
        case ExitRecord(started=False):
            verdict = _judge_unstarted(outcome)
        case ExitRecord(ended_by="timeout"):
            verdict = Verdict("timeout", _timed_out(outcome))
        case ExitRecord(ended_by="stop") if stopping is None:  # somebody else's TERM to the worker
            verdict = Verdict("signal", "stopped by a signal that did not come from the conductor")
        case _:
            verdict = _judge_exit(outcome, fail_on_leftovers)
    if stopping is None or (_ended_by_itself(outcome) and stopping not in OVERRIDING):
        return verdict
    why = because if because is not None else "" if stopping == STOPPED else stopping
    return Verdict(stopping, _text("stopped", why), verdict.started, counted=stopping not in UNCOUNTED)


UNCOUNTED = frozenset(
    {STOPPED, CONDUCTOR_DIED, SHORTAGE, "cancelled", REBOOT, "deadlock_victim", "stale_token"}
    | {UNKILLABLE, *PROVIDER_CLASSES}
)
"""Classes that are not the task's own fault."""


def _ended_by_itself(outcome: Outcome) -> bool:
    return isinstance(outcome, ExitRecord) and outcome.started and outcome.ended_by == "self"


def _judge_unstarted(exit: ExitRecord) -> Verdict:
    why = exit.why or "no reason given"
    if lacking := shortage(exit):
        return Verdict(SHORTAGE, _text("never started", lacking), started=False, counted=False)
    spawn, _, reason = why.partition(":")
    if spawn == "spawn" and not reason.endswith(_BUSY):
        return Verdict("spawn", _text("could not be started", reason.strip()), started=False)
    return Verdict("spawn", _text("never started", why), started=False, counted=False)


def shortage(exit: ExitRecord) -> str | None:
    """Return what the machine lacked for the command of an attempt; None where that was not why it did not start."""
    kind, _, lacking = (exit.why or "").partition(": ")
    return lacking if kind == SHORTAGE and not exit.started else None


def _judge_exit(exit: ExitRecord, fail_on_leftovers: bool) -> Verdict:
    command = exit.command or {}
    report = exit.report or {}
    said = str(report.get("message") or "") if report.get("verb") == "fail" else ""
    if (limit := report.get("class")) in PROVIDER_CLASSES and report.get("verb") == "fail":
        return Verdict(str(limit), _text(str(limit), said or _last_line(exit.tail)), counted=False)
    if command.get("signal"):
        return Verdict("signal", _text(f"killed by {_signal(command['signal'])}", said or _last_line(exit.tail)))
    if command.get("code") != 0:
        return Verdict("exit", _text(f"exit {command.get('code')}", said or _last_line(exit.tail)))
    if report.get("verb") == "fail":
        return Verdict("reported", _text("reported failure", said))
    if failed := next((check for check in exit.verify if not _passed(check)), None):
        return Verdict("verify", _verify_failed(failed))
    if missing := [str(output.get("path")) for output in exit.outputs if not output.get("exists")]:
        return Verdict("verify", _text("output missing", ", ".join(missing)))
    left = [*_objects(exit.leftovers.get("killed")), *_objects(exit.leftovers.get("kept"))] if fail_on_leftovers else []
    if left:
        return Verdict("verify", _text("processes left behind", ", ".join(str(one.get("name")) for one in left)))
    return Verdict(None, _text(left_behind(killed(exit)), ""))


def _verify_failed(check: JsonObject) -> str:
    if error := check.get("error"):
        return _text("verify could not be started", str(error))
    how = _signal(check["signal"]) if check.get("signal") else f"exit {check.get('code')}"
    return _text("verify failed", f"{_line(check)} ({how})")


def _timed_out(exit: ExitRecord) -> str:
    """Say which limit ran out, of the command or of a verify command, and what it took to end it."""
    after = "" if exit.timeout is None else f" after {exact(exit.timeout)}"
    how = ", ".join(_sent(one, first=one is exit.signals[0]) for one in exit.signals)
    ended = f" ({how})" if how else ""
    if exit.verify:  # only the last one can have been cut short
        return _text(f"verify timed out{after}{ended}", _line(exit.verify[-1]))
    return f"timed out{after}{ended}"


def _sent(signal: JsonObject, *, first: bool) -> str:
    what = "killed" if signal["name"] == "KILL" else str(signal["name"])
    after = signal["after"]
    return what if first else f"{what} after {exact(round(after) if after >= 1 else after)}"


def _line(check: JsonObject) -> str:
    return " ".join(map(str, check.get("argv", ())))


def killed(exit: ExitRecord) -> list[JsonObject]:
    """Return the processes (`pid`, `name`) that a command left behind and its worker ended."""
    return [{"pid": one.get("pid"), "name": str(one.get("name"))} for one in _objects(exit.leftovers.get("killed"))]


def _objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of an array; whatever else a worker may have written there is nothing."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, (list, tuple)) else []


def reported_work(report: JsonObject | None) -> tuple[str | None, tuple[str, ...]]:
    """Return (commit, files) of a worker's report; what is not text there is left out."""
    commit, files = (report or {}).get("commit"), (report or {}).get("files")
    named = files if isinstance(files, (list, tuple)) else ()
    return commit if isinstance(commit, str) else None, tuple(one for one in named if isinstance(one, str))


def evidence(outcome: Outcome) -> dict[str, Any]:
    """Tell which evidence of success held: True it did, False it did not, None it was not asked for or is not there.

    `leftovers` lists the processes that the attempt left behind and its worker ended.
    """
    if not isinstance(outcome, ExitRecord) or not outcome.started:
        return {"exit_status": None, "report": None, "verify": None, "outputs": None, "leftovers": []}
    command, verb = outcome.command or {}, (outcome.report or {}).get("verb")
    return {
        "exit_status": outcome.ended_by == "self" and command.get("code") == 0,
        "report": None if verb is None else verb == "complete",
        "verify": all(map(_passed, outcome.verify)) if outcome.verify else None,
        "outputs": all(output.get("exists") for output in outcome.outputs) if outcome.outputs else None,
        "leftovers": killed(outcome),
    }


def brief(message: str) -> str:
    """Return the short form of an error message: `exit 1` of `exit 1: no such file`."""
    return message.partition(": ")[0]


def _passed(check: JsonObject) -> bool:
    return check.get("code") == 0 and not check.get("signal")


def _signal(number: int) -> str:
    return f"signal {number} ({_SIGNALS[number]})" if number in _SIGNALS else f"signal {number}"


def _last_line(tail: str) -> str:
    """Return the last line that a command printed, in quotes: the words are its own, not ours."""
    lines = tail.split("\n")
    return next((f'"{line.strip()}"' for line in reversed(lines) if line.strip()), "")


def _text(what: str, detail: str) -> str:
    text = f"{what}: {detail}" if detail else what
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"


# --- retries --------------------------------------------------------------------------------------------------------


def may_retry(spec: TaskSpec, options: RunOptions, ended: Ended, used: int, uncounted: Mapping[str, int]) -> bool:
    """Tell whether a failed attempt is followed by another. `used` and `uncounted` include this one.

    A counted end that never started (the command does not exist) is not worth another attempt, and beside processes
    that cannot be ended none may be made.
    """
    if ended.error_class == UNKILLABLE:
        return False
    if not ended.counted:
        return max(uncounted.values(), default=0) <= UNCOUNTED_CEILING
    return ended.error_class != "spawn" and used <= allowed(spec, options)


def allowed(spec: TaskSpec, options: RunOptions) -> int:
    """Return how many retries a task has."""
    return options.retries if spec.retries is None else spec.retries


def delay(options: RunOptions, run: str, task: TaskId, number: int, failures: int) -> float:
    """Return the seconds before attempt `number`, the `failures`-th end behind us: drawn from [0, limit], the limit
    doubling with each failure up to `retry_delay_max`."""
    limit = options.retry_delay * 2.0 ** min(failures - 1, 64)
    share = int(_draw("delay", options.seed, run, task, number)[:13], 16) / 16**13
    return round(min(limit, options.retry_delay_max) * share, 3)


def nonce(options: RunOptions, run: str, task: TaskId, number: int) -> str:
    """Return the 8 hex digits that make an attempt's id unguessable by other attempts and unique over rounds."""
    return _draw("nonce", options.seed, run, task, number)[:8]


def deadlock_id(options: RunOptions, run: str, victim: AttemptId) -> str:
    """Return the 8 hex digits that name a deadlock. An attempt is the victim of one at most."""
    return _draw("deadlock", options.seed, run, victim)[:8]


def _draw(*what: Any) -> str:
    return hashlib.blake2b("\0".join(map(str, what)).encode(), digest_size=8).hexdigest()
