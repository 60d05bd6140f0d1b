"""From a task to the order for its worker: argument list, environment, prompt. Pure.

Templates are split into arguments first; values are put in afterwards and never reach a shell. A value that would make
an argument begin with `-` is refused, because the command would take it for an option.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bus import layout
from bus.wire import AttemptId, WorkerSpec, dumps
from conductor.config import Settings
from conductor.core.file_locks import locks_of
from conductor.core.task import Plan, RunOptions, TaskSpec
from conductor.errors import ConductorError, PlanError
from conductor.runtime.retries import Before

_TOKEN = re.compile(r"\{\{|\}\}|\{([A-Za-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Places:
    """Where a run works; all paths absolute."""

    track: str
    project: str
    bus: str
    path: str
    """The inherited PATH; commands get ours before it, so that `conductor bus …` is this program."""


@dataclass(frozen=True, slots=True)
class Filling:
    """Where the values of a template come from."""

    task: TaskSpec
    attempt: AttemptId
    number: int
    places: Places
    prompt_file: str


NAMES: Mapping[str, Callable[[Filling], str]] = {
    "task_id": lambda of: of.task.id,
    "task_name": lambda of: of.task.name,
    "task_type": lambda of: of.task.type,
    "attempt": lambda of: of.attempt,
    "attempt_number": lambda of: str(of.number),
    "track_dir": lambda of: of.places.track,
    "project_dir": lambda of: of.places.project,
    "prompt_file": lambda of: of.prompt_file,
}
"""What a template may name in braces; `{{` and `}}` stand for single braces."""


def unknown_names(template: Iterable[str]) -> list[str]:
    """Return the `{names}` of a template that are not known, each once: they stay as they are. `${…}` is a shell's."""
    found = (match for argument in template for match in _TOKEN.finditer(argument))
    names = (match[1] for match in found if not match.string[: match.start()].endswith("$"))
    return [f"{{{name}}}" for name in dict.fromkeys(names) if name is not None and name not in NAMES]


def render(template: Iterable[str], values: Mapping[str, str], *, what: str) -> tuple[str, ...]:
    """Put `values` into each argument of `template`.

    Raises ConductorError where a value would turn an argument into an option. Unknown `{names}` stay as they are.
    """
    return tuple(_render_one(argument, values, what) for argument in template)


def _render_one(argument: str, values: Mapping[str, str], what: str) -> str:
    def put(match: re.Match[str]) -> str:
        token = match.group(0)
        if token in ("{{", "}}"):
            return token[0]
        return values.get(match.group(1), token)

    result = _TOKEN.sub(put, argument)
    if result.startswith("-") and not argument.startswith("-"):
        raise ConductorError(
            "plan_field",
            f"{what}: the value put into `{argument}` begins with `-`, so the command would take it for an option",
            hint=f"write it behind an option of the command, such as --name={argument}",
        )
    return result


def template_of(task: TaskSpec, options: RunOptions) -> tuple[tuple[str, ...], bool] | None:
    """Return the task's argument list and whether it is a template; None where nothing says how to run it."""
    if task.run is not None:
        return task.run, False
    if task.agent is None and options.command is not None:
        return options.command, True
    return None


def command_notes(needed: Sequence[TaskSpec], options: RunOptions) -> list[str]:
    """Say what of the command or the agent that was given will have no effect on the tasks that are run."""
    templates = [found[0] for task in needed if (found := template_of(task, options)) and found[1]]
    notes = []
    if templates and (unknown := unknown_names(templates[0])):
        known = " ".join(f"{{{name}}}" for name in NAMES)
        notes.append(f"unknown placeholders of the command stay as they are: {', '.join(unknown)}; known: {known}")
    if needed and options.agent is not None:
        notes.append(f"the agent {options.agent} is not used: every task has a command")
    return notes


def check_workers(plan: Plan, options: RunOptions, needed: Iterable[TaskSpec], places: Places) -> None:
    """Raise before any work where a task has nothing to run it, or cannot be put into the command for all tasks."""
    for task in needed:
        if task.run is None and not task.manual:
            _check_worker(task, plan, options)
            order(task, layout.attempt_id(task.id, 1, "0" * 8), 1, "0" * 8, 0, options, Settings(), places)


def _check_worker(task: TaskSpec, plan: Plan, options: RunOptions) -> None:
    def plan_error(code: str, message: str, hint: str) -> PlanError:
        return PlanError(code, f"task {task.id} {message}", path=plan.source, line=task.line or None, hint=hint)

    if task.agent is not None:
        message = f"asks for the agent `{task.agent['name']}`, and this version runs commands only"
        raise plan_error(
            "agent_missing", message, "replace its `agent:` by a `run:` that starts the agent as a command"
        )
    if options.command is not None:
        return
    if options.agent is not None:
        message = f"would be given to the agent `{options.agent}`, and this version runs commands only"
        raise plan_error(
            "agent_missing", message, f"start it as a command: --command '{options.agent} … {{prompt_file}}'"
        )
    message = f"({task.name}) has no command: the plan has no `run:` for it, and none was given"
    hint = "give the task a `run:`, or all tasks one: conductor run TRACK --command 'my-worker {task_id}'"
    raise plan_error("no_worker", message, hint)


def order(
    task: TaskSpec,
    attempt: AttemptId,
    number: int,
    nonce: str,
    epoch: int,
    options: RunOptions,
    settings: Settings,
    places: Places,
) -> WorkerSpec:
    """Make the order for one attempt."""
    found = template_of(task, options)
    if found is None:
        raise PlanError("no_worker", f"task {task.id} has no command")
    template, is_template = found
    folder = f"{places.bus}/{layout.attempt_dir(attempt)}"
    prompt_file, task_file = f"{folder}/{layout.PROMPT}", f"{folder}/{layout.TASK}"
    argv = template
    if is_template:
        filling = Filling(task, attempt, number, places, prompt_file)
        argv = render(template, {name: get(filling) for name, get in NAMES.items()}, what=f"task {task.id}")
    wants_prompt = any("{prompt_file}" in word or "CONDUCTOR_PROMPT_FILE" in word for word in template)
    wants_task = any("CONDUCTOR_TASK_FILE" in word for word in template)
    env = {
        "CONDUCTOR_TRACK_DIR": places.track,
        "CONDUCTOR_BUS_DIR": places.bus,
        "CONDUCTOR_PROJECT_DIR": places.project,
        "CONDUCTOR_TASK_ID": task.id,
        "CONDUCTOR_TASK_NAME": task.name,
        "CONDUCTOR_TASK_TYPE": task.type,
        "CONDUCTOR_ATTEMPT": attempt,
        "CONDUCTOR_ATTEMPT_NUMBER": str(number),
        "CONDUCTOR_NONCE": nonce,
        "CONDUCTOR_FILES": "\n".join(task.files),
        "CONDUCTOR_BIN": f"{places.bus}/bin/conductor",
    }
    if wants_prompt:
        env["CONDUCTOR_PROMPT_FILE"] = prompt_file
    if wants_task:
        env["CONDUCTOR_TASK_FILE"] = task_file
    return WorkerSpec(
        bus=places.bus,
        attempt=attempt,
        epoch=epoch,
        task=task.id,
        number=number,
        nonce=nonce,
        argv=argv,
        cwd=places.project,
        env={**env, **task.env, "PATH": f"{places.bus}/bin:{task.env.get('PATH', places.path)}"},
        timeout=timeout_of(task, options),
        ladder=settings.ladder,
        verify=task.verify,
        outputs=task.outputs,
        leftovers=task.leftovers or options.leftovers,
        never_kill=settings.never_kill,
        heartbeat=settings.heartbeat,
        stale_after=stale_after(task, options),
        files=task.files,
        locks=locks_of(task, options),
        log_cap=settings.log_cap,
        durable=options.durability == "power",
    )


def timeout_of(task: TaskSpec, options: RunOptions) -> float | None:
    """Return the seconds that the command of the task may take; None is no limit."""
    return (options.timeout if task.timeout is None else task.timeout) or None


def stale_after(task: TaskSpec, options: RunOptions) -> float | None:
    """Return the seconds without a sign of life after which an attempt of the task is quiet; None is never."""
    return (options.stale_after if task.stale_after is None else task.stale_after) or None


def prompt_text(task: TaskSpec, before: Before | None = None) -> str:
    """The task in words, for a command that names `{prompt_file}`; `before` is the attempt that failed."""
    parts = [f"# Task {task.id}: {task.name}"]
    if task.instructions:
        parts.append(task.instructions)
    if task.prose:
        parts.append("From the plan:\n\n" + task.prose.strip())
    if task.acceptance:
        parts.append(f"Done means:\n{task.acceptance}")
    if task.files:
        parts.append("Files to write:\n" + "\n".join(f"- {name}" for name in task.files))
    if task.reads:
        parts.append("Files to read:\n" + "\n".join(f"- {name}" for name in task.reads))
    if before is not None:
        parts.append(before.as_text())
    return "\n\n".join(parts) + "\n"


def task_json(task: TaskSpec, attempt: AttemptId, number: int, before: Before | None = None) -> bytes:
    """The task as data, for a command that names `CONDUCTOR_TASK_FILE`; `before` is the attempt that failed."""
    data = {
        "task_id": task.id,
        "name": task.name,
        "type": task.type,
        "attempt": attempt,
        "attempt_number": number,
        "depends_on": list(task.depends_on),
        "files": list(task.files),
        "reads": list(task.reads),
        "outputs": list(task.outputs),
        "acceptance": task.acceptance,
        "instructions": task.instructions,
        "prose": task.prose,
        "extra": dict(task.extra),
        "previous": before.as_data() if before else None,
    }
    return dumps(data).encode() + b"\n"
