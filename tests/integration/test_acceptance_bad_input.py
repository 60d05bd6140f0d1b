"""Bad input ends with a code, a place and a hint, before any work, and with nothing written."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.tools import START, Finished, Project, listing


def dag(*lines: str) -> str:
    """A plan.md with these lines below `dag:`, the first of them on line 5."""
    return "\n".join(["# Plan", "", "```yaml", "dag:", *(f"  {line}" for line in lines), "```", ""])


def nodes(*flow: str) -> str:
    """A plan.md with these nodes in flow style, the first of them on line 6."""
    return dag("nodes:", *(f"  - {{{node}}}" for node in flow))


@dataclass(frozen=True)
class Bad:
    """A plan, the code that it must be refused with, and what the message must say."""

    text: str
    code: str
    line: int | None = None
    says: tuple[str, ...] = ()


TWICE = nodes('id: "1", name: a', 'id: "1", name: b')
PLANS = {
    "empty file": Bad("", "plan_no_dag"),
    "check boxes only": Bad("# Plan\n\n- [ ] Task: do it\n- [x] Task: done\n", "plan_no_dag", says=("dag",)),
    "no nodes": Bad(dag("nodes: []"), "plan_*"),
    "nodes missing": Bad(dag("parallel_groups: []"), "plan_*"),
    "unknown dependency": Bad(
        nodes('id: "1", name: a', 'id: "2", name: b, depends_on: ["1.0"]'), "plan_unknown_dependency", 7, ("1.0",)
    ),
    "dependency by prefix": Bad(
        nodes('id: "3.10", name: a', 'id: b, depends_on: ["3.1"]'), "plan_unknown_dependency", 7
    ),
    "duplicate id": Bad(TWICE, "plan_duplicate_id", 7, ("6",)),
    "duplicate unquoted id": Bad(nodes("id: 1.10, name: a", 'id: "1.10", name: b'), "plan_duplicate_id", 7),
    "self-dependency": Bad(nodes('id: "1", name: a, depends_on: ["1"]'), "plan_cycle", says=("1",)),
    "cycle": Bad(
        nodes("id: a, depends_on: [c]", "id: b, depends_on: [a]", "id: c, depends_on: [b]", "id: d"),
        "plan_cycle",
        says=("a", "b", "c"),
    ),
    "two graphs": Bad(TWICE + TWICE, "plan_two_dags", says=("3", "11")),
    "tab": Bad(dag("nodes:", "\t- id: a"), "plan_yaml", 6),
    "open bracket": Bad(dag("nodes: [{id: a}"), "plan_yaml"),
    "tag": Bad(nodes("id: !!python/object:os.system a"), "plan_yaml", 6),
    "alias": Bad(dag("nodes: &n", "  - {id: a, depends_on: *n}"), "plan_yaml"),
    "key twice": Bad(nodes("id: a, id: b"), "plan_yaml", 6),
    "deep": Bad(dag("nodes: " + "[" * 5000), "plan_yaml"),
    "nodes as text": Bad(dag("nodes: a"), "plan_field"),
    "node as text": Bad(dag("nodes: [a]"), "plan_field"),
    "no id": Bad(nodes("name: a"), "plan_bad_id", 6),
    "empty id": Bad(nodes('id: ""'), "plan_bad_id", 6),
    "id of 300 characters": Bad(nodes(f"id: {'x' * 300}"), "plan_bad_id", 6),
    "id with NUL": Bad(nodes('id: "a\\0b"'), "plan_*", 6),
    "id with newline": Bad(nodes('id: "a\\nb"'), "plan_bad_id", 6),
    "id with escape": Bad(nodes('id: "\\e[31m"'), "plan_bad_id", 6),
    "ids equal by case": Bad(nodes("id: Ab", "id: aB"), "plan_id_collision", 7),
    "ids equal when composed": Bad(nodes("id: \u00e9", "id: e\u0301"), "plan_id_collision", 7),
    "shell in run": Bad(nodes('id: a, run: "make && make test"'), "plan_field", 6, ("&&",)),
    "pipe in verify": Bad(nodes('id: a, verify: ["ls | wc"]'), "plan_field", 6),
    "empty run": Bad(nodes("id: a, run: []"), "plan_field", 6),
    "timeout": Bad(nodes("id: a, timeout: soon"), "plan_field", 6, ("soon",)),
    "retries": Bad(nodes("id: a, retries: -1"), "plan_field", 6),
    "fan-out": Bad(
        dag(
            "limits: {max_fan_out: 2}", "nodes:", "  - {id: a}", *(f"  - {{id: b{i}, depends_on: [a]}}" for i in "123")
        ),
        "fan_out_exceeded",
        says=("a", "3", "2"),
    ),
    "join width": Bad(
        dag("limits: {max_join_width: 1}", "nodes:", "  - {id: a}", "  - {id: b}", "  - {id: c, depends_on: [a, b]}"),
        "join_width_exceeded",
        says=("c",),
    ),
    "task count": Bad(dag("limits: {max_tasks: 1}", "nodes:", "  - {id: a}", "  - {id: b}"), "task_count_exceeded"),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_bad_plan_is_refused_before_any_work(project: Project, name: str) -> None:
    bad = PLANS[name]
    (project.track / "plan.md").write_text(bad.text, encoding="utf-8")
    before = listing(project.root)
    finished = project.run("--json", "--command", "touch ran")
    check_error(finished, 3, bad.code, says=bad.says)
    error = finished.error
    assert error["path"].endswith("plan.md")
    if bad.line is not None:
        assert error["line"] == bad.line
    assert error["hint"]
    assert_untouched(project, before)


def check_error(finished: Finished, code: int, name: str, says: tuple[str, ...] = ()) -> None:
    """One error object, alone on stdout; nothing of a traceback; no control characters."""
    finished.expect(code)
    assert len(finished.out.splitlines()) == 1, finished.out
    error = finished.error
    assert set(error) == {"code", "message", "path", "line", "hint"}
    assert error["code"] == name or (name.endswith("*") and error["code"].startswith(name[:-1])), error
    for word in says:
        assert word in error["message"], error


def assert_untouched(project: Project, before: dict[str, bytes | None]) -> None:
    """Nothing came or went but what these tests catch the output in."""
    after = {name: data for name, data in listing(project.root).items() if not name.startswith(("out-", "err-"))}
    before = {name: data for name, data in before.items() if not name.startswith(("out-", "err-"))}
    assert after == before


@pytest.mark.parametrize("verb", ["run", "plan"])
def test_people_are_told_the_place_and_what_to_do(project: Project, verb: str) -> None:
    (project.track / "plan.md").write_text(TWICE, encoding="utf-8")
    finished = project.call(verb, str(project.track)).expect(3)
    assert finished.out == ""
    assert "plan.md:7" in finished.err
    assert "hint" in finished.err
    assert len(finished.err.splitlines()) <= 4


def test_a_plan_that_is_no_text(project: Project) -> None:
    (project.track / "plan.md").write_bytes(b"\xff\xfe\x00```yaml\ndag:\n")
    check_error(project.run("--json"), 3, "plan_*")


def test_missing_things_are_named(project: Project) -> None:
    before = listing(project.root)
    check_error(project.run("--json"), 3, "plan_missing", says=("plan.md",))
    missing = project.root / "nowhere"
    for verb in ("run", "plan", "status"):
        finished = project.call(verb, str(missing), "--json")
        check_error(finished, 3, "plan_missing")
        assert "nowhere" in finished.error["path"]
    (project.track / "plan.md").write_text(TWICE, encoding="utf-8")
    file = project.call("run", str(project.track / "plan.md"), "--json")
    check_error(file, 3, "plan_missing")
    assert str(project.track) in file.error["hint"]
    (project.track / "plan.md").unlink()
    (project.track / "plan.md").mkdir()
    check_error(project.run("--json"), 3, "plan_missing")
    (project.track / "plan.md").rmdir()
    assert_untouched(project, before)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_plan_is_named(project: Project) -> None:
    (project.track / "plan.md").write_text(TWICE, encoding="utf-8")
    (project.track / "plan.md").chmod(0)
    check_error(project.run("--json"), 3, "plan_missing")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--max-workers", "0"), "usage"),
        (("--timeout", "soon"), "usage"),
        (("--retries", "-1"), "usage"),
        (("--on-conflict", "maybe"), "usage"),
        (("--no-such-flag",), "usage"),
        (("--command", "make && make test"), "usage"),
        (("--command", "'open"), "usage"),
        (("--command", ""), "usage"),
        (("--project", "nowhere"), "usage"),
        (("--only", "9"), "unknown_task"),
        (("--only", "b"), "usage"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_a_bad_command_line_is_refused_before_any_work(project: Project, arguments: tuple[str, ...], code: str) -> None:
    project.plan([project.task("a"), project.task("b", after=["a"])])
    before = listing(project.root)
    finished = project.run("--json", *arguments)
    check_error(finished, 2, code)
    if arguments == ("--only", "b"):
        assert "a" in finished.error["message"]
    assert_untouched(project, before)


def test_a_bad_verb_or_a_missing_track_is_told_in_json_as_well(project: Project) -> None:
    check_error(project.call("rum", "--json"), 2, "usage", says=("run",))
    check_error(project.call("run", "--json"), 2, "usage", says=("TRACK",))


@pytest.mark.parametrize("verb", ["why", "logs"])
def test_an_unknown_task_is_named_with_what_is_close(project: Project, verb: str) -> None:
    project.plan([project.task("task-1"), project.task("3.10")])
    project.run().expect(0)
    finished = project.call(verb, str(project.track), "task-2", "--json")
    check_error(finished, 2, "unknown_task", says=("task-2",))
    assert "task-1" in finished.error["hint"]
    check_error(project.call(verb, str(project.track), "3.1", "--json"), 2, "unknown_task")


def test_a_track_without_a_worker_is_refused_before_any_work(project: Project) -> None:
    project.plan([project.task("a"), {"id": "b", "name": "No command"}])
    before = listing(project.root)
    check_error(project.run("--json"), 3, "no_worker", says=("b",))
    text = project.run().expect(3)
    assert "--command" in text.err
    check_error(project.run("--json", "--agent", "nobody"), 3, "agent_missing", says=("nobody",))
    assert_untouched(project, before)


@pytest.mark.parametrize(
    "text",
    ["max_workers = 0\n", "tiemout = 3\n", "timeout = \n", 'on_conflict = "x"\n'],
    ids=["0", "key", "toml", "word"],
)
def test_a_bad_configuration_names_its_file(project: Project, text: str) -> None:
    project.plan([project.task("a")])
    project.config(text)
    before = listing(project.root)
    finished = project.run("--json")
    check_error(finished, 2, "usage")
    assert finished.error["path"].endswith("conductor.toml")
    assert_untouched(project, before)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["no-such-program-x"], "no-such-program-x"),
        (["./plain.txt"], "plain.txt"),
        (["./script"], "/no/such/interpreter"),
    ],
    ids=["missing", "not executable", "bad interpreter"],
)
def test_a_command_that_cannot_be_started_fails_its_task_and_says_why(
    project: Project, argv: list[str], says: str
) -> None:
    project.config('retry_delay = "0.01s"\n')
    (project.dir / "plain.txt").write_text("x")
    (project.dir / "script").write_text("#!/no/such/interpreter\n")
    (project.dir / "script").chmod(0o755)
    project.plan([{"id": "a", "name": "x", "run": argv}, project.task("b", after=["a"]), project.task("c")])
    finished = project.run().expect(1)
    task = project.status()["tasks"][0]
    assert task["status"] == "failed"
    assert task["error"]["class"] == "spawn"
    assert argv[0].removeprefix("./") in task["error"]["message"]
    assert argv[0].removeprefix("./") in finished.out + finished.err
    assert task["attempts"] == 0
    assert len(project.recorded("WORKER_DISPATCHED", "a")) <= 6
    assert project.starts() == ["c"]
    assert says


def test_a_value_cannot_become_an_option(project: Project) -> None:
    project.plan([{"id": "a", "name": "-n injected"}])
    before = listing(project.root)
    finished = project.run("--json", "--command", "echo {task_name}")
    finished.expect(3)
    assert finished.error["code"] == "plan_field"
    assert "a" in finished.error["message"]
    assert_untouched(project, before)
    project.run("--command", "echo --name={task_name}").expect(0)
    assert project.printed("a") == "--name=-n injected\n"


def test_only_known_names_are_replaced_and_never_twice(project: Project) -> None:
    project.plan([{"id": "a", "name": "{task_id} $(touch injected) `x`; {{", "type": "q"}])
    command = (
        "printf '%s|' {{task_id}} {nothing} {} {task_id}{task_type} '{task_name}' {attempt_number} '{{{task_id}}}'"
    )
    project.run("--command", command).expect(0)
    printed = project.printed("a")
    assert printed.rstrip("\n") == "{task_id}|{nothing}|{}|aq|{task_id} $(touch injected) `x`; {{|1|{a}|"
    assert not (project.dir / "injected").exists()


def test_odd_ids_stay_inside_the_bus(project: Project) -> None:
    ids = ["../../x", "a/b", "-dash", "CON", "~", "x y", ".", "..", "a~1-00000000", "%41", "ü", "x" * 200, "*", "a.b."]
    items: list[dict[str, Any]] = [{"id": id, "name": "Odd"} for id in ids]
    project.plan(items)
    before = listing(project.root, without=project.bus)
    project.run("--command", "true", "--durability", "process").expect(0)
    assert_untouched_but(project, before)
    assert project.statuses() == dict.fromkeys(ids, "done")
    assert len(list((project.bus / "events").glob("TASK_COMPLETE_*.event"))) == len(ids)
    for id in ("../../x", "-dash", "a/b"):
        assert "done" in project.call("why", str(project.track), "--", id).expect(0).out


def assert_untouched_but(project: Project, before: dict[str, bytes | None]) -> None:
    after = listing(project.root, without=project.bus)
    assert {name for name in after if not name.startswith(("out-", "err-"))} == {
        name for name in before if not name.startswith(("out-", "err-"))
    }


def test_foreign_text_cannot_steer_a_terminal(project: Project) -> None:
    evil = "\u202e\u2066gnp.exe\u009b31m"
    project.plan([project.shell("a", "printf '\\033]0;title\\007\\033[2J' >&2; exit 1", retries=0)])
    text = (project.track / "plan.md").read_text(encoding="utf-8").replace("Task a", json.dumps(evil)[1:-1])
    (project.track / "plan.md").write_text(text, encoding="utf-8")
    for finished in (
        project.run(),
        project.call("status", str(project.track)),
        project.call("why", str(project.track), "a"),
        project.call("events", str(project.track)),
        project.call("plan", str(project.track)),
    ):
        shown = finished.out + finished.err
        assert not {"\x1b", "\x07", "\u202e", "\u2066", "\x9b"} & set(shown), shown
        assert "Traceback" not in shown


def test_a_bus_that_others_may_write_is_refused(project: Project) -> None:
    project.plan([project.task("a")])
    project.run().expect(0)
    project.bus.chmod(0o777)
    check_error(project.run("--json"), 5, "bus_unsafe")
    project.bus.chmod(0o700)


def test_a_bus_that_is_a_link_or_a_file_is_refused(project: Project) -> None:
    project.plan([project.task("a")])
    elsewhere = project.root / "elsewhere"
    elsewhere.mkdir(0o700)
    project.bus.symlink_to(elsewhere)
    check_error(project.run("--json"), 5, "bus_*")
    assert not list(elsewhere.iterdir())
    project.bus.unlink()
    project.bus.write_text("x")
    check_error(project.run("--json"), 5, "bus_*")
    assert project.bus.read_text() == "x"


def test_a_bus_of_a_newer_format_is_refused(project: Project) -> None:
    project.plan([project.task("a")])
    project.run().expect(0)
    form = project.bus / "FORMAT"
    form.write_text(form.read_text().replace('"major":1', '"major":2').replace('"major": 1', '"major": 2'))
    for verb in ("run", "status"):
        check_error(project.call(verb, str(project.track), "--json"), 5, "bus_format")


def test_the_current_folder_may_be_gone(project: Project, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = ("sh", "-c", f'rmdir "{gone}"; exec "$0" "$@"', sys.executable, "-E", "-P", str(START))
    finished = project.call("status", str(project.track), program=program, cwd=gone)
    assert "Traceback" not in finished.out + finished.err
