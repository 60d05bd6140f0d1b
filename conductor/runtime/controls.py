"""Operators' orders on their way into the journal: what each is about, why it may mean nothing now, what it brings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bus import contention
from bus.real_paths import key_of
from conductor.core.events import ControlReceived, Fact
from conductor.core.machine import Machine
from conductor.core.state import State
from conductor.core.supervision import PlanReloaded
from conductor.core.wait_events import GrantGone
from conductor.core.wording import few

TAKEN = "taken"
"""How a grant is gone that an operator took by force."""

Reload = Callable[[State], PlanReloaded | str]
"""Reads the plan anew; a text says why the round cannot go on with it."""


@dataclass(frozen=True, slots=True)
class Completed:
    """An order, and what it brings about."""

    order: ControlReceived
    """As it is to be recorded: with the tasks that it is about, or with the reason why it means nothing (`refused`)."""
    facts: tuple[Fact, ...] = ()
    """To be recorded right behind it."""


class Controls:
    """Completes orders before they are recorded."""

    def __init__(self, machine: Machine, reload: Reload) -> None:
        self._machine = machine
        self._reload = reload

    def complete(self, order: ControlReceived) -> Completed:
        """Return the order as it is to be recorded, and what follows. One that means nothing now says why."""
        order = self._machine.resolve(order)
        if order.refused is not None:
            return Completed(order)
        match order.verb:
            case "unlock":
                return unlock(order, self._machine.state)
            case "reload":
                found = self._reload(self._machine.state)
                if isinstance(found, str):
                    return Completed(replace(order, refused=found))
                return Completed(order, (found,))
            case _:
                return Completed(order)


def unlock(order: ControlReceived, state: State) -> Completed:
    """Return the order, and that the grants which have something in common with its target are taken by force."""
    target = order.target or ""
    project = state.run.project if state.run else "/"
    try:
        key = key_of(target, project=project)
    except (ValueError, OSError) as error:
        return Completed(replace(order, refused=f"{target} cannot be locked: {error}"))
    taken = contention.overlapping(state.grants.values(), key)
    if not taken:
        held = sorted({f"{held} (by {grant.task})" for grant in state.grants.values() for held in grant.keys})
        return Completed(replace(order, refused=f"nobody holds {key}" + (f"; held: {few(held, 10)}" if held else "")))
    tasks = tuple(dict.fromkeys(grant.task for grant in taken))
    gone = (GrantGone(grant.task, grant.attempt, grant.id, TAKEN, grant.keys) for grant in taken)
    return Completed(replace(order, tasks=tasks), tuple(gone))
