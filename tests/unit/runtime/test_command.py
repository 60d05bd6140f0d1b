"""From a task to its order: templates, environment, what is refused before any work."""

from __future__ import annotations

import json

import pytest

from bus.layout import attempt_id
from bus.wire import TaskId
from conductor.config import Settings
from conductor.core.task import Plan, RunOptions, TaskSpec
from conductor.errors import ConductorError
from conductor.runtime.command import (
    NAMES,
    Places,
    check_workers,
    command_notes,
    order,
    prompt_text,
    render,
    task_json,
    unknown_names,
)

PLACES = Places(track="/p/track", project="/p", bus="/p/track/.message-bus", path="/usr/bin:/bin")


def task(**fields: object) -> TaskSpec:
    values: dict[str, object] = {"id": TaskId("1.1"), "name": "Say hello", "index": 0, **fields}
    return TaskSpec(**values)  # type: ignore[arg-type]


def test_known_names_are_replaced_in_each_argument_and_braces_are_escaped() -> None:
    values = {"task_id": "1.1", "task_name": "two words; rm -rf /"}
    assert render(("echo", "{task_id}: {task_name}", "{{task_id}}", "{unknown}", "{"), values, what="t") == (
        "echo",
        "1.1: two words; rm -rf /",
        "{task_id}",
        "{unknown}",
        "{",
    )


@pytest.mark.parametrize("argument", ["{task_name}", "{task_name}.txt", "{task_name}{task_id}"])
def test_a_value_cannot_become_an_option(argument: str) -> None:
    with pytest.raises(ConductorError, match="option") as caught:
        render(("rm", argument), {"task_name": "-rf", "task_id": "1"}, what="task 1")
    assert caught.value.code == "plan_field"
    assert caught.value.hint


def test_a_value_behind_an_option_is_fine_whatever_it_begins_with() -> None:
    assert render(("x", "--name={task_name}", "-{task_name}"), {"task_name": "-f"}, what="t")[1:] == (
        "--name=-f",
        "--f",
    )


def make(spec: TaskSpec, options: RunOptions = RunOptions()) -> tuple[str, ...]:  # noqa: B008 - frozen
    attempt = attempt_id(spec.id, 2, "0a1b2c3d")
    return tuple(order(spec, attempt, 2, "0a1b2c3d", 7, options, Settings(), PLACES).argv)


def test_a_tasks_own_command_is_taken_as_it_is_and_wins_over_the_template() -> None:
    options = RunOptions(command=("template", "{task_id}"))
    assert make(task(run=("echo", "{task_id}")), options) == ("echo", "{task_id}")
    assert make(task(), options) == ("template", "1.1")


def test_the_order_names_everything_a_command_is_given() -> None:
    attempt = attempt_id(TaskId("1.1"), 2, "0a1b2c3d")
    spec = order(
        task(run=("true",), files=("a.py", "b/*"), env={"A": "b", "PATH": "/opt/bin"}),
        attempt,
        2,
        "0a1b2c3d",
        7,
        RunOptions(timeout=5.0, durability="process"),
        Settings(),
        PLACES,
    )
    assert spec.env == {
        "CONDUCTOR_TRACK_DIR": "/p/track",
        "CONDUCTOR_BUS_DIR": "/p/track/.message-bus",
        "CONDUCTOR_PROJECT_DIR": "/p",
        "CONDUCTOR_TASK_ID": "1.1",
        "CONDUCTOR_TASK_NAME": "Say hello",
        "CONDUCTOR_TASK_TYPE": "code",
        "CONDUCTOR_ATTEMPT": attempt,
        "CONDUCTOR_ATTEMPT_NUMBER": "2",
        "CONDUCTOR_NONCE": "0a1b2c3d",
        "CONDUCTOR_FILES": "a.py\nb/*",
        "CONDUCTOR_BIN": "/p/track/.message-bus/bin/conductor",
        "A": "b",
        "PATH": "/p/track/.message-bus/bin:/opt/bin",
    }
    assert (spec.cwd, spec.timeout, spec.epoch, spec.durable) == ("/p", 5.0, 7, False)


@pytest.mark.parametrize(
    ("own", "option", "expected"),
    [(None, 10.0, 10.0), (3.0, 10.0, 3.0), (0.0, 10.0, None), (None, None, None), (3.0, None, 3.0)],
)
def test_a_tasks_own_time_limit_wins_and_zero_is_none(
    own: float | None, option: float | None, expected: float | None
) -> None:
    spec = task(run=("true",), timeout=own)
    attempt = attempt_id(spec.id, 1, "0a1b2c3d")
    assert order(spec, attempt, 1, "0a1b2c3d", 1, RunOptions(timeout=option), Settings(), PLACES).timeout == expected


def test_prompt_and_task_file_exist_only_where_the_command_names_them() -> None:
    def env(*command: str) -> set[str]:
        spec = task()
        attempt = attempt_id(spec.id, 1, "0a1b2c3d")
        made = order(spec, attempt, 1, "0a1b2c3d", 1, RunOptions(command=command), Settings(), PLACES)
        return {name for name in made.env if name.endswith("_FILE")}

    assert env("true") == set()
    assert env("agent", "{prompt_file}") == {"CONDUCTOR_PROMPT_FILE"}
    assert env("sh", "-c", "cat $CONDUCTOR_TASK_FILE") == {"CONDUCTOR_TASK_FILE"}


def test_the_prompt_says_what_the_plan_says() -> None:
    text = prompt_text(
        task(prose="- [ ] Task 1.1", acceptance="it greets", files=("a.py",), reads=("b.py",), instructions="Be brief.")
    )
    for part in ("Task 1.1: Say hello", "Be brief.", "- [ ] Task 1.1", "it greets", "- a.py", "- b.py"):
        assert part in text
    attempt = attempt_id(TaskId("1.1"), 1, "0a1b2c3d")
    assert json.loads(task_json(task(files=("a.py",)), attempt, 1))["files"] == ["a.py"]


def test_a_task_without_a_worker_is_refused_before_any_work_with_its_line() -> None:
    plan = Plan((task(line=12),))
    with pytest.raises(ConductorError) as caught:
        check_workers(plan, RunOptions(), plan.tasks, PLACES)
    assert (caught.value.code, caught.value.line) == ("no_worker", 12)
    assert "--command" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("fields", "options"),
    [({"agent": {"name": "claude"}}, RunOptions(command=("true",))), ({}, RunOptions(agent="claude"))],
)
def test_an_agent_is_refused_by_name_and_never_replaced(fields: dict[str, object], options: RunOptions) -> None:
    plan = Plan((task(**fields),))
    with pytest.raises(ConductorError, match="claude") as caught:
        check_workers(plan, options, plan.tasks, PLACES)
    assert caught.value.code == "agent_missing"


def test_every_known_name_is_filled_in() -> None:
    template = ("x", *(f"={{{name}}}" for name in NAMES))
    filled = make(task(), RunOptions(command=template))
    assert not any("{" in argument for argument in filled)
    assert dict(zip(NAMES, filled[1:], strict=True))["attempt_number"] == "=2"


def test_placeholders_that_are_not_known_are_named_with_those_that_are() -> None:
    template = ("work", "{task_id} {nope}", "{prompt_fle}", "{{escaped}}", "${HOME} {nope}", '{"a": 1}')
    assert unknown_names(template) == ["{nope}", "{prompt_fle}"]
    (note,) = command_notes([task()], RunOptions(command=template))
    assert "stay as they are: {nope}, {prompt_fle}; known: {task_id} " in note
    assert "{prompt_file}" in note
    assert command_notes([task(run=("true",))], RunOptions(command=template)) == []
    assert command_notes([task()], RunOptions(command=("work", "{task_id}"))) == []


def test_an_agent_that_no_task_needs_is_noted() -> None:
    needed = [task(run=("true",))]
    assert command_notes(needed, RunOptions(agent="claude")) == [
        "the agent claude is not used: every task has a command"
    ]
    assert command_notes(needed, RunOptions()) == []
