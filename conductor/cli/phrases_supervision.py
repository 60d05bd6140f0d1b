"""What the records about locks, waits, lives, gates, pauses and orders say, in a line each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bus.wire import JsonObject
from conductor.core.why_waits import deadlock_text
from conductor.core.wording import duration, few, person


def control(payload: JsonObject) -> str:
    """Say who ordered what, and why nothing comes of it."""
    verb, who = payload["verb"], person(str(payload.get("who") or "operator"))
    target = f" {payload['target']}" if payload.get("target") else ""
    text = f": {payload['text']}" if payload.get("text") else ""
    moved = payload.get("tasks") or ()
    back = f"; back to pending: {few(moved, 10)}" if verb == "retry" and moved else ""
    refused = f"; refused: {payload['refused']}" if payload.get("refused") else ""
    return f"{verb}{target} by {who}{text}{back}{refused}"


def _keys(payload: JsonObject) -> str:
    return few(payload["keys"]) + (" with others" if payload.get("shared") else "")


def _let_go(payload: JsonObject) -> str:
    taken = "a lock was taken away from it: what it does counts for nothing"
    return {"released": "lets go of a lock", "taken": taken}.get(payload["how"], "its lock ends with it")


def _wait_began(payload: JsonObject) -> str:
    if payload["kind"] == "question":
        return f"asks: {payload['text']} (question {payload['wait']})"
    what = few(payload["what"])
    return f"waits for task {what}" if payload["kind"] == "task" else f"waits for {what}"


def _life(payload: JsonObject) -> str:
    return f"{payload['life']}: {payload['detail']}" if payload.get("detail") else str(payload["life"])


def _asked(payload: JsonObject) -> str:
    return "waits for approval to start" if payload["when"] == "before" else "its work is done and waits for approval"


def _held_back(payload: JsonObject) -> str:
    why = "too many failed in a row" if payload["error_class"] == "breaker" else payload["error_class"]
    seconds = payload.get("seconds")
    until = "until it is resumed" if seconds is None else f"for {duration(seconds)}"
    return f"no {payload['provider']} is started {until}: {why}"


def _reloaded(payload: JsonObject) -> str:
    changes = f": {'; '.join(payload['changes'])}" if payload.get("changes") else ""
    return f"the run follows the plan as it is now{changes}"


def _locked(payload: JsonObject) -> str:
    return few([str(path) for path in payload["filepaths"]])


PHRASES: Mapping[str, Callable[[JsonObject], str]] = {
    "GRANT_SEEN": lambda p: f"holds {_keys(p)}",
    "GRANT_GONE": _let_go,
    "WAIT_BEGAN": _wait_began,
    "WAIT_ENDED": lambda _: "waits no more",
    "ATTEMPT_LIFE": _life,
    "DEADLOCK_DETECTED": lambda p: f"deadlock: {deadlock_text(p['members'], p['victim'], p['rule'])}",
    "DEADLOCK_RESOLVED": lambda _: "the deadlock is over",
    "APPROVAL_ASKED": _asked,
    "MANUAL_OPENED": lambda _: "is for a person to do now",
    "PROVIDER_PAUSED": _held_back,
    "PROVIDER_RESUMED": lambda p: f"{p['provider']} is started again: {p['why']}",
    "PLAN_RELOADED": _reloaded,
    "FILE_LOCK": lambda p: f"locks {_locked(p)}",
    "FILE_UNLOCK": lambda p: f"unlocks {_locked(p)}",
    "BLOCKED": lambda p: f"waits for {few([str(one) for one in p['resource']])}",
    "QUESTION": lambda p: f"asks: {p['text']}",
}
