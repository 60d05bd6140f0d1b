"""Warnings: what is odd in a plan and does not stop the run. The codes are stable.

Tasks
    tasks_ticked              boxes are ticked already; the tasks run all the same
    did_you_mean              an unknown key is close to a known one
    key_without_effect        keys that nothing acts on; of tasks once for the plan, but for those that only describe
                              (description, note, status, owner, tags, … : `_DESCRIPTIVE` in unknown_keys.py)
    not_supported_yet         something is asked for that this version does not do; what happens instead
    reverse_dependency        `blocks` and the like name tasks; only `depends_on` orders them
    duplicate_dependency      a dependency is named twice
    estimate_unknown          `estimated_duration` cannot be read
    file_note                 a note was split off an entry of `files`, `reads` or `outputs`
    file_not_a_path           prose in place of a path; it is left out
    file_outside_project      an absolute path, or one that begins with `..`: name files from the project
    manual_without_worker     a task for a person has what only a worker heeds
    pure_read_writes          a task says that it is a pure read and names files that it writes
    shell_variable            `$NAME` in a command that no shell will see
    command_not_split         an argument list of one entry with spaces in it
    verify_looks_like_one     `verify` lists words; each entry is a command of its own

Groups
    group_empty               no tasks
    group_unknown_task        names a task that does not exist
    group_duplicate_id        two groups share an id
    group_duplicate_task      a task stands in a group twice, or in two groups
    group_chain               members depend on each other
    group_levels              members are on different levels of the graph
    group_waits               groups wait for tasks that stand in no group; once for the plan
    group_order               a group names what it depends on; only tasks are ordered
    group_shared_files        `conflict_free: true`, and members write the same file
    group_not_compared        `conflict_free: true`, and there is too much to compare
    group_field               a value of a group that cannot be read

Only of `conductor plan`
    run_timeout_short         the worst case of time is longer than the limit of the run
    conflicts_cut_off         not all conflicts are listed
    no_worker                 tasks without a command; `run` refuses them unless it is given one
    agent_missing             tasks that ask for an agent; `run` refuses them

Track
    plan_md_missing           the DAG stands in its own file and there is no plan.md
    metadata_invalid          metadata.json cannot be read; nothing is needed from it
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from conductor.core.task import PlanWarning

MAX_PER_CODE = 20
"""Warnings of one code that are kept word for word; the rest is one line with a count."""

_EACH = frozenset(("not_supported_yet",))
"""Codes of which a short list shows every line, before all others: what was asked for and is not done."""


@dataclass(slots=True)
class _Kept:
    """A warning, and how often the same was to be said."""

    code: str
    message: str
    line: int
    times: int = 1


class Warnings:
    """Collects warnings in the order in which they are found. What would be said twice is said once, with a count."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._of_code: dict[str, int] = {}
        self._left_out: dict[str, int] = {}

    def add(self, code: str, message: str, line: int = 0) -> None:
        """Note one oddity; `line` is where it was found first."""
        known = self._kept.get((code, message))
        if known is not None:
            known.times += 1
        elif self.full(code):
            self._left_out[code] = self._left_out.get(code, 0) + 1
        else:
            self._of_code[code] = self._of_code.get(code, 0) + 1
            self._kept[code, message] = _Kept(code, message, line)

    def full(self, code: str) -> bool:
        """Whether further warnings of this code would only be counted."""
        return self._of_code.get(code, 0) >= MAX_PER_CODE

    def all(self) -> tuple[PlanWarning, ...]:
        """Return what was found, with one more line for each code that was cut off."""
        kept = [
            PlanWarning(one.code, one.message + (f" ({one.times:,} places)" if one.times > 1 else ""), one.line)
            for one in self._kept.values()
        ]
        rest = [
            PlanWarning(code, f"and {count:,} more of the kind {code}", more=count)
            for code, count in self._left_out.items()
        ]
        return (*kept, *rest)


def brief(warnings: Iterable[PlanWarning], *, each: int = 1) -> list[PlanWarning]:
    """Return the first `each` warnings of every code; the last of them says how many more there are.

    What has no effect comes first, every line of it.
    """
    shown: dict[str, list[PlanWarning]] = {}
    others: dict[str, int] = {}
    for one in warnings:
        of_code = shown.setdefault(one.code, [])
        if one.more or (len(of_code) >= each and one.code not in _EACH):
            others[one.code] = others.get(one.code, 0) + (one.more or 1)
        else:
            of_code.append(one)
    for code, count in others.items():
        last = shown[code][-1]
        shown[code][-1] = replace(last, message=f"{last.message}; and {count:,} more like it")
    return [one for code in sorted(shown, key=lambda code: code not in _EACH) for one in shown[code]]
