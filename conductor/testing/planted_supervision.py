"""Bugs of supervision to plant into the product, by name: locks, waits, deadlocks, orders, gates."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any
from unittest import mock

from bus import contention
from bus.contract import Grant, Host, WaitFile
from bus.host import FileHost
from bus.locks import FileStore
from bus.wire import TaskId
from conductor.core import apply, deadlock, ends, orders
from conductor.core.agenda import Agenda
from conductor.core.contest import live_waits
from conductor.core.events import ControlReceived, Decision
from conductor.core.instructions import CancelTimer, Instruction
from conductor.core.machine import Machine
from conductor.core.state import State
from conductor.core.task import Backoff
from conductor.core.wait_changes import grant_gone
from conductor.core.wait_events import DeadlockResolved, GrantGone
from conductor.core.waits import Wait, name_of
from conductor.runtime.messages import Messages
from conductor.runtime.waiting import Waiting

Plant = Callable[[], AbstractContextManager[object]]


def replaced(owner: Any, name: str, planted: Callable[..., object]) -> Plant:
    """A bug that stands in the place of one function."""
    return lambda: mock.patch.object(owner, name, planted)


# --- locks ----------------------------------------------------------------------------------------------------------


def _look_without_dead_workers(self: Waiting, *args: Any) -> Any:
    """Takes a free lock on `live` for the end of all that an attempt writes."""
    host: Host = self._host
    host.take_grants([one for one in host.grants() if host.read_proc(one.attempt) and not host.is_live(one.attempt)])
    return _look(self, *args)


_look = Waiting.look


def _seen_once(self: Waiting) -> tuple[dict[str, Grant], dict[str, WaitFile]]:
    """What was held a moment ago is taken for what is held by whoever waits now."""
    grants = {name_of(one.attempt, one.id): one for one in self._host.grants()}
    return grants, {name_of(one.attempt, one.id): one for one in self._host.waits()}


def _equal(a: str, b: str) -> bool:
    """A folder is another key than what lies in it."""
    return a == b


# --- deadlocks ------------------------------------------------------------------------------------------------------


def _cancel_in_any_case(self: Machine, decision: Decision) -> list[Instruction]:
    """Any decision about a task ends its back-off."""
    if isinstance(decision, DeadlockResolved):
        task = self.state.tasks[decision.task]
        return [CancelTimer(f"retry:{task.id}")] if isinstance(task.status, Backoff) else []
    return _timers_to_cancel(self, decision)


_timers_to_cancel = Machine._timers_to_cancel


def _people_never_answer(state: State) -> dict[TaskId, list[Wait]]:
    """Who waits for a person is taken for one who waits for ever."""
    found = live_waits(state)
    return {id: [_for_itself(wait) for wait in waits] for id, waits in found.items()}


def _for_itself(wait: Wait) -> Wait:
    return replace(wait, kind="task", what=(wait.task,)) if wait.kind == "question" else wait


# --- orders and gates -----------------------------------------------------------------------------------------------


def _taken_is_released(state: State, event: GrantGone, moment: Any) -> None:
    grant_gone(state, replace(event, how="released"), moment)


def _obey_all_but_pause(state: State, order: ControlReceived, moment: Any) -> None:
    if order.verb != "pause":
        _obey(state, order, moment)


_obey = orders.obey


def _only_messages(self: Messages, id: object) -> bool:
    return id in self._ids


SUPERVISION: dict[str, Plant] = {
    "lock-without-mutex": replaced(FileStore, "alone", lambda self, patience=None: nullcontext()),
    "lock-by-name-alone": replaced(contention, "overlap", _equal),
    "lock-freed-by-the-worker's-death": replaced(Waiting, "look", _look_without_dead_workers),
    "lock-left": replaced(FileHost, "close_attempt", lambda self, attempt: None),
    "robbed-counts": lambda: mock.patch.dict(apply._APPLY, {GrantGone: _taken_is_released}),
    "deadlock-unseen": replaced(Agenda, "deadlock", lambda self: None),
    "deadlock-of-askers": replaced(deadlock, "live_waits", _people_never_answer),
    "deadlock-of-the-past": replaced(Waiting, "_read", _seen_once),
    "victim-forgotten": replaced(Machine, "_timers_to_cancel", _cancel_in_any_case),
    "pause-unheeded": replaced(orders, "obey", _obey_all_but_pause),
    "order-repeated": replaced(Messages, "__contains__", _only_messages),
    "gate-open": replaced(ends, "needs_approval", lambda task: False),
}
"""A context for each: the bug is there as long as it lasts."""
