"""What tasks wait for, as people and scripts see it; and which of them wait for a person, or for a provider."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bus.wire import TaskId
from conductor.core.health import kind_of
from conductor.core.state import State
from conductor.core.task import AwaitsApproval, Manual, Ready
from conductor.core.transitions import Phase


@dataclass(frozen=True, slots=True)
class WaitView:
    """Something with a name that a task waits for."""

    kind: str
    """conflict | resource | group | backoff | provider | approval | manual | paused | lock | task | answer | pool."""
    what: str
    """The file, resource, group, kind of workers or task; the number of the attempt to come; `before` or `after` of an
    approval; who paused the run; the id of a question."""
    holder: TaskId | None = None
    """The task in the way."""
    until: float | None = None
    """Wall clock; None where nobody can say."""
    text: str = ""
    """The question."""


def waits_for_people(state: State) -> Iterator[tuple[TaskId, WaitView]]:
    """Yield what stands at a gate, is for a person, or could start if neither run nor kind of workers were held."""
    run = state.run
    assert run is not None, "before a run begins nothing waits"
    going = state.phase is Phase.RUNNING and not run.gave_up
    for task in state.order:
        match task.status:
            case AwaitsApproval(when):
                yield task.id, WaitView("approval", when)
            case Manual():
                yield task.id, WaitView("manual", "a person")
            case Ready() if going and run.paused_by:
                yield task.id, WaitView("paused", run.paused_by)
            case Ready() if going:
                kind = kind_of(task.spec, run.options)
                pause = state.providers.get(kind)
                if pause is not None and pause.over is None and pause.probe != "":
                    yield task.id, WaitView("provider", kind, until=pause.until)
            case _:
                pass
