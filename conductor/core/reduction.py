"""Reduction of a wait-for graph whose nodes need all of several things, each of which any of some nodes can give.

Whoever needs nothing can finish, and gives what he has; who is left when nothing more can be taken away never finishes.
Nodes are numbers. Linear in the size of the graph, without recursion.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

Needs = Mapping[int, Sequence[Collection[int]]]
"""By node: a list of choices. A node finishes once of each choice one node has finished. No choice: at once; an empty
one: never. Nodes that are named and have no entry can finish."""


def stuck(needs: Needs) -> set[int]:
    """Return the nodes that can never finish."""
    lacking = {node: len(choices) for node, choices in needs.items()}
    users: dict[int, list[tuple[int, int]]] = {}
    for node, choices in needs.items():
        for number, choice in enumerate(choices):
            for other in choice:
                users.setdefault(other, []).append((node, number))
    free = [node for node, count in lacking.items() if count == 0]
    free += [node for node in users if node not in lacking]
    met: set[tuple[int, int]] = set()
    for node in free:  # grows while it is walked
        for user in users.get(node, ()):
            if user not in met:
                met.add(user)
                lacking[user[0]] -= 1
                if lacking[user[0]] == 0:
                    free.append(user[0])
    return {node for node, count in lacking.items() if count}


def knots(needs: Needs, left: Collection[int], starts: Iterable[int]) -> Iterator[list[int]]:
    """Yield the nodes of `left` (that are stuck) in sets that need each other around; each set before any other that
    needs one of it. Only what `starts` need, near or far."""
    return _components({node: _lacked(needs[node], left) for node in left}, starts)


def _lacked(choices: Sequence[Collection[int]], left: Collection[int]) -> list[int]:
    """Return the members of all choices that nobody can give."""
    return list(dict.fromkeys(other for choice in choices if all(one in left for one in choice) for other in choice))


def _components(edges: Mapping[int, Sequence[int]], starts: Iterable[int]) -> Iterator[list[int]]:
    """Yield the strongly connected components (Tarjan's algorithm, with a stack of its own)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    for start in starts:
        todo = [(start, iter(edges[start]))] if start not in number else []
        while todo:
            node, rest = todo[-1]
            if node not in number:
                number[node] = low[node] = len(number)
                path.append(node)
                on_path.add(node)
            for other in rest:
                if other not in number:
                    todo.append((other, iter(edges[other])))
                    break
                if other in on_path:
                    low[node] = min(low[node], number[other])
            else:
                todo.pop()
                if todo:
                    low[todo[-1][0]] = min(low[todo[-1][0]], low[node])
                if low[node] == number[node]:
                    yield _cut(path, on_path, node)


def _cut(path: list[int], on_path: set[int], node: int) -> list[int]:
    """Take the path from `node` on away, and return it."""
    found: list[int] = []
    while not found or found[-1] != node:
        found.append(path.pop())
    on_path.difference_update(found)
    return found[::-1]
