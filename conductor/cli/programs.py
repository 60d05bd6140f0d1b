"""Which programs that commands start are not there, as far as can be told before the run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable

from bus.wire import TaskId
from conductor.core.task import TaskSpec
from conductor.core.wording import few
from conductor.runtime.command import Places

_OURS = "conductor"
"""What is put on the PATH of every command."""


def missing_programs(commands: Iterable[tuple[TaskSpec, tuple[str, ...]]], places: Places) -> list[str]:
    """Return a note for each program that a task's command, or what verifies it, starts and that is not found.

    It is no error: a task may make or install it. Names that a template fills in are not looked for.
    """
    missing: dict[str, list[TaskId]] = {}
    looked_for: dict[tuple[str, str], bool] = {}
    for task, command in commands:
        path = task.env.get("PATH", places.path)
        for program in dict.fromkeys(words[0] for words in (command, *task.verify) if words):
            if "{" in program or program == _OURS:
                continue
            if (program, path) not in looked_for:
                looked_for[program, path] = _exists(program, path, places.project)
            if not looked_for[program, path]:
                missing.setdefault(program, []).append(task.id)
    return [
        f"the program {program} is not found ({'task' if len(tasks) == 1 else 'tasks'} {few(tasks)});"
        " it has to be there when the task starts"
        for program, tasks in missing.items()
    ]


def _exists(program: str, path: str, project: str) -> bool:
    if "/" not in program:
        return shutil.which(program, path=path) is not None
    file = os.path.join(project, program)
    return os.path.isfile(file) and os.access(file, os.X_OK)
