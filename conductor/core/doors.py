"""What lets no task of some kind start, whatever is free: a pause of its workers, or a group whose time has not come.

Who stands behind a closed door holds no place in any line: nobody has to wait for it.
"""

from __future__ import annotations

from typing import Final

from conductor.core.health import kind_of
from conductor.core.stages import Stages
from conductor.core.state import State
from conductor.core.task import RunOptions

PROVIDER: Final = "provider"
STAGE: Final = "stage"

Door = tuple[str, str]
"""(`provider`, worker kind) or (`stage`, group)."""


class Doors:
    """Follows a state by `look`."""

    def __init__(self, state: State, options: RunOptions) -> None:
        self._state = state
        self._options = options
        self._kinds: frozenset[str] = frozenset()
        """Worker kinds of which nothing may start."""
        self._stages = Stages(state) if options.schedule == "groups" else None
        self._stage: int | None = None
        """Number of the group that is open."""

    def look(self) -> tuple[list[Door], list[Door]]:
        """Look at the state anew; return the doors that were opened and those that were closed."""
        state = self._state
        if self._stages is None and not state.providers and not self._kinds:
            return [], []
        kinds = frozenset(kind for kind, pause in state.providers.items() if pause.probe != "")
        opened: list[Door] = [(PROVIDER, kind) for kind in sorted(self._kinds - kinds)]
        closed: list[Door] = [(PROVIDER, kind) for kind in sorted(kinds - self._kinds)]
        self._kinds = kinds
        if self._stages is not None and (stage := self._stages.open()) != self._stage:
            opened += [] if stage is None else [(STAGE, state.plan.groups[stage].id)]
            closed += [] if self._stage is None else [(STAGE, state.plan.groups[self._stage].id)]
            self._stage = stage
        return opened, closed

    def closed(self, index: int) -> Door | None:
        """Return the closed door that a task stands behind, as of the last look."""
        if self._kinds:
            kind = kind_of(self._state.order[index].spec, self._options)
            if kind in self._kinds:
                return PROVIDER, kind
        stage = None if self._stages is None else self._stages.of[index]
        return None if stage is None or stage == self._stage else (STAGE, self._state.plan.groups[stage].id)
