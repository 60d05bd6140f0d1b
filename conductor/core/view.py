"""What people and scripts see of a run: one frozen picture of the state, in plan order, in the words of `cli.md`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bus.wire import AttemptId, TaskId
from conductor.core.attempt_view import waits_for_the_pool, waits_of_attempts
from conductor.core.awaited import closure, targets
from conductor.core.claims import Claims
from conductor.core.conflicts import Keys
from conductor.core.doors import STAGE, Doors
from conductor.core.ends import may_start, needs_a_person
from conductor.core.giving_up import goes_on
from conductor.core.policy import allowed
from conductor.core.rooms import rooms_of
from conductor.core.state import State, Task
from conductor.core.task import (
    Backoff,
    Blocked,
    Cancelled,
    Done,
    Exited,
    Failed,
    Plan,
    Ready,
    Running,
    RunOptions,
    Skipped,
    TaskSpec,
)
from conductor.core.transitions import Phase
from conductor.core.wait_view import WaitView as WaitView
from conductor.core.wait_view import waits_for_people
from conductor.core.waits import Deadlock, Life
from conductor.core.words import WORD_OF, WORDS


@dataclass(frozen=True, slots=True)
class ErrorView:
    """Why a task, or its newest attempt, did not succeed."""

    error_class: str
    message: str


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task."""

    id: TaskId
    name: str
    status: str
    """pending | ready | waiting | running | done | failed | blocked | skipped | cancelled."""
    attempts: int
    """Started ones since the task was set back last, in all rounds; the running one counts."""
    worker: AttemptId | None
    """The attempt that holds a slot now."""
    attempt: AttemptId | None
    """The newest attempt."""
    number: int
    """Of the newest attempt, started or not; 0 before the first."""
    started_at: float | None
    """Wall clock at the dispatch of the newest attempt."""
    ended_at: float | None
    exit: Mapping[str, Any] | None
    """`{"code", "signal"}` of the newest ended attempt."""
    error: ErrorView | None
    """Why it failed; of a task that waits, what its newest attempt came to."""
    last_error: ErrorView | None
    """What the newest ended attempt came to, also while another runs; None where it succeeded."""
    blocked_by: tuple[TaskId, ...]
    """All failed and cancelled tasks upstream, in plan order."""
    waits_for: tuple[WaitView, ...]
    reason: str | None
    """Why it was skipped, or by whom cancelled."""
    progress_pct: float | None
    progress_text: str
    usage: Mapping[str, Any] | None
    commit: str | None
    evidence: Mapping[str, Any] | None
    seconds: float | None
    """How long the command of the newest ended attempt ran."""
    stopping: str | None
    """Reason of the stop that is under way."""
    ran: bool
    """Whether the command of the newest attempt was started, or may have been: there may be output."""
    depends_on: tuple[TaskId, ...]
    estimate: float | None
    """Seconds that the plan expects an attempt to last."""
    retries_left: int
    """Counted failures that it may still have in this round before it is given up."""
    life: Life | None = None
    """What the evidence says of the running attempt; None where it never said anything but that it works."""
    deadlock: Deadlock | None = None
    """The deadlock that it is a member of."""
    asks: str | None = None
    """What a person has to do before it can run, or be done: `manual` (it is for a person), `approval`; else None."""
    to_do: str = ""
    """What the plan says to that person: instructions, what is said of the task, when it is accepted."""
    ordered: tuple[str, str, str] | None = None
    """What an operator ordered and is not carried out yet: verb, who, a text, perhaps empty."""


@dataclass(frozen=True, slots=True)
class RunView:
    """A run and its tasks."""

    id: str | None
    state: str
    """never_run | running | paused | draining | done | failed | stopped | escalated.
    Whether it was interrupted (no conductor,
    no end) is not in the journal."""
    reason: str | None
    started_at: float | None
    ended_at: float | None
    plan_sha: str | None
    project: str | None
    options: RunOptions | None
    stopped_by: str | None
    gave_up: str | None
    """Why nothing new starts although nobody asked for an end."""
    counts: Mapping[str, int]
    tasks: tuple[TaskView, ...]
    ignored: Mapping[str, int]
    """Late and repeated events, by type."""
    reset_at: float | None = None
    """Wall clock when everything was set back, where no round began since."""
    resumed: int = 0
    """How often a conductor took the round over: some of its time may have passed without one."""
    edited: tuple[str, ...] = ()
    """How the plan on disk differs from that of the run, in words."""
    deadlocks: tuple[Deadlock, ...] = ()
    """Those whose victim has not ended yet."""
    paused_by: str | None = None
    """Who asked that nothing new is started; None where that does not hold."""


def run_view(state: State) -> RunView:
    """Return the picture of a state."""
    run = state.run
    causes = blocked_by(state)
    waits = waits_for(state)
    options = run.options if run else RunOptions()
    tasks = tuple(_task(task, options, causes.get(task.id, ()), waits.get(task.id, ())) for task in state.order)
    if state.deadlocks:
        tied = {member["attempt"]: one for one in state.deadlocks.values() for member in one.members}
        tasks = tuple(replace(task, deadlock=tied[task.worker]) if task.worker in tied else task for task in tasks)
    counts = dict.fromkeys(WORDS, 0)
    for task in tasks:
        counts[task.status] += 1
    return RunView(
        id=run.id if run else None,
        state=_word(state),
        reason=run.reason if run else None,
        started_at=run.started_at if run else None,
        ended_at=run.ended_at if run else None,
        plan_sha=run.plan_sha if run else None,
        project=run.project if run else None,
        options=run.options if run else None,
        stopped_by=run.stopped_by if run else None,
        gave_up=run.gave_up if run else None,
        counts=counts,
        tasks=tasks,
        ignored=dict(state.ignored),
        edited=run.edited if run else (),
        reset_at=state.reset_at,
        resumed=run.resumed if run else 0,
        deadlocks=tuple(state.deadlocks.values()),
        paused_by=run.paused_by if run and state.phase is Phase.RUNNING else None,
    )


def _word(state: State) -> str:
    """Return how the run stands."""
    if state.run is None or state.phase is Phase.NEVER:
        return state.phase.value
    if state.run.end is not None:
        return state.run.end
    return "paused" if state.phase is Phase.RUNNING and state.run.paused_by else state.phase.value


def planned_view(plan: Plan) -> RunView:
    """Return the picture of a plan that was never run: all its tasks are pending."""
    order = [Task(spec, open=len(spec.depends_on)) for spec in plan.tasks]
    return run_view(State(plan=plan, tasks={task.id: task for task in order}, order=order))


def _task(task: Task, options: RunOptions, causes: tuple[TaskId, ...], waits: tuple[WaitView, ...]) -> TaskView:
    status, last = task.status, task.last
    alive = isinstance(status, (Running, Exited))
    pct, text = task.progress or (None, "")
    return TaskView(
        id=task.id,
        name=task.spec.name,
        status="waiting" if waits else WORD_OF[Ready if isinstance(status, Backoff) else type(status)],
        attempts=task.started + alive,
        worker=task.attempt if alive else None,
        attempt=task.attempt,
        number=task.number,
        started_at=task.started_at,
        ended_at=task.ended_at,
        exit=None if alive or last is None else last.exit,
        error=_error(task),
        last_error=ErrorView(last.error_class, last.message) if last and last.error_class else None,
        blocked_by=causes,
        waits_for=waits,
        reason=status.reason if isinstance(status, Skipped) else status.who if isinstance(status, Cancelled) else None,
        progress_pct=pct,
        progress_text=text,
        usage=task.usage,
        commit=task.commit,
        evidence=None if alive or last is None else last.evidence,
        seconds=None if alive or last is None else last.seconds,
        stopping=status.stopping if isinstance(status, (Running, Exited)) else None,
        ran=alive or (last is not None and last.started),
        depends_on=task.spec.depends_on,
        estimate=task.spec.estimate,
        retries_left=max(0, allowed(task.spec, options) - task.used),
        life=task.life if alive else None,
        asks="manual" if task.spec.manual else "approval" if needs_a_person(task) else None,
        to_do=_to_do(task.spec) if task.spec.manual or task.spec.approve else "",
        ordered=task.ordered if task.ordered and task.ordered[1] else None,  # a time limit is nobody's order
    )


def _to_do(spec: TaskSpec) -> str:
    accepted = f"It is accepted when: {spec.acceptance}" if spec.acceptance else ""
    return "\n".join(text.strip() for text in (spec.instructions, spec.prose, accepted) if text and text.strip())


def _error(task: Task) -> ErrorView | None:
    status, last = task.status, task.last
    if isinstance(status, Failed):
        return ErrorView(status.error_class, status.message)
    if isinstance(status, (Running, Exited, Done, Blocked)) or last is None or last.error_class is None:
        return None
    return ErrorView(last.error_class, last.message)


def blocked_by(state: State) -> dict[TaskId, tuple[TaskId, ...]]:
    """Return for each blocked task all failed and cancelled tasks upstream of it, in plan order."""
    causes: list[frozenset[int]] = [frozenset()] * len(state.order)
    for index in state.graph.order:
        status = state.order[index].status
        if isinstance(status, (Failed, Cancelled)):
            causes[index] = frozenset({index})
        elif isinstance(status, Blocked):
            above = {causes[dependency] for dependency in state.graph.dependencies[index]} - {frozenset()}
            causes[index] = above.pop() if len(above) == 1 else frozenset().union(*above)  # a chain shares one set
    return {
        task.id: tuple(state.order[index].id for index in sorted(causes[task.index]))
        for task in state.order
        if isinstance(task.status, Blocked)
    }


def waits_for(state: State) -> dict[TaskId, tuple[WaitView, ...]]:
    """Return what ready tasks wait for besides a slot, what is left of back-offs, and what attempts wait for."""
    if state.run is None:
        return {}
    going = goes_on(state.run)  # otherwise nothing new starts, whatever there is room for
    found: dict[TaskId, tuple[WaitView, ...]] = {
        task.id: (_backoff(task, task.status),) for task in state.order if going and isinstance(task.status, Backoff)
    }
    if state.running:
        found |= _held_up(state, state.run.options) if going else {}
        attempts = waits_of_attempts(state)
        for id, wait in waits_for_the_pool(state, frozenset(attempts)):
            found.setdefault(id, (wait,))
        found |= attempts
    for id, wait in waits_for_people(state):
        found[id] = (wait, *found.get(id, ()))
    return found


def _backoff(task: Task, status: Backoff) -> WaitView:
    until = None if task.ended_at is None else task.ended_at + status.delay
    return WaitView("backoff", f"attempt {task.number + 1}", None, until)


def _held_up(state: State, options: RunOptions) -> dict[TaskId, tuple[WaitView, ...]]:
    """Go through the ready tasks in order of priority, as the schedule would with slots for all."""
    keys = Keys(state.plan, options)
    rank_of, by_rank = state.ranks()
    claims = Claims(keys, by_rank)
    rooms = rooms_of(state.plan, options)
    full = [room for room in rooms if sum(1 for id in room.tasks if id in state.running) >= room.size]
    taken = {id: room for room in reversed(full) for id in room.tasks}
    doors = Doors(state, options)
    doors.look()
    for id in state.running:
        claims.run(rank_of[state.tasks[id].index])
    first = closure(state, targets(state))
    ready = [task.index for task in state.order if may_start(task)]
    found: dict[TaskId, tuple[WaitView, ...]] = {}
    for turn in sorted(rank_of[index] - len(by_rank) * (index in first) for index in ready):
        index = by_rank[turn]
        task = state.order[index]
        door = doors.closed(index)
        if door is not None and not (door[0] == STAGE and index in first):
            if door[0] == STAGE:
                found[task.id] = (WaitView("group", door[1], holder=None),)
            continue
        blocker = claims.blocker(turn)
        if blocker is not None:
            found[task.id] = (_conflict(state, keys, index, by_rank[blocker]),)
        elif (room := taken.get(task.id)) is not None:
            found[task.id] = (WaitView(room.kind, room.name),)
        if task.id in found:
            claims.wait(turn)
    return found


def _conflict(state: State, keys: Keys, index: int, blocker: int) -> WaitView:
    kind, name = keys.shared(index, blocker) or ("conflict", "")
    return WaitView(kind, name, state.order[blocker].id)
