"""Which tasks must not run side by side: overlapping files and common resources, found through an index.

Every distinct pattern and resource of a plan is one *key*; which keys overlap is a fixed fact of the plan, looked up in
a tree of path segments and remembered. Two tasks conflict if they claim overlapping keys and at least one exclusively.
A task enters the index when it is first asked about, so that tasks which are done already cost nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice

from bus import patterns
from bus.patterns import Segments
from bus.wire import TaskId
from conductor.core import graph
from conductor.core.rooms import counted
from conductor.core.task import PURE_READ, Plan, RunOptions, TaskSpec

MAX_PAIRS = 10_000
"""Pairs that are listed at most: enough for every reader; a plan of one shared file has millions."""

MAX_COMPARED = 1_000_000
"""Patterns that a listing compares at most: some seconds. Globs in one folder are compared each with each."""

_BLOCK = 4096
"""Tasks whose ancestry is followed in one walk over the graph, as bits of one integer."""

ALONE = "a turn of its own (--parallel pure-read)"
"""What all tasks share where only pure reads run side by side: those share it, all others have it alone."""

Claim = tuple[int, bool]
"""(key, whether exclusively)."""


def overlap(a: str, b: str) -> bool:
    """Tell whether two file patterns have a path in common. Example: `src/*` and `src/api/x.py` do."""
    return patterns.overlap(patterns.split(a), patterns.split(b))


@dataclass(slots=True)
class _Node:
    """A place in the tree of patterns: the literal segments down to here."""

    children: dict[str, _Node] = field(default_factory=dict)
    end: int | None = None
    """Key of the pattern that ends here."""
    wild: list[int] = field(default_factory=list)
    """Keys of patterns that go on from here with a wildcard."""


class Keys:
    """The keys of the tasks that were asked about: who claims which, and which overlap."""

    def __init__(self, plan: Plan, options: RunOptions | None = None) -> None:
        """`options` say what excludes nobody (files that are not serialized, resources that there are several of), and
        whether tasks whose effect is no pure read exclude all others."""
        self._tasks = plan.tasks
        self._files = options is None or options.on_conflict == "serialize"
        self._counted = frozenset[str]() if options is None else counted(options.resources)
        self._effects = options is not None and options.parallel == "pure-read"
        self._root = _Node()
        self._names: list[str] = []
        self._segments: list[Segments | None] = []
        self._ids: dict[Segments | str, int] = {}
        self._neighbours: dict[int, dict[int, None]] = {}
        """Of each key whose neighbours were asked for: those among the keys of now."""
        self.compared = 0
        """Patterns that were compared so far."""
        self._claims: list[tuple[Claim, ...] | None] = [None] * len(plan.tasks)

    def claims(self, index: int) -> tuple[Claim, ...]:
        """Return the claims of a task, by its place in the plan."""
        found = self._claims[index]
        if found is None:
            found = self._claims[index] = self._claims_of(self._tasks[index])
        return found

    def name(self, key: int) -> str:
        """Return the pattern as first written, or the resource."""
        return self._names[key]

    def neighbours(self, key: int) -> Collection[int]:
        """Return the known keys that overlap `key`, itself among them."""
        found = self._neighbours.get(key)
        if found is None:
            segments = self._segments[key]
            near = [key] if segments is None else list(self._near(segments))
            self.compared += len(near)
            found = self._neighbours[key] = dict.fromkeys(other for other in near if self._meet(key, other))
        return found

    def shared(self, a: int, b: int) -> tuple[str, str] | None:
        """Return over what the tasks `a` and `b` conflict: (`conflict` or `resource`, its name); None where they do
        not."""
        ours, theirs = self.claims(a), self.claims(b)
        for key, exclusive in ours if theirs else ():
            near = self.neighbours(key)
            for other, too in theirs:
                if (exclusive or too) and other in near:
                    kind = "resource" if self._segments[key] is None else "conflict"
                    return kind, self._more_exact(key, other)
        return None

    def _more_exact(self, key: int, other: int) -> str:
        """Of two overlapping patterns, name the one without wildcards."""
        a, b = self._names[key], self._names[other]
        return b if any(map(patterns.is_wild, a.split("/"))) else a

    def _claims_of(self, task: TaskSpec) -> tuple[Claim, ...]:
        claims: dict[int, bool] = {}
        if self._files:
            for pattern in task.reads:
                claims[self._file(pattern)] = False
            for pattern in task.files:
                claims[self._file(pattern)] = True
        for resource in task.resources:
            if resource not in self._counted:
                claims[self._key(f"resource {resource}", resource, None)] = True
        if self._effects:
            claims[self._key("effect", ALONE, None)] = task.effect != PURE_READ
        return tuple(claims.items())

    def _key(self, identity: Segments | str, name: str, segments: Segments | None) -> int:
        key = self._ids.setdefault(identity, len(self._names))
        if key == len(self._names):
            self._names.append(name)
            self._segments.append(segments)
        return key

    def _file(self, pattern: str) -> int:
        segments = patterns.split(pattern)
        known = len(self._names)
        key = self._key(segments, pattern, segments)
        if key == known:
            self._insert(segments, key)
            if self._neighbours:  # to overlap is mutual: whoever asked before is told of the new one
                for other in self.neighbours(key):
                    if other != key and (asked := self._neighbours.get(other)) is not None:
                        asked[key] = None
        return key

    def _insert(self, segments: Segments, key: int) -> None:
        node = self._root
        for segment in segments:
            if patterns.is_wild(segment):
                node.wild.append(key)
                return
            node = node.children.setdefault(segment, _Node())
        node.end = key

    def _meet(self, a: int, b: int) -> bool:
        left, right = self._segments[a], self._segments[b]
        return a == b or (left is not None and right is not None and patterns.overlap(left, right))

    def _near(self, segments: Segments) -> Iterator[int]:
        """Yield the keys that may overlap: those on the literal way down, and all below its end."""
        node = self._root
        for segment in segments:
            if patterns.is_wild(segment):
                break
            yield from _at(node)
            node = node.children[segment]  # its own way down is in the tree
        below = [node]
        for place in below:  # grows while it is walked
            yield from _at(place)
            below += place.children.values()


def _at(node: _Node) -> Iterator[int]:
    if node.end is not None:
        yield node.end
    yield from node.wild


@dataclass(frozen=True, slots=True)
class Listing:
    """Pairs of tasks in conflict that `depends_on` leaves unordered: (task, task, file or resource), in plan order."""

    pairs: list[tuple[TaskId, TaskId, str]]
    complete: bool
    """Whether these are all; a listing is cut short where there are too many, or too much had to be compared."""
    compared: int
    """Pairs of patterns that were compared."""


def pairs(plan: Plan, limit: int = MAX_PAIRS) -> list[tuple[TaskId, TaskId, str]]:
    """Return the conflicts of a plan, each pair once with its first key; no more than `limit`. See `listing`."""
    return listing(plan, limit).pairs


def listing(
    plan: Plan, limit: int = MAX_PAIRS, may_compare: int = MAX_COMPARED, options: RunOptions | None = None
) -> Listing:
    """List the conflicts of a plan, at most `limit`, in bounded time: what is cut short is a list for people.

    The scheduler does not use it: it keeps all tasks in conflict apart.
    """
    keys = Keys(plan, options)
    suspects, complete = _suspects(keys, len(plan.tasks), may_compare)
    found: list[tuple[int, int]] = []
    order = graph.build(plan.tasks)
    for start in range(0, len(suspects), _BLOCK):
        block = suspects[start : start + _BLOCK]
        found += islice(_unordered(keys, block, suspects, _related(order, block)), limit + 1 - len(found))
        if len(found) > limit:
            break
    tasks = plan.tasks
    named = ((a, b, keys.shared(a, b)) for a, b in sorted(found[:limit]))
    return Listing(
        [(tasks[a].id, tasks[b].id, on[1]) for a, b, on in named if on is not None],
        complete=complete and len(found) <= limit,
        compared=keys.compared,
    )


def _suspects(keys: Keys, tasks: int, may_compare: int) -> tuple[list[int], bool]:
    """Return the tasks that share a key with another one, and whether all were looked at."""
    all_claims = [keys.claims(index) for index in range(tasks)]
    holders = Counter(key for claims in all_claims for key, _ in claims)
    suspects: list[int] = []
    for index, claims in enumerate(all_claims):
        if keys.compared > may_compare:
            return suspects, False
        if any(sum(holders[other] for other in keys.neighbours(key)) > 1 for key, _ in claims):
            suspects.append(index)
    return suspects, True


def _related(order: graph.Graph, block: list[int]) -> list[int]:
    """Return for each task the members of `block` (as bits) that come before or after it by dependencies."""
    own = [0] * len(order.dependencies)
    for bit, index in enumerate(block):
        own[index] = 1 << bit
    before, after = own[:], own[:]
    for index in order.order:
        for dependency in order.dependencies[index]:
            before[index] |= before[dependency]
    for index in reversed(order.order):
        for dependant in order.dependants[index]:
            after[index] |= after[dependant]
    return [one | other for one, other in zip(before, after, strict=True)]


def _unordered(keys: Keys, block: list[int], suspects: list[int], related: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (a, b) with a in `block` and b behind it in the plan: in conflict, and not related."""
    claimed: dict[int, int] = {}
    written: dict[int, int] = {}
    for bit, index in enumerate(block):
        for key, exclusive in keys.claims(index):
            claimed[key] = claimed.get(key, 0) | 1 << bit
            if exclusive:
                written[key] = written.get(key, 0) | 1 << bit
    for index in suspects:
        rivals = 0
        for key, exclusive in keys.claims(index):
            held = claimed if exclusive else written
            for other in keys.neighbours(key):
                rivals |= held.get(other, 0)
        rivals &= ~related[index]
        while rivals:
            lowest = rivals & -rivals
            rivals ^= lowest
            if (rival := block[lowest.bit_length() - 1]) < index:
                yield rival, index
