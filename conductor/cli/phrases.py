"""What a journal record says, in one line of plain words. Pure. Foreign text in it is not yet made safe to show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bus.wire import JsonObject, Record, dumps
from conductor.cli import phrases_supervision
from conductor.cli.output import counts_line
from conductor.cli.phrases_supervision import control
from conductor.core.health import PROVIDER_CLASSES
from conductor.core.reasons import gave_up_line
from conductor.core.why import gave_up_text, state_text, stopping_text
from conductor.core.wording import duration, few, person, plural

BEGINS = frozenset({"RUN_STARTED", "RUN_RESUMED"})
"""Records with which a run begins or goes on."""


def phrase(record: Record) -> str:
    """Describe a record; types we do not know show their payload."""
    tell = _PHRASES.get(record.type)
    if tell is not None:
        try:
            return tell(record.payload)
        except (KeyError, TypeError, ValueError, AttributeError):
            pass  # a payload of another version: show it as it is
    return dumps(record.payload) if record.payload else ""


def is_question(record: Record) -> bool:
    """Tell whether a worker asks something: then a person is waited for."""
    return record.type == "WAIT_BEGAN" and record.payload.get("kind") == "question"


def is_order(record: Record) -> bool:
    """Tell whether an operator orders something other than the end, which has a place of its own on each screen."""
    return record.type == "CONTROL" and record.payload.get("verb") not in ("drain", "stop")


def ending(exit: Mapping[str, Any] | None) -> str:
    """Say how a command ended: `exit 3`, `signal 9`, or nothing where it is not known."""
    if not exit:
        return ""
    if exit.get("signal") is not None:
        return f"signal {exit['signal']}"
    return f"exit {exit['code']}" if exit.get("code") is not None else ""


def _run_started(payload: JsonObject) -> str:
    workers = payload.get("options", {}).get("max_workers")
    where = f" in {payload['project']}" if payload.get("project") else ""
    return f"run {payload['run']} started{where}" + (f", up to {plural(workers, 'worker')}" if workers else "")


def _result(payload: JsonObject) -> str:
    exit = payload.get("exit", payload)
    if not exit.get("started", True):
        why = str(exit.get("why") or "no reason given")
        return f"the command was not started: {why.removeprefix('spawn: ')}"
    took = f" after {duration(exit['seconds'])}" if exit.get("seconds") is not None else ""
    by = exit.get("ended_by", "self")
    return f"command ended: {ending(exit.get('command')) or 'unknown'}{took}" + ("" if by == "self" else f" ({by})")


def _report(payload: JsonObject) -> str:
    report = payload.get("report", payload)
    if report.get("verb") == "fail":
        return f"reports failure: {report.get('message', '')}"
    return "reports completion" + (f", commit {report['commit']}" if report.get("commit") else "")


def _progress(payload: JsonObject) -> str:
    pct = payload.get("pct")
    return " ".join(part for part in (f"{pct:.0f} %" if pct is not None else "", payload.get("text") or "") if part)


def _attempt_ended(payload: JsonObject) -> str:
    took = f" after {duration(payload['seconds'])}" if payload.get("seconds") is not None else ""
    if payload.get("error_class") is None:
        left = f"; {payload['message']}" if payload.get("message") else ""
        return f"attempt {payload['number']} succeeded{took}{left}"
    if payload["error_class"] == "stopped":
        return f"attempt {payload['number']} stopped{took}"
    return f"attempt {payload['number']} failed{took}: {payload.get('message') or payload['error_class']}"


def _retry(payload: JsonObject) -> str:
    if payload.get("error_class") in PROVIDER_CLASSES:
        return f"attempt {payload['number']} once workers of its kind may start again"
    return f"attempt {payload['number']} in {duration(payload['delay'])}"


def _complete(payload: JsonObject) -> str:
    parts = ["done"]
    if payload.get("commit_sha"):
        parts.append(f"commit {payload['commit_sha']}")
    if payload.get("unblocks"):
        parts.append(f"unblocks {few(payload['unblocks'])}")
    return ", ".join(parts)


def _failed(payload: JsonObject) -> str:
    return f"failed: {payload['error'] or payload.get('error_class')}"


def draining(who: str) -> str:
    """Say how the running tasks can be stopped while a run drains, to whoever (`person`) asked for that with a key."""
    return "Ctrl-C again stops the running tasks" if who == "Ctrl-C" else ""


def _control(payload: JsonObject) -> str:
    who = person(str(payload.get("who") or "operator"))
    if payload["verb"] == "drain":
        return f"draining: {draining(who)}" if draining(who) else f"draining (asked for by {who})"
    if payload["verb"] == "reset":
        what = (
            f"{few(payload['tasks'], 10)} set back to pending" if payload.get("target") else "all set back to pending"
        )
        return f"{what} by {who}"
    return control(payload)


def _plan_edited(payload: JsonObject) -> str:
    changes = f" ({'; '.join(payload['changes'])})" if payload.get("changes") else ""
    return f"{payload['source']} was edited; the edit is not applied until this run has ended{changes}"


def _run_ended(payload: JsonObject) -> str:
    why = f" ({gave_up_text(payload['reason'])})" if payload.get("reason") not in (None, payload["state"]) else ""
    return f"run ended: {state_text(payload['state'])}{why}: {counts_line(payload.get('counts', {}))}"


_PHRASES: Mapping[str, Callable[[JsonObject], str]] = {
    **phrases_supervision.PHRASES,
    "RUN_STARTED": _run_started,
    "RUN_RESUMED": lambda p: f"run {p['run']} goes on after record {p['from_seq']}",
    "WORKER_DISPATCHED": lambda p: f"attempt {p['number']} started",
    "RESULT": _result,
    "REPORT": _report,
    "PROGRESS": _progress,
    "NOTE": lambda p: p["text"],
    "WORKER_GONE": lambda p: f"the worker is gone: {p['detail']}",
    "LAUNCH_FAILED": lambda p: f"no worker could be started: {p['error']}",
    "ATTEMPT_ADOPTED": lambda _: "still running, watched again",
    "TIMER_FIRED": lambda p: f"timer {p['key']}",
    "CONTROL": _control,
    "STOP": lambda p: stopping_text(p["reason"]),
    "ATTEMPT_ENDED": _attempt_ended,
    "RETRY_SCHEDULED": _retry,
    "TASK_COMPLETE": _complete,
    "TASK_FAILED": _failed,
    "TASK_BLOCKED": lambda p: f"blocked by {few(p['blocked_by'])}",
    "TASK_SKIPPED": lambda p: f"skipped: {gave_up_text(p['reason'])}",
    "TASK_CANCELLED": lambda p: "cancelled" + (f" by {person(p['who'])}" if p.get("who") else ""),
    "RUN_GAVE_UP": lambda p: gave_up_line(p["reason"], text=p.get("text", "")),
    "RUN_ENDED": _run_ended,
    "PLAN_EDITED": _plan_edited,
    "FOREIGN_WRITE": lambda p: f"{p['name']} put aside: {p['reason']}",
    "QUARANTINED": lambda p: f"{p['name']} put aside: {p['reason']}",
}
