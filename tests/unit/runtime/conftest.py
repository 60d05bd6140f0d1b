"""Journals of plays, on a bus: what a conductor would have written, without one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import pytest

from bus.contract import Host
from bus.wire import Record, Stamp
from conductor.core import codec
from conductor.core.events import RunStarted
from conductor.core.task import RunOptions, TaskSpec
from conductor.plan import frozen
from conductor.runtime.replay import Replayed
from conductor.testing import Play, plan_of, task_of
from tests.unit.runtime.stage import Stage


class Write(Protocol):
    def __call__(self, host: Host, play: Play, *, checkpoints: Iterable[int] = ()) -> list[Record]: ...


def _write(host: Host, play: Play, *, checkpoints: Iterable[int] = ()) -> list[Record]:
    written: list[Record] = []
    live, wanted = Replayed(), set(checkpoints)
    for number, (now, event) in enumerate(play.journal, 1):
        type, task, attempt, payload = codec.encode(event)
        if isinstance(event, RunStarted):
            sha = host.freeze_plan(frozen.dump(event.plan))
            payload = {**payload, "plan_sha": sha}
        record = host.stage(type, payload, Stamp(now + 1e9, now, "boot-1"), task=task, attempt=attempt)
        host.commit()
        host.project([record])
        live.take(record, host.load_plan)
        written.append(record)
        if number in wanted and (state := live.dump()) is not None:
            host.checkpoint(state)
    return written


@pytest.fixture
def write() -> Write:
    """Return what writes the journal of a play, with a snapshot behind each of `checkpoints` (events, from 1)."""
    return _write


@pytest.fixture
def stage() -> Iterator[Callable[..., Stage]]:
    made: list[Stage] = []

    def make(*tasks: str | TaskSpec, retries: int = 1, **options: object) -> Stage:
        specs = (task_of(one, run=("work",)) if isinstance(one, str) else one for one in tasks)
        plan = plan_of(*specs)
        made.append(Stage(plan, RunOptions(retries=retries, **options)))  # type: ignore[arg-type]
        made[-1].signals.__enter__()
        return made[-1]

    yield make
    for one in made:
        one.signals.__exit__()
