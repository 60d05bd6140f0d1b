"""Warnings: what is odd in a plan and does not stop the run. The codes are stable.

Tasks
    tasks_ticked              boxes are ticked already; the tasks run all the same
    did_you_mean              an unknown key is close to a known one
    not_supported_yet         a key whose feature this version does not have
    reverse_dependency        `blocks` and the like name tasks; only `depends_on` orders them
    duplicate_dependency      a dependency is named twice
    estimate_unknown          `estimated_duration` cannot be read
    file_note                 a note was split off an entry of `files`, `reads` or `outputs`
    file_not_a_path           prose in place of a path; it is left out
    file_outside_project      an absolute path, or one that leaves the project by `..`
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
    group_field               a value of a group that cannot be read

Track
    plan_md_missing           the DAG stands in its own file and there is no plan.md
    metadata_invalid          metadata.json cannot be read; nothing is needed from it
"""

from __future__ import annotations

from conductor.core.task import PlanWarning

MAX_PER_CODE = 20
"""Warnings of one code that are written out; the rest is one line with a count."""


class Warnings:
    """Collects warnings in the order in which they are found."""

    def __init__(self) -> None:
        self._found: list[PlanWarning] = []
        self._counts: dict[str, int] = {}

    def add(self, code: str, message: str, line: int = 0) -> None:
        """Note one oddity."""
        count = self._counts.get(code, 0) + 1
        self._counts[code] = count
        if count <= MAX_PER_CODE:
            self._found.append(PlanWarning(code, message, line))

    def full(self, code: str) -> bool:
        """Whether further warnings of this code would only be counted."""
        return self._counts.get(code, 0) >= MAX_PER_CODE

    def all(self) -> tuple[PlanWarning, ...]:
        """Return what was found, with one more line for each code that was cut off."""
        rest = [
            PlanWarning(code, f"and {count - MAX_PER_CODE:,} more of the kind {code}")
            for code, count in self._counts.items()
            if count > MAX_PER_CODE
        ]
        return (*self._found, *rest)
