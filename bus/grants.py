"""What attempts hold and wait for, as `locks/` and `waits/` say it. Apart from the contract, which loads slowly."""

from __future__ import annotations

from dataclasses import dataclass

from bus.wire import AttemptId


@dataclass(frozen=True, slots=True)
class Grant:
    """What an attempt holds: one file in `locks/`, which is the truth. It never changes."""

    id: str
    """8 hex digits; unique with the attempt."""
    attempt: AttemptId
    keys: tuple[str, ...]
    """Canonical (`bus.keys`): files, folders (with what lies under them) and globs."""
    shared: bool
    """Whether others may hold the same keys, shared as well."""
    token: int
    """Grows with each grant of this bus. What is left of a grant of which a part was released keeps it."""
    since: str = ""
    """Wall clock, for people."""
    lasting: bool = False
    """Whether no `unlock` of the attempt ends it: its worker took it for its command."""


@dataclass(frozen=True, slots=True)
class WaitFile:
    """What an attempt waits for: one file in `waits/`, locked by the waiting process. It never changes."""

    id: str
    """8 hex digits; unique with the attempt. Of a question: what its answer names."""
    attempt: AttemptId
    kind: str
    """`lock`, `task` or `question`."""
    what: tuple[str, ...]
    """The keys, or the tasks' ids; nothing for a question."""
    shared: bool = False
    """Of a lock: whether it is wanted shared."""
    holders: tuple[AttemptId, ...] = ()
    """Of a lock: which attempts were in the way when the wait began; for people. Who is in the way at any time follows
    from grants and waits: `bus.contention.in_the_way`."""
    ticket: int = 0
    """Of a lock: its place in the queue. Waits with one ticket ask for their keys together, all or none."""
    text: str = ""
    """Of a question: what is asked."""
    since: str = ""
    """Wall clock, for people."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Why a lock is not granted now."""

    holders: tuple[AttemptId, ...]
    """The attempts in the way: they hold an overlapping key, or waited for one before."""
    waits: tuple[WaitFile, ...] = ()
    """The place in the queue: none where none was asked for."""
