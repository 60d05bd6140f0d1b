"""Files of grants and waits become facts: what is new, what is gone, and never half of a picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from bus import layout
from bus.contract import Grant, Host, WaitFile
from bus.wire import AttemptId, TaskId, WorkerSpec
from conductor.core import waits
from conductor.core.state import State, Task
from conductor.core.task import TaskSpec
from conductor.core.wait_events import GrantGone, GrantSeen, WaitBegan, WaitEnded
from conductor.runtime.waiting import Waiting
from conductor.testing import ending
from tests.unit.runtime.stage import Stage, Workers, go_on

ONE = layout.attempt_id(TaskId("1"), 1, "0a1b2c3d")
OPEN = {TaskId("1"): ONE}


class Host_:
    """Grants and waits as a test says; each look at the waits may find others."""

    def __init__(self) -> None:
        self.held: list[Grant] = []
        self.looks: list[list[WaitFile] | OSError] = []
        self.closed: list[AttemptId] = []
        self.told: list[tuple[AttemptId, str]] = []
        self.taken: list[str] = []

    def grants(self) -> tuple[Grant, ...]:
        return tuple(self.held)

    def waits(self) -> tuple[WaitFile, ...]:
        found = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0] if self.looks else []
        if isinstance(found, OSError):
            raise found
        return tuple(found)

    def close_attempt(self, attempt: AttemptId) -> None:
        self.closed.append(attempt)

    def revoke(self, attempt: AttemptId, reason: str) -> None:
        self.told.append((attempt, reason))

    def take_grants(self, grants: list[Grant]) -> None:
        self.taken += [grant.id for grant in grants]


@pytest.fixture
def host() -> Host_:
    return Host_()


@pytest.fixture
def state() -> State:
    return State(tasks={TaskId("1"): Task(TaskSpec(TaskId("1"), "one", 0), open=0, number=1)})


def waiting(host: Host_) -> Waiting:
    return Waiting(cast(Host, host))


def grant(id: str = "g", attempt: AttemptId = ONE) -> Grant:
    return Grant(id, attempt, ("a", "b"), True, 7)


def wait(id: str = "w", attempt: AttemptId = ONE) -> WaitFile:
    return WaitFile(id, attempt, "lock", ("c",), False, (), 3)


def knows(state: State, *files: Grant | WaitFile) -> None:
    """Let the state have seen these."""
    for one in files:
        name = waits.name_of(one.attempt, one.id)
        if isinstance(one, Grant):
            state.grants[name] = waits.Grant(one.id, TaskId("1"), one.attempt, one.keys, one.shared, one.token, 0.0)
        else:
            state.waits[name] = waits.Wait(
                one.id, TaskId("1"), one.attempt, one.kind, one.what, one.shared, one.ticket, "", 0.0
            )


def test_what_is_new_is_told_once_with_all_that_it_says(host: Host_, state: State) -> None:
    host.held, host.looks = [grant()], [[wait()]]
    found = waiting(host).look(state, OPEN)
    assert found.gone == ()
    assert found.come == (
        GrantSeen(TaskId("1"), ONE, "g", ("a", "b"), True, 7),
        WaitBegan(TaskId("1"), ONE, "w", "lock", ("c",), False, 3, ""),
    )
    knows(state, grant(), wait())
    assert waiting(host).look(state, OPEN).come == ()


def test_what_is_gone_is_told_and_whether_its_attempt_is_over(host: Host_, state: State) -> None:
    knows(state, grant(), wait())
    assert waiting(host).look(state, OPEN).gone == (
        GrantGone(TaskId("1"), ONE, "g", "released", ("a", "b")),
        WaitEnded(TaskId("1"), ONE, "w", "over"),
    )
    assert {cast(GrantGone, fact).how for fact in waiting(host).look(state, {}).gone} == {"closed"}


@pytest.mark.parametrize("looks", [[[wait()], []], [[], [wait()]]])
def test_requirement_12_a_wait_counts_only_where_it_lasted_all_the_while(
    host: Host_, state: State, looks: list[list[WaitFile]]
) -> None:
    """Otherwise a grant that its holder got behind that wait would close a cycle that never was."""
    host.held, host.looks = [grant()], [*looks, []]
    assert [type(fact) for fact in waiting(host).look(state, OPEN).come] == [GrantSeen]
    knows(state, wait())
    host.looks = [*looks, []]
    assert [type(fact) for fact in waiting(host).look(state, OPEN).gone] == [WaitEnded]


def test_nothing_is_concluded_from_what_cannot_be_read(host: Host_, state: State) -> None:
    knows(state, grant(), wait())
    host.looks = [OSError("input/output error"), []]
    one = waiting(host)
    found = one.look(state, OPEN)
    assert (found.gone, found.come, one.unreadable) == ((), (), True)
    assert len(one.look(state, OPEN).gone) == 2
    assert not one.unreadable


def test_what_is_left_of_an_attempt_that_is_over_is_put_an_end_to(host: Host_, state: State) -> None:
    unknown = layout.attempt_id(TaskId("1"), 2, "0a1b2c3d")
    left_out = layout.attempt_id(TaskId("old"), 4, "0a1b2c3d")
    cut = layout.attempt_id(TaskId("x" * 300), 1, "0a1b2c3d")
    state.retired[TaskId("old")] = 4
    host.held = [grant("1", ONE), grant("2", unknown), grant("3", cut)]
    host.looks = [[wait("4", left_out)]]
    found = waiting(host).look(state, {})
    assert host.closed == [ONE, left_out], "of what the journal does not tell nothing is known"
    assert host.told == [(ONE, "ended"), (left_out, "ended")]
    assert found.come == ()


def test_requirement_18_what_could_not_be_ended_keeps_what_it_holds(host: Host_, state: State) -> None:
    state.unkillable[ONE] = TaskId("1")
    host.held = [grant()]
    waiting(host).look(state, {})
    assert host.closed == []


def test_requirement_11_a_grant_that_was_taken_is_no_news_while_it_cannot_be_removed(host: Host_, state: State) -> None:
    host.held = [grant("g"), grant("other")]
    one = waiting(host)
    one.take([GrantGone(TaskId("1"), ONE, "g", "taken")])
    assert host.taken == ["g"]
    assert [cast(GrantSeen, fact).grant for fact in one.look(state, OPEN).come] == ["other"]
    assert host.taken == ["g", "g"], "it is tried again"
    host.held = []
    one.look(state, OPEN)
    host.held = [grant("g")]
    assert [cast(GrantSeen, fact).grant for fact in one.look(state, OPEN).come] == ["g"]


def test_a_run_records_what_its_attempts_hold_and_wait_for(stage: Callable[..., Stage]) -> None:
    one = stage("1", "2")

    def hold(spec: WorkerSpec, workers: Workers) -> None:
        workers.held[spec.attempt] = -1
        hand = workers.bus.hand(spec.attempt)
        assert hand.try_lock([("a", False)])

    def want(spec: WorkerSpec, workers: Workers) -> None:
        hand = workers.bus.hand(spec.attempt)
        hand.try_lock([("a", False)], queue=True)
        workers.behaviour["2"] = go_on

    one.workers.behaviour |= {"1": hold, "2": want}
    one.workers.held = {}

    def end_both() -> None:
        assert one.replayed is not None
        state = one.replayed.machine.state
        assert [found.task for found in state.grants.values()] == ["1"]
        assert [(found.task, found.what) for found in state.waits.values()] == [("2", ("a",))]
        for attempt in list(one.workers.orders):
            one.workers.held.pop(attempt, None)
            one.workers.end(attempt, ending("ok"))

    one.watcher.asleep = [lambda: None, lambda: None, lambda: None, end_both]
    one.run()
    assert [type for type in one.types("1") if type.startswith("GRANT_")] == ["GRANT_SEEN", "GRANT_GONE"]
    assert [type for type in one.types("2") if type.startswith("WAIT_")] == ["WAIT_BEGAN", "WAIT_ENDED"]
