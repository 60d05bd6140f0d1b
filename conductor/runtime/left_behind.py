"""What an earlier run could not end (class `unkillable`): no new attempt of its task begins beside it."""

from __future__ import annotations

import select

from bus.contract import Host
from bus.wire import AttemptId
from conductor.core.state import State
from conductor.errors import ConductorError
from conductor.runtime.attempts import OUT_OF_SIGHT, end_tree
from conductor.runtime.launch.base import Launcher

TRIES, PAUSE = 20, 0.05
"""How often the end of a tree is tried, and seconds in between: a process that KILL reaches is gone by then."""


def refuse_left_behind(host: Host, launcher: Launcher, state: State) -> None:
    """Raise ConductorError where something of a closed attempt lives that could not be ended, and cannot be now.

    It may still write to the files of its task. What is gone by now lets go of what it held.
    """
    for attempt, task in state.unkillable.items():
        if not _ends(host, launcher, attempt):
            left = launcher.remains(attempt) or OUT_OF_SIGHT
            raise ConductorError(
                "held_by_other",
                f"an attempt of task {task} that could not be ended still lives ({left}): another one beside it "
                "might write the same files",
                hint="wait until it is gone (state D ends with what it waits for in the kernel, such as a mount), or "
                "restart the machine; then run again",
            )
        host.close_attempt(attempt)


def _ends(host: Host, launcher: Launcher, attempt: AttemptId) -> bool:
    """End what is left of an attempt; True once nothing is."""
    for _ in range(TRIES):
        if end_tree(host, launcher, attempt, stopped=True):
            return True
        select.select((), (), (), PAUSE)
    return False
